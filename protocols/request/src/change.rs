//! Changes of what all sessions of a volume share and that is no I/O: registrations, reservations,
//! modes. They are rare, go one at a time through the node's control side, and are answered when
//! every core acts on them.
//!
//! The words are those of both standards where these agree: SPC-4, 5.13 (PERSISTENT RESERVE OUT
//! and IN) and NVMe Base 2.0, 8.19 (Reservation Register, Acquire, Release, Report).

use crate::{Access, Nexus, VolumeId};

/// One change asked of one volume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// Which volume.
    pub volume: VolumeId,
    /// Who asks. Never [`Nexus::NONE`], except for what needs no registration.
    pub nexus: Nexus,
    /// The same for people and reports.
    pub identity: Identity,
    /// What is to change.
    pub kind: ChangeKind,
}

/// Who stands behind a nexus, in its protocol's own names: what reports have to tell.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Identity {
    /// An initiator port.
    Iscsi {
        /// The initiator's name, lower case.
        initiator: Box<str>,
        /// Its part of the session's identifier.
        isid: [u8; 6],
        /// The target's portal group.
        portal_group: u16,
    },
    /// A host.
    Nvme {
        /// Its 128-bit identifier.
        host_id: [u8; 16],
        /// The controller that it asked through; [`Identity::NO_CONTROLLER`] when none is known.
        controller: u16,
    },
}

impl Identity {
    /// What NVMe reports for a registered host without a controller.
    pub const NO_CONTROLLER: u16 = 0xFFFF;
}

/// What a registration is expected to be before it changes. Where it is another: conflict.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Expected {
    /// Whatever it is. (REGISTER AND IGNORE EXISTING KEY; NVMe Replace with IEKEY)
    Anything,
    /// The asker is not registered. (REGISTER with a reservation key of zero)
    Nothing,
    /// It is not registered, or with the new key already. (NVMe Register)
    NothingOrSame,
    /// It is registered, with whatever key. (NVMe Unregister with IEKEY)
    AnyKey,
    /// It is registered with this key. (REGISTER with a reservation key; NVMe Unregister, Replace)
    Key(u64),
}

/// What is to change. Where a `key` stands, the asker has to be registered with it: conflict
/// otherwise.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ChangeKind {
    /// The asker's registration becomes `new`, or ends.
    Register {
        /// What it has to be before.
        expected: Expected,
        /// Its key from now on; zero ends the registration.
        new: u64,
        /// Whether registrations and reservation are to survive a loss of power from now on;
        /// `None` leaves it as it is. (APTPL; CPTPL)
        persist: Option<bool>,
    },
    /// Takes the reservation.
    Reserve {
        /// The asker's.
        key: u64,
        /// Of what type.
        reservation: ReservationType,
    },
    /// Lets go of the reservation, if the asker holds it.
    Release {
        /// The asker's.
        key: u64,
        /// Has to be that of the reservation.
        reservation: ReservationType,
    },
    /// Ends the reservation and every registration.
    Clear {
        /// The asker's.
        key: u64,
    },
    /// Ends the registrations with the key `victim`, and takes the reservation if that is its
    /// holder's. A `victim` of zero means all, while a reservation of all registrants is held.
    Preempt {
        /// The asker's.
        key: u64,
        /// Whose registrations end.
        victim: u64,
        /// Of what type the reservation is then.
        reservation: ReservationType,
        /// What the victims asked for before is over when this is answered, and what their sessions
        /// have not begun never happens.
        abort: bool,
    },
    /// The older, exclusive reservation of SPC-2 RESERVE.
    LegacyReserve,
    /// Its end: SPC-2 RELEASE.
    LegacyRelease,
    /// Changes nothing: how it is, in [`ChangeResult::Report`].
    Report,
    /// Whether registrations and reservation survive a loss of power. (NVMe Set Features,
    /// Reservation Persistence)
    SetPersistence(bool),
    /// The changeable fields of the SCSI control mode page.
    SetModes(Modes),
    /// A reset: ends the older reservation and puts modes back to what they are by default. What was
    /// asked for before is over when this is answered.
    Reset(ResetScope),
    /// Commands are ended: what was asked for before is over when this is answered, and what its
    /// session has not begun never happens. The asker's own session has given up its part. (ABORT TASK
    /// SET, CLEAR TASK SET)
    EndTasks(TaskSet),
    /// The asker's session is over: ends its older reservation. (I_T nexus loss)
    NexusLost,
}

