//! A minimal scripted NVMe/TCP target: sockets and bytes are real, the rest follows a script. One
//! thread per connection; blocks are in memory.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use nearflash_nvme::fabrics::ConnectData;
use nearflash_nvme::identify::{Cns, Identify, IdentifyController, IdentifyNamespace, LbaFormat};
use nearflash_nvme::log::{DiscoveryEntry, DiscoveryHeader, GetLogPage, SubsystemType};
use nearflash_nvme::property::offset;
use nearflash_nvme::{
    AdminOpcode, Ascii, Command, CompletionEntry, FabricsType, IoOpcode, Nqn, NqnField, QueueId,
    Status,
};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// The size of a logical block.
pub(crate) const BLOCK_LEN: usize = 4096;
/// The number of blocks of the namespace.
pub(crate) const BLOCKS: usize = 256;
/// The length of a PDU header and a command.
const CAPSULE_LEN: usize = 72;

/// The behaviour of the target.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Script {
    /// Answers Connect with this status.
    pub(crate) connect_status: Option<Status>,
    /// Never answers.
    pub(crate) is_silent: bool,
    /// Closes an I/O connection instead of answering the command with this number, from 0.
    pub(crate) closes_at: Option<usize>,
    /// Answers reads in pairs, the later one first.
    pub(crate) swaps: bool,
    /// Sends the data of a read in PDUs of at most this length.
    pub(crate) data_len_max: Option<usize>,
}

/// The blocks, shared by all connections.
type Blocks = Arc<Mutex<Vec<u8>>>;

/// A listening target.
pub(crate) struct FakeTarget {
    /// Its address.
    pub(crate) address: SocketAddr,
    /// Its blocks.
    pub(crate) blocks: Blocks,
}

impl FakeTarget {
    /// Serves connections until the process ends: the n-th connection follows the n-th script, and
    /// all further ones the last.
    pub(crate) fn start(scripts: &[Script]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let blocks: Blocks = Arc::new(Mutex::new(vec![0; BLOCKS * BLOCK_LEN]));
        let (scripts, kept) = (scripts.to_vec(), Arc::clone(&blocks));
        std::thread::spawn(move || {
            for (index, stream) in listener.incoming().enumerate() {
                let script = scripts[index.min(scripts.len() - 1)];
                let connection = Connection {
                    stream: stream.unwrap(),
                    blocks: Arc::clone(&kept),
                    script,
                    queue: QueueId::ADMIN,
                    commands: 0,
                    held_back: None,
                };
                std::thread::spawn(move || connection.serve());
            }
        });
        Self { address, blocks }
    }
}

struct Connection {
    stream: TcpStream,
    blocks: Blocks,
    script: Script,
    queue: QueueId,
    commands: usize,
    /// The answer that the next one overtakes.
    held_back: Option<Vec<u8>>,
}

impl Connection {
    /// Serves until the host or the script closes the connection.
    fn serve(mut self) {
        if self.handshake().is_ok() {
            while self.next_command().is_ok() {}
        }
    }

    fn handshake(&mut self) -> io::Result<()> {
        let mut request = [0; 128];
        self.stream.read_exact(&mut request)?;
        if self.script.is_silent {
            // Until the host gives up.
            return self.stream.read_exact(&mut [0]);
        }
        let mut response = [0; 128];
        (response[0], response[2], response[4]) = (1, 128, 128);
        response[12..16].copy_from_slice(&131_072u32.to_le_bytes());
        self.stream.write_all(&response)
    }

    fn next_command(&mut self) -> io::Result<()> {
        let mut capsule = [0; CAPSULE_LEN];
        self.stream.read_exact(&mut capsule)?;
        let pdu_len = u32::from_le_bytes(capsule[4..8].try_into().unwrap());
        let mut data = vec![0; usize::try_from(pdu_len).unwrap() - CAPSULE_LEN];
        self.stream.read_exact(&mut data)?;
        let command = Command::read_from_bytes(&capsule[8..]).unwrap();
        if command.is_fabrics() {
            return self.fabrics(&command, &data);
        }
        if self.queue.is_admin() {
            return self.admin(&command);
        }
        let number = self.commands;
        self.commands += 1;
        if self.script.closes_at == Some(number) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        self.io(&command, &data)
    }

    fn fabrics(&mut self, command: &Command, data: &[u8]) -> io::Result<()> {
        let cid = command.command_id();
        let entry = match command.fabrics_type() {
            FabricsType::CONNECT => {
                self.queue = command.as_connect().queue;
                let data = ConnectData::ref_from_bytes(data).unwrap();
                assert!(data.host.get().is_ok() && data.subsystem.get().is_ok());
                let status = self.script.connect_status.unwrap_or(Status::SUCCESS);
                CompletionEntry::with_result(cid, status, 1)
            }
            FabricsType::PROPERTY_GET => {
                let value = match command.as_property_access().offset {
                    offset::CAPABILITIES => 127 | 10 << 24 | 1 << 37,
                    _ => 1,
                };
                CompletionEntry::new(cid, Status::SUCCESS).with_result64(value)
            }
            _ => CompletionEntry::new(cid, Status::SUCCESS),
        };
        self.respond(entry)
    }

