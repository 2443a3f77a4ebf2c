//! TCP connections between hosts and nodes, and between nodes, as their sockets show them: streams
//! that arrive late and in pieces, buffers that fill, ends, resets and silence.
//!
//! A link is one connection, with the end that opened it, and the end at the node that was called.
//! The model has the properties of TCP that a program can notice: order, no loss while the link
//! lives, bounded buffers, half-close, and a reset for an end that closes with unread input or
//! receives bytes after its close.
//!
//! A partition is a set of ways, each from one endpoint to another, on which nothing arrives and nobody
//! is told. TCP sends again and again: when the partition is over, all that was sent arrives, in order,
//! unless its sender has given up the connection.
//!
//! This module knows nothing about the meaning of the bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

use nearflash_engine::CoreId;
use nearflash_shard::{Door, Interest, Peer, Received, Sent, SocketId};
use nearflash_units::Nanos;

use crate::Dice;
use crate::faults::NetworkFaults;
use crate::machine::NodeId;
use crate::pipe::{Arrival, Pipe};

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

/// Some ways on which nothing arrives for a while.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct PartitionId(u32);

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
    const BOTH: [Self; 2] = [Self::Caller, Self::Called];

    fn other(self) -> Self {
        match self {
            Self::Caller => Self::Called,
            Self::Called => Self::Caller,
        }
    }

    fn index(self) -> usize {
        usize::from(self == Self::Called)
    }
}

/// Something arrives at one end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub(crate) link: LinkId,
    /// The place.
    pub(crate) side: Side,
    pub(crate) what: What,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// The connection itself, at the node.
    Link,
    Stream(Arrival),
}

/// The recipient of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Signal {
    Host(LinkId),
    /// The core that watches the socket.
    Ready(NodeId, CoreId, SocketId),
    /// A new connection, for the first core.
    Accepted(NodeId, SocketId, Door, SocketAddr),
}

#[derive(Debug)]
struct End {
    at: Endpoint,
    closed: bool,
    broken: bool,
    /// The pipe that ends here.
    input: Pipe,
    /// At a node, while it is open.
    socket: Option<SocketId>,
    owner: Option<CoreId>,
    watch: Option<Interest>,
}

impl End {
    fn new(at: Endpoint, room: usize) -> Self {
        let (closed, broken, input) = (false, false, Pipe::new(room));
        Self { at, closed, broken, input, socket: None, owner: None, watch: None }
    }

    /// The node gives up its socket.
    fn forget_socket(&mut self) -> Option<SocketId> {
        self.watch = None;
        self.owner = None;
        self.socket.take()
    }
}

#[derive(Debug)]
struct Link {
    door: Door,
    peer: SocketAddr,
    /// The node that was called has accepted it.
    accepted: bool,
    /// Nothing more arrives at either end, and neither end is notified.
    silent: bool,
    /// Since when something that was sent does not arrive, because of a partition.
    held_since: Option<Nanos>,
    /// A partition has ever held something back.
    was_cut: bool,
    ends: [End; 2],
}

impl Link {
    fn end(&self, side: Side) -> &End {
        &self.ends[side.index()]
    }

    fn end_mut(&mut self, side: Side) -> &mut End {
        &mut self.ends[side.index()]
    }

    /// The pipe that ends at `side`.
    fn input(&mut self, side: Side) -> &mut Pipe {
        &mut self.end_mut(side).input
    }

    fn output(&mut self, side: Side) -> &mut Pipe {
        self.input(side.other())
    }

    /// The way of what arrives at `side`.
    fn way_to(&self, side: Side) -> Way {
        (self.end(side.other()).at, self.end(side).at)
    }

    /// Whether a node may send at this end. A host may before its connection is accepted.
    fn has_room(&self, side: Side) -> bool {
        self.accepted && self.end(side.other()).input.room() > 0
    }

    fn has(&self, side: Side, interest: Interest) -> bool {
        let end = self.end(side);
        let input = end.input.is_readable() || end.broken;
        let output = self.has_room(side) || end.broken;
        match interest {
            Interest::Input => input,
            Interest::Output => output,
            Interest::Both => input || output,
        }
    }
}

/// The sockets of a node.
#[derive(Debug)]
struct Sockets {
    /// By [`SocketId`], which are reused as soon as they are free.
    links: Vec<Option<(LinkId, Side)>>,
    listening: bool,
}

