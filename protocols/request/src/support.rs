//! The operations that a volume may or may not have, beyond reads, writes and flushes.
//!
//! The control side derives the value from the volume's home. Every protocol reports it to hosts, and the
//! node refuses the operations that it excludes, so that a claim and an answer never differ.

use crate::{ChangeKind, Operation};

/// The optional operations of a volume.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Support {
    /// Operations that read a range and write it as one step: see [`Operation::is_compound`].
    pub compound: bool,
    /// Registrations, reservations, and the modes that initiators set: see [`ChangeKind::is_of_all_nodes`].
    pub reservations: bool,
}

impl Support {
    /// Everything: of a volume that only this node serves.
    pub const ALL: Self = Self { compound: true, reservations: true };
    /// Nothing: of a volume that other nodes serve, too.
    pub const NONE: Self = Self { compound: false, reservations: false };

    /// Whether the volume has this operation.
    pub const fn has(self, operation: &Operation) -> bool {
        self.compound || !operation.is_compound()
    }

    /// Whether the volume has changes of this kind.
    pub const fn has_change(self, kind: &ChangeKind) -> bool {
        self.reservations || !kind.is_of_all_nodes()
    }
}

impl Operation {
    /// Whether no other request may change the range in the middle of the operation.
    pub const fn is_compound(&self) -> bool {
        matches!(
            self,
            Self::CompareAndWrite { .. }
                | Self::OrWrite { .. }
                | Self::WriteAndVerify { .. }
                | Self::WriteBytes { .. }
                | Self::CompareAndSwap { .. }
                | Self::FetchAdd { .. }
        )
    }
}

impl ChangeKind {
    /// Whether every node that serves the volume would have to act on the change. The others concern the
    /// commands and the sessions of one node.
    pub const fn is_of_all_nodes(&self) -> bool {
        match self {
            Self::Register { .. }
            | Self::Reserve { .. }
            | Self::Release { .. }
            | Self::Clear { .. }
            | Self::Preempt { .. }
            | Self::LegacyReserve
            | Self::LegacyRelease
            | Self::Report
            | Self::SetPersistence(_)
            | Self::SetModes(_) => true,
            Self::Reset(_) | Self::EndTasks(_) | Self::NexusLost => false,
        }
    }
}
