//! A host's path to a volume, over any protocol, which the host can give up in several ways while a write lies
//! unread in the node's kernel.

use std::net::TcpStream;

use nearflash_direct::wire::RequestHeader;
use nearflash_direct::{Opcode, Status as DirectStatus};
use nearflash_iscsi::initiator::{CommandData, Status as ScsiStatus, cdb};
use nearflash_nvme::{Command, NamespaceId};
use nearflash_nvme_tcp::Digests;
use nearflash_units::Lba;
use socket2::SockRef;
use std::time::Duration;
use zerocopy::IntoBytes;

use crate::direct_wire::{DirectWire, request};
use crate::initiator::{Initiator, Who};
use crate::node::Node;
use crate::wire::{Admin, Wire, connect_command};

/// The length of a block, in bytes.
const BLOCK_LEN: u32 = 4096;

/// A protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the names are those of the protocols")]
pub enum Protocol {
    NvmeTcp,
    Iscsi,
    Direct,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::NvmeTcp, Self::Iscsi, Self::Direct];
}

/// How a host gives a path up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cut {
    /// It closes its connections: FIN.
    Close,
    /// It resets them: RST.
    Reset,
    /// It leaves them, and tells nobody: a cut network, or a host that lost its power.
    Silence,
}

impl Cut {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Close, Self::Reset, Self::Silence];
}

/// A path to volume `data`, whose blocks have 4096 bytes.
#[derive(Debug)]
pub struct Path(Inner);

#[derive(Debug)]
enum Inner {
    NvmeTcp { admin: Box<Admin>, io: Box<Wire> },
    Iscsi(Box<Initiator>),
    Direct { wire: DirectWire, write: RequestHeader },
}

impl Path {
    /// Opens a path, which must say something once in `keep_alive` if its protocol has such a time.
    ///
    /// # Panics
    /// When the node refuses it.
    pub fn open(protocol: Protocol, node: &Node<'_>, name: &str, keep_alive: Duration) -> Self {
        Self(match protocol {
            Protocol::NvmeTcp => {
                let keep_alive_ms = u32::try_from(keep_alive.as_millis()).expect("a short time");
                let connect =
                    nearflash_nvme::fabrics::Connect { keep_alive_ms, ..connect_command(0, 32) };
                let admin = Admin::join_with(node, "data", connect, Digests::NONE);
                let io = admin.io(1, 32);
                Inner::NvmeTcp { admin: Box::new(admin), io: Box::new(io) }
            }
            Protocol::Iscsi => {
                let login = Initiator::login(node, "data", &Who::named(name));
                let mut initiator = login.expect("the node lets it in");
                initiator.hear_all();
                Inner::Iscsi(Box::new(initiator))
            }
            Protocol::Direct => {
                let mut wire = DirectWire::enter(node);
                let (handle, volume) = wire.open("data");
                let write = request(Opcode::WRITE, 0, 0, BLOCK_LEN);
                let write = RequestHeader { volume: handle.into(), epoch: volume.epoch, ..write };
                Inner::Direct { wire, write }
            }
        })
    }

    /// Sends a write of one block, and waits for no answer.
    pub fn post(&mut self, lba: u64, block: &[u8]) {
        match &mut self.0 {
            Inner::NvmeTcp { io, .. } => io.submit(&write(lba), block),
            Inner::Iscsi(initiator) => {
                let data = CommandData::SmallOutgoing(block.to_vec());
                initiator.begin(&cdb::write(0, lba, 1), data);
                initiator.send_at_most(usize::MAX);
            }
            Inner::Direct { wire, write } => {
                let offset = (lba * u64::from(BLOCK_LEN)).into();
                wire.send(RequestHeader { offset, ..*write }.as_bytes());
                wire.send(block);
            }
        }
    }

    /// Writes one block. Returns whether that succeeded; a path that failed once may not be usable any more.
    pub fn write(&mut self, lba: u64, block: &[u8]) -> bool {
        match &mut self.0 {
            Inner::NvmeTcp { io, .. } => io.run_with(&write(lba), block).is_success(),
            Inner::Iscsi(initiator) => initiator.write(lba, block) == ScsiStatus::GOOD,
            Inner::Direct { .. } => {
                self.post(lba, block);
                let Inner::Direct { wire, .. } = &mut self.0 else { unreachable!() };
                wire.answer().0.status() == DirectStatus::OK
            }
        }
    }

    /// Reads one block.
    ///
    /// # Panics
    /// When it cannot be read.
    pub fn read(&mut self, lba: u64) -> Vec<u8> {
        match &mut self.0 {
            Inner::NvmeTcp { io, .. } => {
                let (status, bytes) =
                    io.read(&Command::read(NamespaceId(1), Lba(lba), 0, BLOCK_LEN));
                assert!(status.is_success(), "{status}");
                bytes
            }
            Inner::Iscsi(initiator) => initiator.read(lba),
            Inner::Direct { wire, write } => {
                let offset = (lba * u64::from(BLOCK_LEN)).into();
                let read = RequestHeader { offset, opcode: Opcode::READ.0, ..*write };
                let (answer, bytes) = wire.ask(read);
                assert_eq!(answer.status(), DirectStatus::OK);
                bytes
            }
        }
    }

    /// Gives the path up. A silent one keeps its sockets as long as the returned value.
    ///
    /// # Panics
    /// When the system refuses an option of a socket.
    pub fn give_up(self, cut: Cut) -> Option<Self> {
        match cut {
            Cut::Close => None,
            Cut::Silence => Some(self),
            Cut::Reset => {
                for stream in self.streams() {
                    let socket = SockRef::from(stream);
                    socket.set_linger(Some(Duration::ZERO)).expect("a socket option");
                }
                None
            }
        }
    }

    fn streams(&self) -> Vec<&TcpStream> {
        match &self.0 {
            Inner::NvmeTcp { admin, io } => vec![admin.wire.stream(), io.stream()],
            Inner::Iscsi(initiator) => vec![initiator.stream()],
            Inner::Direct { wire, .. } => vec![wire.stream()],
        }
    }
}

fn write(lba: u64) -> Command {
    Command::write(NamespaceId(1), Lba(lba), 0, BLOCK_LEN).with_capsule_data(BLOCK_LEN)
}
