//! Changes of the state that all sessions of a volume share: registrations, reservations, modes.
//! They are rare, go one at a time through the node's control side, and are answered when every
//! core acts on them.
//!
//! The words are those of both standards where these agree: SPC-4, 5.13 (PERSISTENT RESERVE OUT
//! and IN) and NVMe Base 2.0, 8.19 (Reservation Register, Acquire, Release, Report).

use crate::{Access, Nexus, VolumeId};

/// One change asked of one volume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// The volume.
    pub volume: VolumeId,
    /// The requesting nexus. [`Nexus::NONE`] is allowed only for changes that need no registration.
    pub nexus: Nexus,
    /// The requester in its protocol's terms, for reports.
    pub identity: Identity,
    /// The change.
    pub kind: ChangeKind,
}

/// The party behind a nexus, in its protocol's terms, as reports name it.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[allow(missing_docs, reason = "the names say what the fields are")]
pub enum Identity {
    /// An initiator port.
    Iscsi {
        /// The initiator's name, lower case.
        initiator: Box<str>,
        /// Its part of the session's identifier.
        isid: [u8; 6],
        portal_group: u16,
    },
    /// A host.
    Nvme {
        host_id: [u8; 16],
        /// The controller of the request; [`Identity::NO_CONTROLLER`] when none is known.
        controller: u16,
    },
}

impl Identity {
    /// The controller id that NVMe reports for a registered host without a controller.
    pub const NO_CONTROLLER: u16 = 0xFFFF;
}

/// The state that a registration must have before it changes. Otherwise the change conflicts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Expected {
    /// Any state. (REGISTER AND IGNORE EXISTING KEY; NVMe Replace with IEKEY)
    Anything,
    /// The requester is not registered. (REGISTER with a reservation key of zero)
    Nothing,
    /// It is not registered, or is already registered with the new key. (NVMe Register)
    NothingOrSame,
    /// It is registered, with any key. (NVMe Unregister with IEKEY)
    AnyKey,
    /// It is registered with this key. (REGISTER with a reservation key; NVMe Unregister, Replace)
    Key(u64),
}

/// The kind of a change. A change with a `key` conflicts unless the requester is registered with
/// it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the names say what the fields are")]
pub enum ChangeKind {
    /// Changes the requester's key to `new`, or ends its registration.
    Register {
        expected: Expected,
        /// Its key from now on; zero ends the registration.
        new: u64,
        /// Whether registrations and reservation survive a loss of power from now on; `None` leaves
        /// this unchanged. (APTPL; CPTPL)
        persist: Option<bool>,
    },
    /// Takes the reservation.
    Reserve { key: u64, reservation: ReservationType },
    /// Releases the reservation, if the requester holds it.
    Release { key: u64, reservation: ReservationType },
    /// Ends the reservation and every registration.
    Clear { key: u64 },
    /// Ends the registrations with the key `victim`, and takes the reservation if its holder has
    /// that key. A `victim` of zero means all registrations, while a reservation of all registrants
    /// is held.
    Preempt {
        key: u64,
        /// The key whose registrations end.
        victim: u64,
        reservation: ReservationType,
        /// Whether the victims' earlier requests end before the answer. Those that their sessions
        /// have not begun are never executed.
        abort: bool,
    },
    /// The older, exclusive reservation of SPC-2 RESERVE.
    LegacyReserve,
    /// Its end: SPC-2 RELEASE.
    LegacyRelease,
    /// Changes nothing. Returns the current state in [`ChangeResult::Report`].
    Report,
    /// Whether registrations and reservation persist through power loss (NVMe FID 83h).
    SetPersistence(bool),
    /// The changeable fields of the SCSI control mode page.
    SetModes(Modes),
    /// A reset: ends SPC-2's reservation, and restores default modes. Earlier requests have ended
    /// before the answer.
    Reset(ResetScope),
    /// Ends commands: earlier requests have ended before the answer, and commands that their
    /// session has not begun are never executed. The requester's own session has given up its
    /// commands. (ABORT TASK SET, CLEAR TASK SET)
    EndTasks(TaskSet),
    /// The requester's session has ended: ends its older reservation. (I_T nexus loss)
    NexusLost,
}