    fn admin(&mut self, command: &Command) -> io::Result<()> {
        let cid = command.command_id();
        let done = CompletionEntry::new(cid, Status::SUCCESS);
        match AdminOpcode(command.opcode) {
            AdminOpcode::IDENTIFY => {
                let data = identify(command);
                match data {
                    Some(data) => self.send_data(command, &data),
                    None => {
                        self.respond(CompletionEntry::new(cid, Status::INVALID_NAMESPACE.dnr()))
                    }
                }
            }
            AdminOpcode::GET_LOG_PAGE => {
                let page = GetLogPage::from_command(command);
                let log = discovery_log();
                let start = usize::try_from(page.offset).unwrap();
                let len = usize::try_from(page.len()).unwrap();
                self.send_data(command, &log[start..start + len])
            }
            AdminOpcode::SET_FEATURES => self.respond(CompletionEntry::with_result(
                cid,
                Status::SUCCESS,
                command.cdw11.get(),
            )),
            _ => self.respond(done),
        }
    }

    fn io(&mut self, command: &Command, data: &[u8]) -> io::Result<()> {
        let done = CompletionEntry::new(command.command_id(), Status::SUCCESS);
        let start = usize::try_from(command.cdw10_11()).unwrap() * BLOCK_LEN;
        let count = usize::try_from(command.cdw12.get() & 0xFFFF).unwrap() + 1;
        let end = start + count * BLOCK_LEN;
        if command.opcode != IoOpcode::FLUSH.0 && end > BLOCKS * BLOCK_LEN {
            let status = Status::LBA_OUT_OF_RANGE.dnr();
            return self.respond(CompletionEntry::new(command.command_id(), status));
        }
        match IoOpcode(command.opcode) {
            IoOpcode::READ => {
                let data = self.blocks.lock().unwrap()[start..end].to_vec();
                self.send_data(command, &data)
            }
            IoOpcode::WRITE => {
                self.blocks.lock().unwrap()[start..end].copy_from_slice(data);
                self.respond(done)
            }
            _ => self.respond(done),
        }
    }

    fn respond(&mut self, entry: CompletionEntry) -> io::Result<()> {
        let mut pdu = [0; 24];
        (pdu[0], pdu[2], pdu[4]) = (5, 24, 24);
        pdu[8..].copy_from_slice(entry.as_bytes());
        self.stream.write_all(&pdu)
    }

    /// Sends C2HData PDUs, the last one with the SUCCESS flag.
    fn send_data(&mut self, command: &Command, data: &[u8]) -> io::Result<()> {
        let step = self.script.data_len_max.unwrap_or(data.len());
        let mut pdus = Vec::new();
        for (index, part) in data.chunks(step).enumerate() {
            let offset = index * step;
            let is_last = offset + part.len() == data.len();
            let mut header = [0; 24];
            (header[0], header[1], header[2], header[3]) = (7, u8::from(is_last) * 0x0C, 24, 24);
            let lens = [24 + part.len(), offset, part.len()].map(|n| u32::try_from(n).unwrap());
            header[4..8].copy_from_slice(&lens[0].to_le_bytes());
            header[8..10].copy_from_slice(&command.command_id().0.to_le_bytes());
            header[12..16].copy_from_slice(&lens[1].to_le_bytes());
            header[16..20].copy_from_slice(&lens[2].to_le_bytes());
            pdus.extend_from_slice(&header);
            pdus.extend_from_slice(part);
        }
        if self.script.swaps && !self.queue.is_admin() {
            let Some(earlier) = self.held_back.take() else {
                self.held_back = Some(pdus);
                return Ok(());
            };
            pdus.extend(earlier);
        }
        self.stream.write_all(&pdus)
    }
}

fn identify(command: &Command) -> Option<Vec<u8>> {
    match Identify::from_command(command).cns {
        Cns::CONTROLLER => {
            let mut data = IdentifyController::new_zeroed();
            data.transfer_shift_max = 8;
            data.io_command_capsule_len = ((64 + 128 * 1024) / 16).into();
            data.volatile_cache = IdentifyController::CACHE_PRESENT;
            Some(data.as_bytes().to_vec())
        }
        Cns::NAMESPACE if command.namespace_id().0 == 1 => {
            let mut data = IdentifyNamespace::new_zeroed();
            data.blocks = u64::try_from(BLOCKS).unwrap().into();
            data.lba_formats[0] = LbaFormat { data_shift: 12, ..LbaFormat::default() };
            Some(data.as_bytes().to_vec())
        }
        Cns::ACTIVE_NAMESPACES => {
            let mut data = vec![0; 4096];
            data[0] = 1;
            Some(data)
        }
        _ => None,
    }
}

/// A log of twenty subsystems, which takes more than one page.
fn discovery_log() -> Vec<u8> {
    let mut log = DiscoveryHeader::new(3, 20).as_bytes().to_vec();
    for index in 0..20 {
        let mut entry = DiscoveryEntry::new_zeroed();
        entry.subsystem_type = SubsystemType::NVM;
        entry.subsystem = NqnField::from(&Nqn::new(&format!("nqn.test:{index}")).unwrap());
        entry.address = Ascii::new("192.0.2.7");
        entry.service = Ascii::new("4420");
        log.extend_from_slice(entry.as_bytes());
    }
    log
}