/// What MODE SELECT can change; all sessions of a volume share it, and it does not outlive a reset.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Modes {
    /// SWP: nobody writes, whatever door.
    pub write_protected: bool,
    /// D_SENSE: sense data comes in descriptor format.
    pub descriptor_sense: bool,
}

/// How much a reset reaches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ResetScope {
    /// The volume.
    LogicalUnit,
    /// Every volume of the volume's target. Who carries the change out applies it to each.
    Target,
    /// The same, and every other session of the target is over, as if its power had gone.
    TargetAndSessions,
}

/// Whose commands are ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TaskSet {
    /// The asker's, which its session has given up: they are only waited for.
    Own,
    /// Everybody's, of the volume.
    All,
}

/// What a reservation allows to whom. SPC-4, table of persistent reservation type codes; NVMe Base
/// 2.0, 8.19.
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

    /// Whether only one holds it, and the other registrants have no part in it.
    pub const fn is_holders_alone(self) -> bool {
        matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }

    /// What it refuses to whom it does not let in: this access and those above it.
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

/// How a change ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ChangeResult {
    /// Done, on every core, and recorded where it persists.
    Done,
    /// How it is.
    Report(Box<Report>),
    /// Another's reservation or the asker's registration forbids it. (SCSI and NVMe status
    /// Reservation Conflict)
    Conflict,
    /// It cannot be.
    Refused(Refusal),
}

/// Why a change cannot be, beside a conflict.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// A `victim` of zero without a reservation of all registrants. (SCSI: invalid field in
    /// parameter list; NVMe: Invalid Field in Command)
    #[error("a key of zero names nobody here")]
    InvalidKey,
    /// The reservation has another type. (SCSI: invalid release of persistent reservation; NVMe:
    /// Invalid Field in Command)
    #[error("the reservation is of another type")]
    WrongType,
    /// No room for one more. (SCSI: insufficient registration resources)
    #[error("the volume has as many registrations as it may have")]
    TooManyRegistrations,
    /// No such volume, any more.
    #[error("there is no such volume any more")]
    VolumeGone,
    /// It should have been recorded, and could not be: it did not happen.
    #[error("the change could not be recorded")]
    NotRecorded,
    /// As many changes of the volume are unanswered as may be: the same may succeed later. (SCSI: BUSY)
    #[error("as many changes of the volume wait as may")]
    Busy,
    /// The node does not do this.
    #[error("no such change here")]
    Unsupported,
}

/// A volume's registrations and reservation.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// Counts changes of registrations, modulo 2^32.
    pub generation: u32,
    /// What is reserved.
    pub reservation: Option<ReservationType>,
    /// Whether it all survives a loss of power.
    pub persists: bool,
    /// Who is registered, in the order of registration.
    pub registrants: Vec<Registrant>,
}

/// Someone registered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Registrant {
    /// Who.
    pub nexus: Nexus,
    /// The same in its protocol's names.
    pub identity: Identity,
    /// Never zero.
    pub key: u64,
    /// Whether it holds the reservation.
    pub holds: bool,
}

/// What a change, or the node, has to tell sessions that did not ask for it: a SCSI unit attention,
/// an NVMe reservation notification or a notice of changed attributes.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Attention {
    /// The node has just begun.
    PowerOn,
    /// The target has begun anew: the session is over.
    ColdReset,
    /// The unit was reset: what was not begun is aborted.
    Reset,
    /// Another session has cleared the unit's task set, or this one's part of it with its registration:
    /// what was not begun is aborted, which each command says for itself.
    TasksCleared,
    /// The session was lost and is here again.
    NexusLoss,
    /// The volume has another size.
    CapacityChanged,
    /// The target has other units.
    UnitsChanged,
    /// Another session changed modes.
    ModeChanged,
    /// Reservation and registrations were cleared by another.
    ReservationsPreempted,
    /// A reservation that registrants had a part in is gone, or is of another type.
    ReservationsReleased,
    /// The registration was ended by another.
    RegistrationsPreempted,
}

/// Something to tell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Raised {
    /// Which volume's; `None` for what is every volume's.
    pub volume: Option<VolumeId>,
    /// Whom.
    pub to: Addressees,
    /// What.
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
