//! TCP connections between hosts and the node, as its sockets show them: streams that arrive late
//! and in pieces, buffers that fill, ends, resets and silence.
//!
//! A link is one connection, with a host's end and the node's. The model has the properties of TCP
//! that a program can notice: order, no loss while the link lives, bounded buffers, half-close, and
//! a reset for an end that closes with unread input or receives bytes after its close.
//!
//! Knows nothing of the meaning of the bytes.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use nearflash_engine::CoreId;
use nearflash_shard::{Door, Interest, Peer, Received, Sent, SocketId};
use nearflash_units::Nanos;

use crate::Dice;
use crate::faults::NetworkFaults;
use crate::pipe::{Arrival, Pipe};

/// A connection. Never reused.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct LinkId(pub u32);

/// One end of a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Side {
    Host,
    Node,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Host => Self::Node,
            Self::Node => Self::Host,
        }
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
    Ready(CoreId, SocketId),
    /// A new connection, for the first core.
    Accepted(SocketId, Door, SocketAddr),
}

#[derive(Debug, Default)]
struct End {
    closed: bool,
    broken: bool,
}

#[derive(Debug)]
struct Link {
    door: Door,
    peer: SocketAddr,
    /// Nothing more arrives at either end, and no end is told.
    silent: bool,
    host: End,
    node: End,
    to_host: Pipe,
    to_node: Pipe,
    socket: Option<SocketId>,
    owner: Option<CoreId>,
    watch: Option<Interest>,
}

impl Link {
    fn end(&mut self, side: Side) -> &mut End {
        match side {
            Side::Host => &mut self.host,
            Side::Node => &mut self.node,
        }
    }

    /// The pipe that ends at `side`.
    fn input(&mut self, side: Side) -> &mut Pipe {
        match side {
            Side::Host => &mut self.to_host,
            Side::Node => &mut self.to_node,
        }
    }

    fn output(&mut self, side: Side) -> &mut Pipe {
        self.input(side.other())
    }

    fn node_has(&self, interest: Interest) -> bool {
        let input = self.to_node.is_readable() || self.node.broken;
        let output = self.to_host.room() > 0 || self.node.broken;
        match interest {
            Interest::Input => input,
            Interest::Output => output,
            Interest::Both => input || output,
        }
    }
}

/// All connections.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) faults: NetworkFaults,
    dice: Dice,
    links: BTreeMap<LinkId, Link>,
    link_count: u32,
    /// By [`SocketId`], which are reused as soon as they are free.
    sockets: Vec<Option<LinkId>>,
    listening: bool,
    /// Connections that broke in the middle.
    pub(crate) broken: u64,
    /// Future deliveries, for the agenda.
    pub(crate) due: Vec<(Nanos, Delivery)>,
    pub(crate) signals: Vec<Signal>,
}

impl Network {
    pub(crate) fn new(faults: NetworkFaults, dice: Dice) -> Self {
        Self {
            faults,
            dice,
            links: BTreeMap::new(),
            link_count: 0,
            sockets: Vec::new(),
            listening: true,
            broken: 0,
            due: Vec::new(),
            signals: Vec::new(),
        }
    }

    /// A host requests a connection. It can send at once; it learns later whether the node accepts.
    pub(crate) fn connect(&mut self, now: Nanos) -> LinkId {
        self.connect_to(now, Door::NvmeTcp)
    }

