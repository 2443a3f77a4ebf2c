//! Other nodes, whose volumes are devices of this one.
//!
//! A device operation on such a volume becomes a request of the direct protocol over a connection of
//! this core (`link`). It ends as an operation on a local device does, so the engine and the layout
//! need not know where the bytes are.
//!
//! Rules. Reads and flushes that a lost connection leaves unanswered are sent again over the next one.
//! No other operation is ever sent twice: it ends with [`Outcome::PathLost`], because it may have taken
//! effect. All connections of a core to a node have one identity, which each of them claims. The
//! operation ends only when the next connection's claim was answered, so that it does not take effect
//! later, behind a write that its host makes over another core; at the latest, it ends after
//! [`READ_SPAN`]. An operation that changes data and was not sent within [`WRITE_SPAN`] is never sent: its
//! host may have given it up by then, and have written by another path.
//!
//! Invariant: every operation ends once, and its buffer is not used any more then.

mod link;
mod pending;

use nearflash_device::{Cause, DeviceId, DeviceRequest, DeviceResult, OperationId, Owner};
use nearflash_direct::client::ClientConfig;
use nearflash_direct::{PeerError, Status};
use nearflash_mirror::{DeviceKind, DigestKey};
use nearflash_publish::PeerConfig;
use nearflash_request::Outcome;
use nearflash_units::{Nanos, index};

use crate::shard::Shard;
use crate::world::{SocketId, World};
use link::Link;
pub(crate) use pending::Pending;

/// The time for which a read or a flush waits for a connection.
pub const READ_SPAN: Nanos = Nanos::from_secs(10);

/// The time within which an operation that changes data must be sent.
pub const WRITE_SPAN: Nanos = Nanos::from_secs(1);

/// The time for which a node may be silent while it owes an answer. After half of it, the node is asked
/// whether it is alive.
pub const SILENCE_MAX: Nanos = Nanos::from_secs(5);

/// The time of silence on a connection with faces of mirrors. A mirror that lost its other node goes on after a lease of
/// one second. TCP repeats lost bytes at intervals that double, so the old connection may stay silent for
/// seconds after the network is back, and a new one does not.
pub const FACE_SILENCE_MAX: Nanos = Nanos::from_millis(1500);

/// The time for a connection to come about. TCP repeats its first packet after one second, and then at intervals
/// that double; a new attempt is faster.
pub const CONNECT_MAX: Nanos = Nanos::from_millis(700);

/// The time for a connection to claim its identity: the answer waits for the requests of the earlier
/// connection, and thus for devices.
pub const CLAIM_MAX: Nanos = Nanos::from_secs(30);

/// The most volumes of a connection; a node admits so many handles
/// ([`nearflash_direct::serving::SessionConfig::handles_max`]).
pub const VOLUMES_PER_PEER_MAX: usize = 64;

/// The most faces of mirrors of a connection ([`nearflash_direct::serving::PEER_HANDLES_MAX`]).
pub const FACES_PER_PEER_MAX: usize = 8192;

/// The time between two attempts to connect, or to open a volume.
pub const RETRY_PERIOD: Nanos = Nanos::from_millis(200);

/// The reason for which a node, or a volume of it, cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LinkError {
    /// The node cannot be reached, or the connection has ended.
    #[error("it cannot be reached, or has closed the connection")]
    Closed,
    /// The connection was not complete, or an answer was not there, in time.
    #[error("it does not answer")]
    Silent,
    /// The node violated the protocol, or ended the connection for this reason.
    #[error("{0}")]
    Protocol(PeerError),
    /// The node does not end earlier connections.
    #[error("it does not end the requests of earlier connections ({0}): upgrade it")]
    Claim(Status),
    /// A volume cannot be opened.
    #[error("its volume '{name}' cannot be used: {status}")]
    Volume {
        /// The name of the volume.
        name: Box<str>,
        /// The node's answer.
        status: Status,
    },
    /// Another volume has the name.
    #[error("its volume '{name}' is not the one that was opened at the start: restart this node")]
    OtherVolume {
        /// The name of the volume.
        name: Box<str>,
    },
    /// Answered writes may be lost.
    #[error(
        "it has lost its power before writes to volume '{name}' were flushed. Flushes of the volume \
         fail until the device is cleared: check what the volume holds first"
    )]
    WritesLost {
        /// The name of the volume.
        name: Box<str>,
    },
}

/// One core's connections to other nodes.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    links: Vec<Link>,
    /// By device: the link, and the volume's place in it.
    volumes: Vec<Option<(usize, usize)>>,
    /// Operations that have ended.
    ended: Vec<(OperationId, DeviceResult)>,
}

impl Peers {
    /// Nodes without connections.
    ///
    /// # Panics
    /// When a remote device is no volume of a node, or of several, which is a bug of the caller.
    pub(crate) fn new(configs: &[PeerConfig], kinds: &[DeviceKind]) -> Self {
        let mut peers = Self::default();
        peers.set(configs, kinds);
        peers
    }

