//! A link: one connection, with two ends and a pipe in each direction.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use nearflash_engine::CoreId;
use nearflash_shard::{Door, Interest, SocketId};
use nearflash_units::Nanos;

use crate::machine::NodeId;
use crate::pipe::Pipe;

/// A connection. Never reused.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct LinkId(pub u32);

/// A host of any kind: its index among all.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct HostId(pub usize);

/// A participant of the network.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Endpoint {
    Host(HostId),
    Node(NodeId),
}

/// The way from one endpoint to another; the way back is another one.
pub(crate) type Way = (Endpoint, Endpoint);

/// A host, and the node on whose volumes it works.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Route {
    pub(crate) host: HostId,
    pub(crate) node: NodeId,
}

impl NodeId {
    /// The address of one of its listeners.
    pub(crate) fn address(self, port: u16) -> SocketAddr {
        let last = u8::try_from(1 + self.0).expect("few nodes");
        SocketAddr::from((Ipv4Addr::new(192, 0, 2, last), port))
    }

    /// The node with this address: the inverse of [`Self::address`].
    pub(crate) fn at_address(address: SocketAddr) -> Option<Self> {
        let IpAddr::V4(address) = address.ip() else { return None };
        let [192, 0, 2, last] = address.octets() else { return None };
        Some(Self(usize::from(last).checked_sub(1)?))
    }
}

/// One end of a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Side {
    /// The end that opened it.
    Caller,
    /// The end at the node that was called.
    Called,
}

impl Side {
    pub(super) const BOTH: [Self; 2] = [Self::Caller, Self::Called];

    pub(super) fn other(self) -> Self {
        match self {
            Self::Caller => Self::Called,
            Self::Called => Self::Caller,
        }
    }

    pub(super) fn index(self) -> usize {
        usize::from(self == Self::Called)
    }
}

#[derive(Debug)]
pub(super) struct End {
    pub(super) at: Endpoint,
    pub(super) closed: bool,
    pub(super) broken: bool,
    /// The pipe that ends here.
    pub(super) input: Pipe,
    /// At a node, while it is open.
    pub(super) socket: Option<SocketId>,
    pub(super) owner: Option<CoreId>,
    pub(super) watch: Option<Interest>,
    /// When the end of the other side, or a reset, arrived here.
    pub(super) over_since: Option<Nanos>,
}

impl End {
    pub(super) fn new(at: Endpoint, room: usize) -> Self {
        let (closed, broken, input) = (false, false, Pipe::new(room));
        let (socket, owner, watch, over_since) = (None, None, None, None);
        Self { at, closed, broken, input, socket, owner, watch, over_since }
    }

    /// The node gives up its socket.
    pub(super) fn forget_socket(&mut self) -> Option<SocketId> {
        self.watch = None;
        self.owner = None;
        self.socket.take()
    }
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) door: Door,
    pub(super) peer: SocketAddr,
    /// The node that was called has accepted it.
    pub(super) accepted: bool,
    /// Nothing more arrives at either end, and neither end is notified.
    pub(super) silent: bool,
    /// When a node must have given up its silent host.
    pub(super) given_up_at: Option<Nanos>,
    /// Since when something that was sent does not arrive, because of a partition.
    pub(super) held_since: Option<Nanos>,
    /// A partition has ever held something back.
    pub(super) was_cut: bool,
    pub(super) ends: [End; 2],
}

impl Link {
    pub(super) fn end(&self, side: Side) -> &End {
        &self.ends[side.index()]
    }

    pub(super) fn end_mut(&mut self, side: Side) -> &mut End {
        &mut self.ends[side.index()]
    }

    /// The pipe that ends at `side`.
    pub(super) fn input(&mut self, side: Side) -> &mut Pipe {
        &mut self.end_mut(side).input
    }

    pub(super) fn output(&mut self, side: Side) -> &mut Pipe {
        self.input(side.other())
    }

    /// The way of what arrives at `side`.
    pub(super) fn way_to(&self, side: Side) -> Way {
        (self.end(side.other()).at, self.end(side).at)
    }

    /// Whether a node may send at this end. A host may before its connection is accepted.
    pub(super) fn has_room(&self, side: Side) -> bool {
        self.accepted && self.end(side.other()).input.room() > 0
    }

    pub(super) fn has(&self, side: Side, interest: Interest) -> bool {
        let end = self.end(side);
        let is_over = end.broken || end.input.has_end_arrived();
        let input = end.input.is_readable() || is_over;
        let output = self.has_room(side) || is_over;
        match interest {
            Interest::Input => input,
            Interest::Output => output,
            Interest::Both => input || output,
            Interest::End => is_over,
        }
    }
}