impl Sockets {
    fn open(&mut self, link: LinkId, side: Side) -> SocketId {
        let free = self.links.iter().position(Option::is_none);
        let index = free.unwrap_or(self.links.len());
        if index == self.links.len() {
            self.links.push(None);
        }
        self.links[index] = Some((link, side));
        SocketId(u32::try_from(index).expect("few sockets"))
    }
}

/// All connections.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) faults: NetworkFaults,
    dice: Dice,
    links: BTreeMap<LinkId, Link>,
    link_count: u32,
    /// By [`NodeId`].
    sockets: Vec<Sockets>,
    /// The ways on which nothing arrives, by partition.
    partitions: BTreeMap<PartitionId, BTreeSet<Way>>,
    partition_count: u32,
    /// What has not arrived because of them, in order.
    held: Vec<Delivery>,
    /// Connections that broke in the middle.
    pub(crate) broken: u64,
    /// Future deliveries, for the agenda.
    pub(crate) due: Vec<(Nanos, Delivery)>,
    pub(crate) signals: Vec<Signal>,
}

impl Network {
    /// Between any hosts and so many nodes.
    pub(crate) fn new(faults: NetworkFaults, nodes: usize, dice: Dice) -> Self {
        let sockets = || Sockets { links: Vec::new(), listening: true };
        Self {
            faults,
            dice,
            links: BTreeMap::new(),
            link_count: 0,
            sockets: std::iter::repeat_with(sockets).take(nodes).collect(),
            partitions: BTreeMap::new(),
            partition_count: 0,
            held: Vec::new(),
            broken: 0,
            due: Vec::new(),
            signals: Vec::new(),
        }
    }

    /// A host requests a connection to a listener of its node. It can send at once; it learns later
    /// whether the node accepts.
    pub(crate) fn connect(&mut self, now: Nanos, route: Route, door: Door) -> LinkId {
        self.call(now, Endpoint::Host(route.host), route.node, door)
    }

    /// A core of a node requests a connection to a listener of another node. The socket takes bytes
    /// once the other node has accepted, and is broken if it refuses.
    #[cfg_attr(not(test), expect(dead_code, reason = "no session between nodes uses it yet"))]
    pub(crate) fn connect_nodes(
        &mut self,
        now: Nanos,
        (from, core): (NodeId, CoreId),
        to: NodeId,
        door: Door,
    ) -> SocketId {
        let id = self.call(now, Endpoint::Node(from), to, door);
        let socket = self.sockets[from.0].open(id, Side::Caller);
        let end = self.link_mut(id).end_mut(Side::Caller);
        end.socket = Some(socket);
        end.owner = Some(core);
        socket
    }

    fn call(&mut self, now: Nanos, from: Endpoint, to: NodeId, door: Door) -> LinkId {
        self.link_count += 1;
        let link = LinkId(self.link_count);
        let [.., high, low] = self.link_count.to_be_bytes();
        // Unique for fewer than 2^32 connections, as the address counts them, too.
        let [a, b, ..] = self.link_count.to_be_bytes();
        let peer = SocketAddr::from((Ipv4Addr::new(10, a, b, 1), u16::from_be_bytes([high, low])));
        let room = self.faults.buffer_len;
        let mut made = Link {
            door,
            peer,
            accepted: false,
            silent: false,
            held_since: None,
            was_cut: false,
            ends: [End::new(from, room), End::new(Endpoint::Node(to), room)],
        };
        let at = made.input(Side::Called).arrival(now, &self.faults, &mut self.dice);
        self.links.insert(link, made);
        self.due.push((at, Delivery { link, side: Side::Called, what: What::Link }));
        link
    }

    fn link_mut(&mut self, id: LinkId) -> &mut Link {
        self.links.get_mut(&id).expect("links stay")
    }

    /// The link of a peer.
    pub(crate) fn link_of(&self, peer: Peer) -> Option<LinkId> {
        self.links.iter().find(|(_, link)| Peer::Address(link.peer) == peer).map(|(id, _)| *id)
    }

    /// The node that was called.
    pub(crate) fn node_of(&self, link: LinkId) -> NodeId {
        match self.links[&link].end(Side::Called).at {
            Endpoint::Node(node) => node,
            Endpoint::Host(_) => unreachable!("nobody calls a host"),
        }
    }

    /// The number of bytes that have arrived at the host's end and were not received.
    pub(crate) fn unread_by_host(&self, link: LinkId) -> usize {
        self.links[&link].end(Side::Caller).input.unread()
    }