/// The modes that MODE SELECT can change, of all sessions of a volume, until a reset.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Modes {
    /// SWP: writes are refused, over every protocol.
    pub write_protected: bool,
    /// D_SENSE: sense data comes in descriptor format.
    pub descriptor_sense: bool,
}

/// The scope of a reset.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ResetScope {
    /// The volume.
    LogicalUnit,
    /// Every volume of the volume's target. The control side applies the change to each.
    Target,
    /// Every volume of the volume's target, and every other session of the target ends, as after a loss of power.
    TargetAndSessions,
}

/// The set of commands to end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TaskSet {
    /// The requester's commands, which its session has given up. The change only waits for them.
    Own,
    /// Everybody's, of the volume.
    All,
}

/// The type of a persistent reservation. SPC-4, type codes; NVMe Base 2.0, 8.19.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ReservationType {
    /// Only the holder writes.
    WriteExclusive,
    /// Only the holder reads and writes.
    ExclusiveAccess,
    /// Only registrants write.
    WriteExclusiveRegistrantsOnly,
    /// Only registrants read and write.
    ExclusiveAccessRegistrantsOnly,
    /// Only registrants write, and each of them is the holder.
    WriteExclusiveAllRegistrants,
    /// Only registrants read and write, and each of them is the holder.
    ExclusiveAccessAllRegistrants,
}

impl ReservationType {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::WriteExclusive,
        Self::ExclusiveAccess,
        Self::WriteExclusiveRegistrantsOnly,
        Self::ExclusiveAccessRegistrantsOnly,
        Self::WriteExclusiveAllRegistrants,
        Self::ExclusiveAccessAllRegistrants,
    ];

    /// SCSI's code and NVMe's.
    const CODES: [(u8, u8); 6] = [(1, 1), (3, 2), (5, 3), (6, 4), (7, 5), (8, 6)];

    /// The type of a SCSI code; `None` for an obsolete or reserved one.
    pub fn from_scsi(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.to_scsi() == code)
    }

    /// Its SCSI code.
    pub const fn to_scsi(self) -> u8 {
        Self::CODES[self as usize].0
    }

    /// The type of an NVMe code; `None` for a reserved one.
    pub fn from_nvme(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.to_nvme() == code)
    }

    /// Its NVMe code.
    pub const fn to_nvme(self) -> u8 {
        Self::CODES[self as usize].1
    }

    /// Whether every registrant is a holder.
    pub const fn is_all_registrants(self) -> bool {
        matches!(self, Self::WriteExclusiveAllRegistrants | Self::ExclusiveAccessAllRegistrants)
    }

    /// Whether it has a single holder, and other registrants have no share in it.
    pub const fn is_holders_alone(self) -> bool {
        matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }

    /// The lowest access that it refuses to a nexus that it does not admit, like all above.
    pub const fn refuses_from(self) -> Access {
        match self {
            Self::WriteExclusive
            | Self::WriteExclusiveRegistrantsOnly
            | Self::WriteExclusiveAllRegistrants => Access::Manage,
            Self::ExclusiveAccess
            | Self::ExclusiveAccessRegistrantsOnly
            | Self::ExclusiveAccessAllRegistrants => Access::Read,
        }
    }

    /// As people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WriteExclusive => "write-exclusive",
            Self::ExclusiveAccess => "exclusive-access",
            Self::WriteExclusiveRegistrantsOnly => "write-exclusive-registrants-only",
            Self::ExclusiveAccessRegistrantsOnly => "exclusive-access-registrants-only",
            Self::WriteExclusiveAllRegistrants => "write-exclusive-all-registrants",
            Self::ExclusiveAccessAllRegistrants => "exclusive-access-all-registrants",
        }
    }
}

/// The result of a change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ChangeResult {
    /// Done on every core, and recorded if it persists.
    Done,
    /// The state of registrations and the reservation.
    Report(Box<Report>),
    /// Another nexus's reservation or the requester's registration forbids it: Reservation
    /// Conflict.
    Conflict,
    /// It cannot be.
    Refused(Refusal),
}

