//! NVMe identifiers, each as its own type.

/// Identifies a command within its submission queue. NVMe Base 2.0, 3.3.3.1 (CID).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CommandId(pub u16);

/// Identifies a queue pair within its controller. NVMe Base 2.0, 3.3.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct QueueId(pub u16);

impl QueueId {
    /// The admin queue. All other queues are I/O queues.
    pub const ADMIN: Self = Self(0);

    /// Whether this is the admin queue.
    pub const fn is_admin(self) -> bool {
        self.0 == 0
    }
}

/// Identifies a controller within its subsystem. NVMe Base 2.0, 3.1.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ControllerId(pub u16);

impl ControllerId {
    /// In Connect: the subsystem chooses the controller. NVMe Base 2.0, 6.3.
    pub const DYNAMIC: Self = Self(0xFFFF);
    /// The largest valid controller identifier. NVMe Base 2.0, 5.17.2.1 (CNTLID).
    pub const MAX: Self = Self(0xFFEF);
}

/// Identifies a namespace within its subsystem, starting at 1. NVMe Base 2.0, 3.2.1.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NamespaceId(pub u32);

impl NamespaceId {
    /// No namespace.
    pub const NONE: Self = Self(0);
    /// All namespaces, where a command allows it.
    pub const ALL: Self = Self(0xFFFF_FFFF);
    /// The largest valid identifier of one namespace.
    pub const MAX: Self = Self(0xFFFF_FFFE);
}