    /// Whether the node that was called has closed its end.
    pub(crate) fn is_closed_by_node(&self, link: LinkId) -> bool {
        self.links[&link].end(Side::Called).closed
    }

    /// Whether a partition has held back anything on this link.
    pub(crate) fn was_cut(&self, link: LinkId) -> bool {
        self.links[&link].was_cut
    }

    /// Whether the host has closed its end, or the link is or was cut.
    pub(crate) fn has_lost_host(&self, link: LinkId) -> bool {
        let link = &self.links[&link];
        let host = link.end(Side::Caller);
        link.silent || host.closed || host.broken || link.was_cut
    }

    /// Links that a node has open.
    pub(crate) fn open_at(&self, node: NodeId) -> impl Iterator<Item = LinkId> {
        let is_open = move |end: &End| end.socket.is_some() && end.at == Endpoint::Node(node);
        let open = self.links.iter().filter(move |(_, link)| link.ends.iter().any(is_open));
        open.map(|(id, _)| *id)
    }

    /// A node accepts no more connections.
    pub(crate) fn stop_listening(&mut self, node: NodeId) {
        self.sockets[node.0].listening = false;
    }

    /// A node is gone, as if its machine had been reset: its peers find their connections broken.
    pub(crate) fn lose_node(&mut self, now: Nanos, node: NodeId) {
        for (&id, link) in &mut self.links {
            for side in Side::BOTH {
                if link.end(side).at != Endpoint::Node(node) {
                    continue;
                }
                let other = side.other();
                link.end_mut(side).forget_socket();
                if !link.end(side).closed && !link.end(other).closed {
                    let at = link.input(other).arrival(now, &self.faults, &mut self.dice);
                    let what = What::Stream(Arrival::Reset);
                    self.due.push((at, Delivery { link: id, side: other, what }));
                }
                link.end_mut(side).closed = true;
            }
        }
        self.sockets[node.0].links.clear();
        self.sockets[node.0].listening = false;
    }

    /// A node is up again.
    pub(crate) fn listen(&mut self, node: NodeId) {
        self.sockets[node.0].listening = true;
    }

    /// From now on nothing arrives, and neither end is notified, as when the host's machine loses
    /// power.
    pub(crate) fn silence(&mut self, link: LinkId) {
        let link = self.link_mut(link);
        link.silent = true;
        link.end_mut(Side::Caller).closed = true;
    }

    /// From now on nothing arrives on these ways.
    pub(crate) fn part(&mut self, ways: impl IntoIterator<Item = Way>) -> PartitionId {
        self.partition_count += 1;
        let id = PartitionId(self.partition_count);
        self.partitions.insert(id, ways.into_iter().collect());
        id
    }

    /// A partition is over: what was sent on its ways arrives.
    pub(crate) fn heal(&mut self, now: Nanos, id: PartitionId) {
        self.partitions.remove(&id);
        let held = std::mem::take(&mut self.held);
        for delivery in &held {
            self.link_mut(delivery.link).held_since = None;
        }
        for delivery in held {
            self.deliver(now, delivery);
        }
    }

    /// All partitions are over.
    pub(crate) fn heal_all(&mut self, now: Nanos) {
        while let Some((id, _)) = self.partitions.pop_first() {
            self.heal(now, id);
        }
    }

    /// The links on which something sent before `since` has not arrived yet.
    pub(crate) fn held_longer(&self, since: Nanos) -> BTreeSet<LinkId> {
        let held = self.held.iter().map(|delivery| delivery.link);
        held.filter(|id| self.links[id].held_since.is_some_and(|at| at < since)).collect()
    }

    /// Delivers an event, unless its way is cut.
    pub(crate) fn deliver(&mut self, now: Nanos, delivery: Delivery) {
        let way = self.links[&delivery.link].way_to(delivery.side);
        if !self.partitions.values().any(|ways| ways.contains(&way)) {
            return self.arrive(now, delivery);
        }
        let link = self.link_mut(delivery.link);
        link.held_since.get_or_insert(now);
        link.was_cut = true;
        self.held.push(delivery);
    }