/// The reason why a change is refused, other than a conflict.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// A `victim` of zero without a reservation of all registrants: Invalid Field.
    #[error("a key of zero needs an all-registrants reservation")]
    InvalidKey,
    /// The reservation has another type. (SCSI: INVALID RELEASE; NVMe: Invalid Field)
    #[error("the reservation is of another type")]
    WrongType,
    /// No room for one more. (SCSI: insufficient registration resources)
    #[error("the volume has the maximum number of registrations")]
    TooManyRegistrations,
    /// No such volume, any more.
    #[error("the volume no longer exists")]
    VolumeGone,
    /// It could not be recorded, so it has no effect.
    #[error("the change could not be recorded")]
    NotRecorded,
    /// The volume has the largest number of unanswered changes; a retry may succeed. (SCSI: BUSY)
    #[error("too many changes of the volume are pending: try again later")]
    Busy,
    /// The node does not do this.
    #[error("the protocol does not support this change")]
    Unsupported,
}

/// A volume's registrations and reservation.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// Counts changes of registrations, modulo 2^32.
    pub generation: u32,
    /// The reservation's type, if one is held.
    pub reservation: Option<ReservationType>,
    /// Whether registrations and reservation survive a loss of power.
    pub persists: bool,
    /// The registrants, in the order of registration.
    pub registrants: Vec<Registrant>,
}

/// Someone registered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Registrant {
    /// The registrant.
    pub nexus: Nexus,
    /// The registrant in its protocol's names.
    pub identity: Identity,
    /// Never zero.
    pub key: u64,
    /// Whether it holds the reservation.
    pub holds: bool,
}

/// A notice to sessions about a change that another session or the node made: a SCSI unit
/// attention, an NVMe reservation notification or a notice of changed attributes.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Attention {
    /// The node has just begun.
    PowerOn,
    /// The target has restarted: the session has ended.
    ColdReset,
    /// The unit was reset: commands that have not begun are aborted.
    Reset,
    /// Another session has cleared the unit's task set, or this session's part of it together with
    /// its registration. Commands that have not begun are aborted, and each reports this in its
    /// status.
    TasksCleared,
    /// The session was lost, and was established again.
    NexusLoss,
    /// The volume has another size.
    CapacityChanged,
    /// The target has other units.
    UnitsChanged,
    /// Another session changed modes.
    ModeChanged,
    /// Reservation and registrations were cleared by another.
    ReservationsPreempted,
    /// A reservation in which registrants had a share has ended, or has another type.
    ReservationsReleased,
    /// The registration was ended by another.
    RegistrationsPreempted,
}

/// Something to tell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Raised {
    /// The volume; `None` for a notice that concerns every volume.
    pub volume: Option<VolumeId>,
    /// Whom.
    pub to: Addressees,
    /// The notice.
    pub attention: Attention,
}

/// Whom to tell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Addressees {
    /// This one.
    Only(Nexus),
    /// Everybody else.
    AllBut(Nexus),
    /// Everybody.
    All,
}

impl Addressees {
    /// Whether `nexus` is among them.
    pub fn include(self, nexus: Nexus) -> bool {
        match self {
            Self::Only(only) => only == nexus,
            Self::AllBut(other) => other != nexus,
            Self::All => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservation_types_have_the_codes_of_both_standards() {
        for (scsi, nvme, kind) in [
            (1, 1, ReservationType::WriteExclusive),
            (3, 2, ReservationType::ExclusiveAccess),
            (5, 3, ReservationType::WriteExclusiveRegistrantsOnly),
            (6, 4, ReservationType::ExclusiveAccessRegistrantsOnly),
            (7, 5, ReservationType::WriteExclusiveAllRegistrants),
            (8, 6, ReservationType::ExclusiveAccessAllRegistrants),
        ] {
            assert_eq!((kind.to_scsi(), kind.to_nvme()), (scsi, nvme));
            assert_eq!(ReservationType::from_scsi(scsi), Some(kind));
            assert_eq!(ReservationType::from_nvme(nvme), Some(kind));
        }
        for reserved in [0, 2, 4, 9, 15, 0xFF] {
            assert_eq!(ReservationType::from_scsi(reserved), None);
        }
        for reserved in [0, 7, 0xFF] {
            assert_eq!(ReservationType::from_nvme(reserved), None);
        }
    }
}