    /// The same at another listener.
    pub(crate) fn connect_to(&mut self, now: Nanos, door: Door) -> LinkId {
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
            silent: false,
            host: End::default(),
            node: End::default(),
            to_host: Pipe::new(room),
            to_node: Pipe::new(room),
            socket: None,
            owner: None,
            watch: None,
        };
        let at = made.to_node.arrival(now, &self.faults, &mut self.dice);
        self.links.insert(link, made);
        self.due.push((at, Delivery { link, side: Side::Node, what: What::Link }));
        link
    }

    /// The link of a peer.
    pub(crate) fn link_of(&self, peer: Peer) -> Option<LinkId> {
        self.links.iter().find(|(_, link)| Peer::Address(link.peer) == peer).map(|(id, _)| *id)
    }

    /// The number of bytes that have arrived at the host's end and were not received.
    pub(crate) fn unread_by_host(&self, link: LinkId) -> usize {
        self.links[&link].to_host.unread()
    }

    /// Whether the node has closed its end.
    pub(crate) fn is_closed_by_node(&self, link: LinkId) -> bool {
        self.links[&link].node.closed
    }

    /// Whether the host has closed its end, or the link is cut.
    pub(crate) fn has_lost_host(&self, link: LinkId) -> bool {
        let link = &self.links[&link];
        link.silent || link.host.closed || link.host.broken
    }

    /// Links that the node has accepted and not closed.
    pub(crate) fn open_at_node(&self) -> impl Iterator<Item = LinkId> {
        self.links.iter().filter(|(_, link)| link.socket.is_some()).map(|(id, _)| *id)
    }

    /// Accepts no more connections.
    pub(crate) fn stop_listening(&mut self) {
        self.listening = false;
    }

    /// The node is gone, as if its machine had been reset: hosts find their connections broken.
    pub(crate) fn lose_node(&mut self, now: Nanos) {
        for (&id, link) in &mut self.links {
            let side = Side::Host;
            link.socket = None;
            link.watch = None;
            link.owner = None;
            if !link.node.closed && !link.host.closed {
                let at = link.to_host.arrival(now, &self.faults, &mut self.dice);
                let what = What::Stream(Arrival::Reset);
                self.due.push((at, Delivery { link: id, side, what }));
            }
            link.node.closed = true;
        }
        self.sockets.clear();
        self.listening = false;
    }

    /// The node is up again.
    pub(crate) fn listen(&mut self) {
        self.listening = true;
    }

    /// From now on nothing arrives, and no end is told: the host's machine lost its power.
    pub(crate) fn silence(&mut self, link: LinkId) {
        let link = self.links.get_mut(&link).expect("links stay");
        link.silent = true;
        link.host.closed = true;
    }

    /// Delivers an event.
    pub(crate) fn deliver(&mut self, now: Nanos, delivery: Delivery) {
        let Delivery { link: id, side, what } = delivery;
        let link = self.links.get_mut(&id).expect("links stay");
        if link.silent && side == Side::Host {
            return;
        }
        match what {
            What::Link if self.listening && !link.host.closed => return self.accept(id),
            What::Link => {
                link.node.closed = true;
                link.host.broken = true;
                self.signals.push(Signal::Host(id));
                return;
            }
            What::Stream(_) if link.end(side).broken => return,
            What::Stream(_) if link.silent => return,
            What::Stream(Arrival::Piece) if link.end(side).closed => {
                // No receiver is left: the sender is told.
                link.input(side).arrive_piece();
                return self.send_reset(now, id, side.other());
            }
            What::Stream(Arrival::Piece) => link.input(side).arrive_piece(),
            What::Stream(Arrival::End) => link.input(side).arrive_end(),
            What::Stream(Arrival::Room(len)) => link.output(side).add_room(len),
            What::Stream(Arrival::Reset) => link.end(side).broken = true,
        }
        self.signal(id, side);
    }

    fn accept(&mut self, id: LinkId) {
        let free = self.sockets.iter().position(Option::is_none);
        let index = free.unwrap_or(self.sockets.len());
        if index == self.sockets.len() {
            self.sockets.push(None);
        }
        self.sockets[index] = Some(id);
        let socket = SocketId(u32::try_from(index).expect("few sockets"));
        let link = self.links.get_mut(&id).expect("links stay");
        link.socket = Some(socket);
        link.owner = Some(CoreId::FIRST);
        self.signals.push(Signal::Accepted(socket, link.door, link.peer));
        self.signals.push(Signal::Host(id));
    }

    fn signal(&mut self, id: LinkId, side: Side) {
        match side {
            Side::Host => self.signals.push(Signal::Host(id)),
            Side::Node => self.signal_node(id),
        }
    }

    /// Ends the watch if its event has occurred.
    fn signal_node(&mut self, id: LinkId) {
        let link = self.links.get_mut(&id).expect("links stay");
        if link.watch.is_some_and(|interest| link.node_has(interest)) {
            link.watch = None;
            let owner = link.owner.expect("a watched socket has an owner");
            let socket = link.socket.expect("a watched socket is open");
            self.signals.push(Signal::Ready(owner, socket));
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
        let link = self.links.get_mut(&id).expect("links stay");
        link.end(first).broken = true;
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
        link.end(side).closed = true;
        let unread = link.input(side).unread() > 0;
        if side == Side::Node {
            link.watch = None;
            link.owner = None;
            if let Some(socket) = link.socket.take() {
                self.sockets[index(socket)] = None;
            }
        }
        if unread {
            self.send_reset(now, id, side.other());
        } else {
            self.send_end(now, id, side);
        }
    }

    /// Resets the connection from one end.
    pub(crate) fn abort(&mut self, now: Nanos, id: LinkId, side: Side) {
        let link = self.links.get_mut(&id).expect("links stay");
        link.end(side).closed = true;
        link.input(side).forget();
        self.send_reset(now, id, side.other());
    }

    /// The link behind a socket, for the core that has it.
    pub(crate) fn link_at(&self, core: CoreId, socket: SocketId) -> LinkId {
        let id = self.link_of_socket(socket);
        assert_eq!(self.links[&id].owner, Some(core), "{socket:?} is used by the core that has it");
        id
    }

    fn link_of_socket(&self, socket: SocketId) -> LinkId {
        let id = self.sockets.get(index(socket)).copied().flatten();
        id.unwrap_or_else(|| panic!("{socket:?} is open"))
    }

    /// Watches a socket.
    pub(crate) fn watch(&mut self, core: CoreId, socket: SocketId, interest: Interest) {
        let id = self.link_at(core, socket);
        self.links.get_mut(&id).expect("links stay").watch = Some(interest);
        self.signal_node(id);
    }

    /// The core hands the socket over to another.
    pub(crate) fn detach(&mut self, core: CoreId, socket: SocketId) {
        let id = self.link_at(core, socket);
        let link = self.links.get_mut(&id).expect("links stay");
        link.owner = None;
        link.watch = None;
    }

    /// The core takes a socket that another handed over.
    pub(crate) fn attach(&mut self, core: CoreId, socket: SocketId) {
        let id = self.link_of_socket(socket);
        let link = self.links.get_mut(&id).expect("links stay");
        assert_eq!(link.owner, None, "{socket:?} was detached before it is attached");
        link.owner = Some(core);
    }
}

fn index(socket: SocketId) -> usize {
    usize::try_from(socket.0).expect("usize is at least 32 bits wide")
}
