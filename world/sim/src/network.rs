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

mod link;
mod partitions;
mod sockets;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use nearflash_engine::CoreId;
use nearflash_shard::{Door, Peer, Received, Sent, SocketId};
use nearflash_units::Nanos;

use self::link::{End, Link};
pub(crate) use self::link::{Endpoint, HostId, LinkId, Route, Side, Way};
pub(crate) use self::partitions::PartitionId;
use self::partitions::Partitions;
use self::sockets::Sockets;

use crate::Dice;
use crate::faults::NetworkFaults;
use crate::machine::NodeId;
use crate::pipe::Arrival;

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

/// All connections.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) faults: NetworkFaults,
    dice: Dice,
    links: BTreeMap<LinkId, Link>,
    link_count: u32,
    /// By [`NodeId`].
    sockets: Vec<Sockets>,
    partitions: Partitions,
    /// Connections that broke in the middle.
    pub(crate) broken: u64,
    /// Future deliveries, for the agenda.
    pub(crate) due: Vec<(Nanos, Delivery)>,
    pub(crate) signals: Vec<Signal>,
}

impl Network {
    /// Between any hosts and so many nodes.
    pub(crate) fn new(faults: NetworkFaults, nodes: usize, dice: Dice) -> Self {
        Self {
            faults,
            dice,
            links: BTreeMap::new(),
            link_count: 0,
            sockets: std::iter::repeat_with(Sockets::default).take(nodes).collect(),
            partitions: Partitions::default(),
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
            given_up_at: None,
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

    /// Whether two nodes have the link.
    pub(crate) fn is_between_nodes(&self, link: LinkId) -> bool {
        matches!(self.links[&link].end(Side::Caller).at, Endpoint::Node(_))
    }

    /// The number of nodes.
    pub(crate) fn node_count(&self) -> usize {
        self.sockets.len()
    }

    /// The number of bytes that have arrived at the host's end and were not received.
    pub(crate) fn unread_by_host(&self, link: LinkId) -> usize {
        self.links[&link].end(Side::Caller).input.unread()
    }

    /// Whether the node that was called has closed its end.
    pub(crate) fn is_closed_by_node(&self, link: LinkId) -> bool {
        self.links[&link].end(Side::Called).closed
    }

    /// Whether the host has closed its end, or the link is or was cut.
    pub(crate) fn has_lost_host(&self, link: LinkId) -> bool {
        let link = &self.links[&link];
        let host = link.end(Side::Caller);
        link.silent || host.closed || host.broken || link.was_cut
    }

    /// The number of bytes that have arrived at an end and were not received.
    pub(crate) fn unread(&self, link: LinkId, at: Side) -> usize {
        self.links[&link].end(at).input.unread()
    }

    /// Whether the other end has closed or reset the link, as this end's system knows.
    pub(crate) fn is_over(&self, link: LinkId, at: Side) -> bool {
        let end = self.links[&link].end(at);
        end.broken || end.input.has_end_arrived()
    }

    /// Since when the node that was called should execute nothing more of a link: the host's end has arrived
    /// there, or its keep-alive timer is over.
    pub(crate) fn over_since(&self, link: LinkId) -> Option<Nanos> {
        let link = &self.links[&link];
        let over_since = link.end(Side::Called).over_since;
        over_since.into_iter().chain(link.given_up_at).min()
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
        self.sockets[node.0].lose_node();
    }

    /// From now on nothing arrives, and neither end is notified, as when the host's machine loses
    /// power. From `given_up_at` on, the node must not execute what has arrived.
    pub(crate) fn silence(&mut self, link: LinkId, given_up_at: Option<Nanos>) {
        let link = self.link_mut(link);
        link.silent = true;
        link.given_up_at = given_up_at;
        link.end_mut(Side::Caller).closed = true;
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
            What::Stream(Arrival::End) => {
                link.end_mut(side).over_since.get_or_insert(now);
                link.input(side).arrive_end();
            }
            What::Stream(Arrival::Room(len)) => link.output(side).add_room(len),
            What::Stream(Arrival::Reset) => {
                link.end_mut(side).over_since.get_or_insert(now);
                link.end_mut(side).broken = true;
            }
        }
        self.signal(id, side);
    }

    /// A connection arrives at the node that was called.
    fn arrive_link(&mut self, id: LinkId) {
        let node = self.node_of(id);
        let link = self.links.get_mut(&id).expect("links stay");
        // The node may have lost its power since it was called.
        let is_over = Side::BOTH.iter().any(|side| link.end(*side).closed);
        if !self.sockets[node.0].is_listening() || is_over {
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

    /// The number of bytes that the buffer accepts now.
    pub(crate) fn room(&self, id: LinkId, from: Side) -> usize {
        self.links[&id].end(from.other()).input.room()
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
        // What has arrived before a reset can still be received.
        let is_broken = link.end(at).broken;
        let pipe = link.input(at);
        let mut len = into.len().min(pipe.unread());
        if len == 0 {
            let is_over = (pipe.has_end_arrived() || is_broken) && pipe.unread() == 0;
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
            self.sockets[node.0].close(socket);
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
}
