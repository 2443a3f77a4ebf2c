//! The sockets of the nodes: each is one end of a link, and one core has it.

use nearflash_engine::CoreId;
use nearflash_shard::{Door, Interest, SocketId};
use nearflash_units::Nanos;

use super::link::End;
use super::{Endpoint, LinkId, Network, Side};
use crate::machine::NodeId;

/// The sockets of a node.
#[derive(Debug)]
pub(super) struct Sockets {
    /// By [`SocketId`], which are reused as soon as they are free.
    links: Vec<Option<(LinkId, Side)>>,
    listening: bool,
}

impl Sockets {
    pub(super) fn open(&mut self, link: LinkId, side: Side) -> SocketId {
        let free = self.links.iter().position(Option::is_none);
        let index = free.unwrap_or(self.links.len());
        if index == self.links.len() {
            self.links.push(None);
        }
        self.links[index] = Some((link, side));
        SocketId(u32::try_from(index).expect("few sockets"))
    }

    /// The node has closed a socket.
    pub(super) fn close(&mut self, socket: SocketId) {
        self.links[index(socket)] = None;
    }

    /// The node is gone, and accepts no connections until it is up again.
    pub(super) fn lose_node(&mut self) {
        *self = Self { links: Vec::new(), listening: false };
    }

    pub(super) fn is_listening(&self) -> bool {
        self.listening
    }
}

impl Default for Sockets {
    fn default() -> Self {
        Self { links: Vec::new(), listening: true }
    }
}

impl Network {
    /// A core of a node requests a connection to a listener of another node. The socket takes bytes
    /// once the other node has accepted, and is broken if it refuses.
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

    /// A node is up again.
    pub(crate) fn listen(&mut self, node: NodeId) {
        self.sockets[node.0].listening = true;
    }
}

fn index(socket: SocketId) -> usize {
    usize::try_from(socket.0).expect("usize is at least 32 bits wide")
}