    fn arrive(&mut self, now: Nanos, delivery: Delivery) {
        let Delivery { link: id, side, what } = delivery;
        let link = self.links.get_mut(&id).expect("links stay");
        if link.silent && side == Side::Caller {
            return;
        }
        match what {
            What::Link => return self.arrive_link(id),
            What::Stream(_) if link.end(side).broken => return,
            What::Stream(_) if link.silent => return,
            What::Stream(Arrival::Piece) if link.end(side).closed => {
                // No receiver is left: the sender is notified.
                link.input(side).arrive_piece();
                return self.send_reset(now, id, side.other());
            }
            What::Stream(Arrival::Piece) => link.input(side).arrive_piece(),
            What::Stream(Arrival::End) => link.input(side).arrive_end(),
            What::Stream(Arrival::Room(len)) => link.output(side).add_room(len),
            What::Stream(Arrival::Reset) => link.end_mut(side).broken = true,
        }
        self.signal(id, side);
    }

    /// A connection arrives at the node that was called.
    fn arrive_link(&mut self, id: LinkId) {
        let node = self.node_of(id);
        let link = self.links.get_mut(&id).expect("links stay");
        if !self.sockets[node.0].listening || link.end(Side::Caller).closed {
            link.end_mut(Side::Called).closed = true;
            link.end_mut(Side::Caller).broken = true;
            return self.signal(id, Side::Caller);
        }
        let socket = self.sockets[node.0].open(id, Side::Called);
        let (door, peer) = (link.door, link.peer);
        link.accepted = true;
        let end = link.end_mut(Side::Called);
        end.socket = Some(socket);
        end.owner = Some(CoreId::FIRST);
        self.signals.push(Signal::Accepted(node, socket, door, peer));
        self.signal(id, Side::Caller);
    }

    /// Tells an end. At a node, ends the watch if its event has occurred.
    fn signal(&mut self, id: LinkId, side: Side) {
        let link = self.links.get_mut(&id).expect("links stay");
        let Endpoint::Node(node) = link.end(side).at else {
            return self.signals.push(Signal::Host(id));
        };
        if link.end(side).watch.is_some_and(|interest| link.has(side, interest)) {
            let end = link.end_mut(side);
            end.watch = None;
            let owner = end.owner.expect("a watched socket has an owner");
            let socket = end.socket.expect("a watched socket is open");
            self.signals.push(Signal::Ready(node, owner, socket));
        }
    }

    fn send_reset(&mut self, now: Nanos, id: LinkId, to: Side) {
        let link = self.links.get_mut(&id).expect("links stay");
        let at = link.input(to).arrival(now, &self.faults, &mut self.dice);
        let what = What::Stream(Arrival::Reset);
        self.due.push((at, Delivery { link: id, side: to, what }));
    }

    /// Sends as many bytes as the buffer accepts; `Sent::Bytes(0)` if the buffer is full.
    pub(crate) fn send(&mut self, now: Nanos, id: LinkId, from: Side, bytes: &[u8]) -> Sent {
        let Self { faults, dice, links, due, .. } = self;
        let link = links.get_mut(&id).expect("links stay");
        assert!(!link.end(from).closed, "nothing is sent on a closed socket");
        if link.end(from).broken {
            return Sent::Closed;
        }
        if matches!(link.end(from).at, Endpoint::Node(_)) && !link.accepted {
            return Sent::Bytes(0);
        }
        if dice.permille(faults.reset_permille) {
            self.break_link(now, id, from);
            return Sent::Closed;
        }
        let pipe = link.output(from);
        let mut len = bytes.len().min(pipe.room());
        if len > 1 && dice.permille(faults.short_permille) {
            len = dice.len(1, len);
        }
        let side = from.other();
        let what = What::Stream(Arrival::Piece);
        pipe.send(&bytes[..len], now, faults, dice, &mut |at| {
            due.push((at, Delivery { link: id, side, what }));
        });
        Sent::Bytes(len)
    }

    /// The connection breaks in the middle: at one end at once, at the other a little later.
    fn break_link(&mut self, now: Nanos, id: LinkId, first: Side) {
        self.broken += 1;
        self.link_mut(id).end_mut(first).broken = true;
        self.signal(id, first);
        self.send_reset(now, id, first.other());
    }

    /// Receives into `into` some or all of the bytes that have arrived.
    pub(crate) fn receive(
        &mut self,
        now: Nanos,
        id: LinkId,
        at: Side,
        into: &mut [u8],
    ) -> Received {
        let Self { faults, dice, links, .. } = self;
        let link = links.get_mut(&id).expect("links stay");
        assert!(!link.end(at).closed, "nothing is received from a closed socket");
        if link.end(at).broken {
            return Received::Closed;
        }
        let pipe = link.input(at);
        let mut len = into.len().min(pipe.unread());
        if len == 0 {
            let is_over = pipe.has_end_arrived() && pipe.unread() == 0;
            return if is_over { Received::Closed } else { Received::Nothing };
        }
        if len > 1 && dice.permille(faults.short_permille) {
            len = dice.len(1, len);
        }
        pipe.receive(&mut into[..len]);
        let room_at = now.plus(dice.span(faults.latency));
        let what = What::Stream(Arrival::Room(len));
        self.due.push((room_at, Delivery { link: id, side: at.other(), what }));
        Received::Bytes(len)
    }

