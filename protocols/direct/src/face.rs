//! The two faces of a mirror: a mirror is a device that is made of equal extents on two nodes, and the
//! nodes use each other's faces of it as volumes.

/// A side of a mirror that a node shows to the other nodes.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Face {
    /// The replica on this node, as its primary writes it. Requests carry a term and a session.
    Replica,
    /// The mirror itself, whose primary this node is. Requests carry a term.
    Primary,
}