    /// Replaces the nodes by the same ones, with the same volumes and perhaps at other addresses, and
    /// further ones.
    ///
    /// # Panics
    /// As [`Self::new`], and when a node or a volume is missing.
    pub(crate) fn set(&mut self, configs: &[PeerConfig], kinds: &[DeviceKind]) {
        let mut all = vec![None; kinds.len()];
        for (link, config) in configs.iter().enumerate() {
            match self.links.get_mut(link) {
                Some(link) => link.follow(config),
                None => self.links.push(Link::new(config.clone())),
            }
            for (place, volume) in config.volumes.iter().enumerate() {
                let before = all[index(volume.device.0)].replace((link, place));
                assert_eq!(before, None, "{:?} is one volume", volume.device);
            }
        }
        assert!(configs.len() >= self.links.len(), "a node keeps its place");
        let is_remote = |kind: &DeviceKind| *kind == DeviceKind::Remote;
        assert!(
            kinds.iter().map(is_remote).eq(all.iter().map(Option::is_some)),
            "each remote device, and nothing else, is a volume of another node"
        );
        self.volumes = all;
    }

    /// Takes an operation on a remote device. A read with a key gets the digests of the blocks.
    #[inline]
    pub(crate) fn submit<W: World>(
        &mut self,
        request: DeviceRequest,
        (cause, digests): (Cause, Option<DigestKey>),
        world: &mut W,
    ) {
        let place = self.volumes[index(request.device.0)];
        let (link, volume) = place.expect("each remote device is a volume");
        let pending = Pending::new(request, volume, (cause, digests), world.now());
        self.links[link].submit(pending, world, &mut self.ended);
    }

    /// The next operation that a replica has accepted. Its end follows.
    pub(crate) fn poll_received(&mut self) -> Option<OperationId> {
        self.links.iter_mut().find_map(Link::poll_received)
    }

    /// Ends all operations on a device that is not needed any more.
    pub(crate) fn abandon<W: World>(&mut self, device: DeviceId, world: &mut W) {
        if let Some((link, volume)) = self.volumes.get(index(device.0)).copied().flatten() {
            self.links[link].abandon(volume, world, &mut self.ended);
        }
    }

    /// The connection is closed: its changes of data that were not sent are not sent any more.
    pub(crate) fn withdraw(&mut self, owner: Owner) {
        for link in &mut self.links {
            link.withdraw(owner, &mut self.ended);
        }
    }

    /// The next operation that has ended.
    #[inline]
    pub(crate) fn poll_ended(&mut self) -> Option<(OperationId, DeviceResult)> {
        self.ended.pop()
    }

    /// The time at which [`Shard::turn_peers`] must be called again.
    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        self.links.iter().filter_map(Link::poll_timeout).min()
    }

    /// A socket can be used that belongs to no connection of a host.
    pub(crate) fn ready(&mut self, socket: SocketId) {
        if let Some(link) = self.links.iter_mut().find(|link| link.socket() == Some(socket)) {
            link.ready();
        }
    }
}

impl Shard {
    /// Receives from other nodes. Returns the number of connections that made progress.
    #[inline]
    pub(crate) fn receive_from_peers<W: World>(&mut self, world: &mut W) -> usize {
        let Peers { links, ended, .. } = &mut self.peers;
        let mut moved = 0;
        for link in links {
            moved += usize::from(link.receive(&mut self.staging, world, ended));
        }
        moved
    }

    /// Sends to other nodes, and checks the deadlines. Returns the number of connections that made
    /// progress.
    #[inline]
    pub(crate) fn send_to_peers<W: World>(&mut self, world: &mut W) -> usize {
        let Peers { links, ended, .. } = &mut self.peers;
        let mut moved = 0;
        for link in links {
            link.watch_the_clock(self.draining, world, ended);
            moved += usize::from(link.send(world, ended));
        }
        moved
    }

    /// Before the world waits: every connection to another node is watched.
    pub(crate) fn watch_peers<W: World>(&mut self, world: &mut W) {
        self.peers.links.iter_mut().for_each(|link| link.watch(world));
    }
}

/// The result of an operation, from the answer of the other node.
fn result_of(status: Status) -> DeviceResult {
    let outcome = match status {
        Status::OK => return DeviceResult::Done,
        Status::UNSUPPORTED | Status::INVALID_OPCODE => return DeviceResult::Unsupported,
        Status::CAPACITY_EXCEEDED => Outcome::CapacityExceeded,
        Status::UNRECOVERED_READ => Outcome::UnrecoveredRead,
        Status::WRITE_FAULT => Outcome::WriteFault,
        Status::OUT_OF_RANGE => Outcome::OutOfRange,
        Status::ABORTED => Outcome::Aborted,
        Status::RESERVED => Outcome::ReservationConflict,
        Status::WRITE_PROTECTED => Outcome::WriteProtected,
        Status::PATH_LOST => Outcome::PathLost,
        // Neither the volume nor the right to use it: the operation was not done.
        _ => Outcome::DeviceUnavailable,
    };
    DeviceResult::Remote(outcome)
}

/// The configuration of a connection's session.
fn client_config<W: World>(config: &PeerConfig, world: &mut W) -> ClientConfig {
    let PeerConfig { key, digests, .. } = config;
    ClientConfig { key: key.clone(), digests: *digests, rings: false, nonce: world.nonce() }
}