    /// Announces that this end sends nothing more.
    pub(crate) fn send_end(&mut self, now: Nanos, id: LinkId, from: Side) {
        let link = self.links.get_mut(&id).expect("links stay");
        if link.output(from).is_end_sent() {
            return;
        }
        link.output(from).send_end();
        let at = link.output(from).arrival(now, &self.faults, &mut self.dice);
        let what = What::Stream(Arrival::End);
        self.due.push((at, Delivery { link: id, side: from.other(), what }));
    }

    /// Closes an end. With unread input the other end is reset, as by TCP; otherwise bytes already
    /// sent still arrive.
    pub(crate) fn close(&mut self, now: Nanos, id: LinkId, side: Side) {
        let link = self.links.get_mut(&id).expect("links stay");
        assert!(!link.end(side).closed, "a socket is closed once");
        link.end_mut(side).closed = true;
        let unread = link.input(side).unread() > 0;
        let end = link.end_mut(side);
        if let (Endpoint::Node(node), Some(socket)) = (end.at, end.forget_socket()) {
            self.sockets[node.0].links[index(socket)] = None;
        }
        if unread {
            self.send_reset(now, id, side.other());
        } else {
            self.send_end(now, id, side);
        }
    }

    /// Resets the connection from one end.
    pub(crate) fn abort(&mut self, now: Nanos, id: LinkId, side: Side) {
        let link = self.link_mut(id);
        link.end_mut(side).closed = true;
        link.input(side).forget();
        self.send_reset(now, id, side.other());
    }

    /// The link behind a socket, and its end there, for the core that has the socket.
    pub(crate) fn link_at(&self, node: NodeId, core: CoreId, socket: SocketId) -> (LinkId, Side) {
        let (id, side) = self.link_of_socket(node, socket);
        let owner = self.links[&id].end(side).owner;
        assert_eq!(owner, Some(core), "{socket:?} is used by the core that has it");
        (id, side)
    }

    fn link_of_socket(&self, node: NodeId, socket: SocketId) -> (LinkId, Side) {
        let open = self.sockets[node.0].links.get(index(socket)).copied().flatten();
        open.unwrap_or_else(|| panic!("{socket:?} is open"))
    }

    /// Watches a socket.
    pub(crate) fn watch(
        &mut self,
        node: NodeId,
        core: CoreId,
        socket: SocketId,
        interest: Interest,
    ) {
        let (id, side) = self.link_at(node, core, socket);
        self.link_mut(id).end_mut(side).watch = Some(interest);
        self.signal(id, side);
    }

    /// The core hands the socket over to another.
    pub(crate) fn detach(&mut self, node: NodeId, core: CoreId, socket: SocketId) {
        let (id, side) = self.link_at(node, core, socket);
        let end = self.link_mut(id).end_mut(side);
        end.owner = None;
        end.watch = None;
    }

    /// The core takes a socket that another handed over.
    pub(crate) fn attach(&mut self, node: NodeId, core: CoreId, socket: SocketId) {
        let (id, side) = self.link_of_socket(node, socket);
        let end = self.link_mut(id).end_mut(side);
        assert_eq!(end.owner, None, "{socket:?} was detached before it is attached");
        end.owner = Some(core);
    }
}

fn index(socket: SocketId) -> usize {
    usize::try_from(socket.0).expect("usize is at least 32 bits wide")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Faults;

    const HERE: NodeId = NodeId(0);
    const THERE: NodeId = NodeId(1);
    const CORE: CoreId = CoreId(1);

    fn network() -> Network {
        Network::new(Faults::none().network, 2, Dice::new(1))
    }

    /// Delivers everything that is due, and what follows from it. Returns the signals.
    fn deliver_all(network: &mut Network) -> Vec<Signal> {
        while !network.due.is_empty() {
            for (at, delivery) in std::mem::take(&mut network.due) {
                network.deliver(at, delivery);
            }
        }
        std::mem::take(&mut network.signals)
    }

    /// Two connected nodes: the socket of each.
    fn connected(network: &mut Network) -> (SocketId, SocketId) {
        let door = Door::NvmeTcp;
        let caller = network.connect_nodes(Nanos(0), (HERE, CORE), THERE, door);
        network.watch(HERE, CORE, caller, Interest::Output);
        let (link, side) = network.link_at(HERE, CORE, caller);
        let early = network.send(Nanos(0), link, side, b"early");
        assert_eq!(early, Sent::Bytes(0), "the other node has not accepted yet");
        let signals = deliver_all(network);
        let [Signal::Accepted(THERE, called, ..), Signal::Ready(HERE, CORE, ready)] = signals[..]
        else {
            panic!("{signals:?}")
        };
        assert_eq!(ready, caller);
        (caller, called)
    }

    fn send(network: &mut Network, (node, core): (NodeId, CoreId), socket: SocketId, bytes: &[u8]) {
        let (link, side) = network.link_at(node, core, socket);
        assert_eq!(network.send(Nanos(1), link, side, bytes), Sent::Bytes(bytes.len()));
    }

    fn receive(
        network: &mut Network,
        (node, core): (NodeId, CoreId),
        socket: SocketId,
    ) -> Option<Vec<u8>> {
        let (link, side) = network.link_at(node, core, socket);
        let mut bytes = vec![0; 64];
        match network.receive(Nanos(2), link, side, &mut bytes) {
            Received::Bytes(len) => Some(bytes[..len].to_vec()),
            Received::Nothing => Some(Vec::new()),
            Received::Closed => None,
        }
    }

    #[test]
    fn a_node_connects_to_another_and_both_send_and_receive() {
        let mut network = network();
        let (caller, called) = connected(&mut network);
        send(&mut network, (HERE, CORE), caller, b"question");
        send(&mut network, (THERE, CoreId::FIRST), called, b"answer");
        deliver_all(&mut network);
        assert_eq!(receive(&mut network, (HERE, CORE), caller).unwrap(), b"answer");
        assert_eq!(receive(&mut network, (THERE, CoreId::FIRST), called).unwrap(), b"question");
    }

    #[test]
    fn the_loss_of_a_node_breaks_what_it_called_and_what_called_it() {
        for lost in [HERE, THERE] {
            let mut network = network();
            let (caller, called) = connected(&mut network);
            network.lose_node(Nanos(2), lost);
            deliver_all(&mut network);
            let left = match lost {
                HERE => receive(&mut network, (THERE, CoreId::FIRST), called),
                _ => receive(&mut network, (HERE, CORE), caller),
            };
            assert_eq!(left, None);
            assert_eq!(network.open_at(lost).count(), 0);
        }
    }

    #[test]
    fn a_node_that_is_not_there_refuses() {
        let mut network = network();
        network.stop_listening(THERE);
        let caller = network.connect_nodes(Nanos(0), (HERE, CORE), THERE, Door::NvmeTcp);
        network.watch(HERE, CORE, caller, Interest::Output);
        let signals = deliver_all(&mut network);
        assert!(matches!(signals[..], [Signal::Ready(HERE, CORE, _)]), "{signals:?}");
        assert_eq!(receive(&mut network, (HERE, CORE), caller), None);
    }

    #[test]
    fn a_partition_of_one_way_holds_back_what_goes_there_until_it_is_over() {
        let mut network = network();
        let (caller, called) = connected(&mut network);
        let way = (Endpoint::Node(HERE), Endpoint::Node(THERE));
        let partition = network.part([way]);
        let (link, _) = network.link_at(HERE, CORE, caller);
        send(&mut network, (HERE, CORE), caller, b"first ");
        send(&mut network, (HERE, CORE), caller, b"second");
        send(&mut network, (THERE, CoreId::FIRST), called, b"answer");
        deliver_all(&mut network);
        assert_eq!(receive(&mut network, (HERE, CORE), caller).unwrap(), b"answer");
        assert_eq!(receive(&mut network, (THERE, CoreId::FIRST), called).unwrap(), b"");
        assert!(network.was_cut(link));
        assert!(network.held_longer(Nanos::from_secs(1)).contains(&link));
        network.heal(Nanos::from_secs(2), partition);
        assert!(network.held_longer(Nanos::from_secs(3)).is_empty());
        let late = receive(&mut network, (THERE, CoreId::FIRST), called).unwrap();
        assert_eq!(late, b"first second");
    }
}
