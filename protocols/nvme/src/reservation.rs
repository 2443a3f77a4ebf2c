//! Decodes Reservation Register, Acquire, Release and Report, and encodes their results.
//!
//! Spec: NVMe Base 2.0, 7 (the commands) and 8.19 (their semantics). The space decides on
//! reservations: the commands become [`ChangeKind`]s. Host identifiers always have 128 bits, as
//! fabrics allow no others.

use nearflash_request::{
    ChangeKind, ChangeResult, Expected, Identity, Refusal, Registrant, Report, ReservationType,
};
use nearflash_session::wire;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::{Command, IoOpcode, NamespaceId, Status};

/// A reservation command whose data holds keys.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the names say what the fields are")]
pub enum ReservationCommand {
    /// Reservation Register.
    Register {
        action: RegisterAction,
        /// IEKEY: the current key is not checked.
        ignore_key: bool,
        /// CPTPL: whether registrations and reservation persist through power loss.
        persist: Option<bool>,
    },
    /// Reservation Acquire.
    Acquire { action: AcquireAction, reservation: ReservationType },
    /// Reservation Release. The reservation must have this type.
    Release(ReservationType),
    /// Reservation Release that clears the reservation and every registration.
    Clear,
}

/// RREGA.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RegisterAction {
    /// Register.
    Register,
    /// Unregister.
    Unregister,
    /// Replace the registration key.
    Replace,
}

/// RACQA.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AcquireAction {
    /// Acquire the reservation.
    Acquire,
    /// Unregister other hosts, and take over the reservation if one of them holds it.
    Preempt,
    /// Preempt, and abort the other hosts' commands.
    PreemptAndAbort,
}

/// RREGA, RACQA and RRELA.
const ACTION: u32 = 0b111;
/// IEKEY.
const IGNORE_KEY: u32 = 1 << 3;

impl ReservationCommand {
    /// Decodes dword 10 of a Reservation Register.
    ///
    /// # Errors
    /// Invalid Field if a field has a reserved value. The other decoders return the same error.
    pub(crate) fn register(cdw10: u32) -> Result<Self, Status> {
        let action = match cdw10 & ACTION {
            0 => RegisterAction::Register,
            1 => RegisterAction::Unregister,
            2 => RegisterAction::Replace,
            _ => return Err(Status::INVALID_FIELD.dnr()),
        };
        let persist = match cdw10 >> 30 {
            0 => None,
            2 => Some(false),
            3 => Some(true),
            _ => return Err(Status::INVALID_FIELD.dnr()),
        };
        Ok(Self::Register { action, ignore_key: cdw10 & IGNORE_KEY != 0, persist })
    }

    /// Decodes dword 10 of a Reservation Acquire.
    pub(crate) fn acquire(cdw10: u32) -> Result<Self, Status> {
        let action = match cdw10 & ACTION {
            0 => AcquireAction::Acquire,
            1 => AcquireAction::Preempt,
            2 => AcquireAction::PreemptAndAbort,
            _ => return Err(Status::INVALID_FIELD.dnr()),
        };
        check_key_counts(cdw10)?;
        Ok(Self::Acquire { action, reservation: reservation_type(cdw10)? })
    }

    /// Decodes dword 10 of a Reservation Release. A Clear has no type.
    pub(crate) fn release(cdw10: u32) -> Result<Self, Status> {
        check_key_counts(cdw10)?;
        match cdw10 & ACTION {
            0 => Ok(Self::Release(reservation_type(cdw10)?)),
            1 => Ok(Self::Clear),
            _ => Err(Status::INVALID_FIELD.dnr()),
        }
    }

    /// The length of the keys in the command's data, in bytes.
    pub const fn data_len(self) -> usize {
        match self {
            Self::Register { .. } | Self::Acquire { .. } => 2 * KEY_LEN,
            Self::Release(_) | Self::Clear => KEY_LEN,
        }
    }

    /// The requested change, with the keys in the data: CRKEY, then NRKEY or PRKEY.
    ///
    /// # Errors
    /// The status of the completion, if the data is too short or a key is not valid.
    pub fn change(self, data: &[u8]) -> Result<ChangeKind, Status> {
        let (keys, _) = <[U64]>::ref_from_prefix_with_elems(data, self.data_len() / KEY_LEN)
            .map_err(|_| Status::SGL_LENGTH_INVALID.dnr())?;
        let (key, second) = (keys[0].get(), keys.get(1).map_or(0, |key| key.get()));
        Ok(match self {
            Self::Register { action, ignore_key, persist } => {
                let (expected, new) = registration(action, ignore_key, key, second)?;
                ChangeKind::Register { expected, new, persist }
            }
            Self::Acquire { action: AcquireAction::Acquire, reservation } => {
                ChangeKind::Reserve { key, reservation }
            }
            Self::Acquire { action, reservation } => ChangeKind::Preempt {
                key,
                victim: second,
                reservation,
                abort: action == AcquireAction::PreemptAndAbort,
            },
            Self::Release(reservation) => ChangeKind::Release { key, reservation },
            Self::Clear => ChangeKind::Clear { key },
        })
    }
}

const KEY_LEN: usize = 8;

/// NVMe Base 2.0, 8.19: only a Register may ignore the current key.
fn check_key_counts(cdw10: u32) -> Result<(), Status> {
    if cdw10 & IGNORE_KEY == 0 { Ok(()) } else { Err(Status::INVALID_FIELD.dnr()) }
}

fn reservation_type(cdw10: u32) -> Result<ReservationType, Status> {
    let [_, code, ..] = cdw10.to_le_bytes();
    ReservationType::from_nvme(code).ok_or(Status::INVALID_FIELD.dnr())
}

/// The registration that is expected, and the new key. Zero is not a valid key for a registration.
fn registration(
    action: RegisterAction,
    ignore_key: bool,
    current: u64,
    new: u64,
) -> Result<(Expected, u64), Status> {
    let new = match action {
        RegisterAction::Unregister => 0,
        RegisterAction::Register | RegisterAction::Replace if new == 0 => {
            return Err(Status::INVALID_FIELD.dnr());
        }
        RegisterAction::Register | RegisterAction::Replace => new,
    };
    let expected = match (action, ignore_key) {
        (RegisterAction::Register, _) => Expected::NothingOrSame,
        (RegisterAction::Unregister, true) => Expected::AnyKey,
        (RegisterAction::Replace, true) => Expected::Anything,
        (RegisterAction::Unregister | RegisterAction::Replace, false) => Expected::Key(current),
    };
    Ok((expected, new))
}

/// The status for the host that requested the change.
pub fn status_of(result: &ChangeResult) -> Status {
    match result {
        ChangeResult::Done | ChangeResult::Report(_) => Status::SUCCESS,
        ChangeResult::Conflict => Status::RESERVATION_CONFLICT.dnr(),
        ChangeResult::Refused(refusal) => match refusal {
            Refusal::InvalidKey | Refusal::WrongType => Status::INVALID_FIELD.dnr(),
            Refusal::VolumeGone => Status::INVALID_NAMESPACE.dnr(),
            Refusal::Busy => Status::TRANSIENT_TRANSPORT_ERROR,
            Refusal::Unsupported => Status::INVALID_OPCODE.dnr(),
            Refusal::TooManyRegistrations | Refusal::NotRecorded => Status::INTERNAL_ERROR,
        },
    }
}

wire! {
    /// Reservation Status, extended; registered hosts follow. NVMe Base 2.0, 7.
    pub struct ReservationStatus: [u8; 64] {
        pub generation: U32 = "GEN: the number of changes of registrations",
        pub reservation: u8 = "RTYPE; 0 if there is no reservation",
        pub registered: U16 = "REGCTL: the number of [`RegisteredHost`]s that follow",
        pub(crate) reserved7: [u8; 2],
        /// PTPLS: whether registrations and reservation persist through power loss.
        pub persists: u8,
        pub(crate) reserved10: [u8; 54],
    }

    /// Registered Controller, extended data structure. NVMe Base 2.0, 7 (Reservation Report).
    pub struct RegisteredHost: [u8; 64] {
        /// CNTLID; FFFFh in the dynamic model, where a host may reconnect with another one.
        pub controller: U16,
        pub status: u8 = "RCSTS: bit 0 is set if the host holds the reservation",
        pub(crate) reserved3: [u8; 5],
        pub key: U64 = "RKEY",
        pub host_id: [u8; 16] = "HOSTID",
        pub(crate) reserved32: [u8; 32],
    }
}

impl RegisteredHost {
    /// RCSTS bit 0: the host holds the reservation.
    pub const HOLDS: u8 = 1;

    /// An iSCSI registrant has no host identifier, so its nexus number is used instead.
    fn of(registrant: &Registrant) -> Self {
        let host_id = match registrant.identity {
            Identity::Nvme { host_id, .. } => host_id,
            Identity::Iscsi { .. } => registrant.nexus.0.to_be_bytes(),
        };
        Self {
            controller: Identity::NO_CONTROLLER.into(),
            status: if registrant.holds { Self::HOLDS } else { 0 },
            key: registrant.key.into(),
            host_id,
            ..Self::new_zeroed()
        }
    }
}

/// The data of a Reservation Report, truncated to `len_max` bytes.
pub fn report_data(report: &Report, len_max: usize) -> Vec<u8> {
    let registered = u16::try_from(report.registrants.len()).unwrap_or(u16::MAX);
    let header = ReservationStatus {
        generation: report.generation.into(),
        reservation: report.reservation.map_or(0, ReservationType::to_nvme),
        registered: registered.into(),
        persists: u8::from(report.persists),
        ..ReservationStatus::new_zeroed()
    };
    let mut data = header.as_bytes().to_vec();
    for registrant in report.registrants.iter().take(usize::from(registered)) {
        data.extend_from_slice(RegisteredHost::of(registrant).as_bytes());
    }
    data.truncate(len_max);
    data
}

/// Constructors of the commands that hosts send.
impl Command {
    /// Reservation Register, Acquire or Release, with `len` bytes of keys in the capsule.
    pub fn reservation(opcode: IoOpcode, nsid: NamespaceId, cdw10: u32, len: u32) -> Self {
        Self { cdw10: cdw10.into(), ..Self::new(opcode.0, nsid) }.with_capsule_data(len)
    }
}

/// Dword 11 of a Reservation Report, bit 0 (EDS): host identifiers of 128 bits.
pub(crate) const EXTENDED: u32 = 1;

#[cfg(test)]
mod tests {
    use nearflash_request::Nexus;

    use super::*;

    const KEYS: [u8; 16] = [1, 0, 0, 0, 0, 0, 0, 0x80, 2, 0, 0, 0, 0, 0, 0, 0];
    const FIRST: u64 = 0x8000_0000_0000_0001;

    fn register(cdw10: u32) -> Result<ChangeKind, Status> {
        ReservationCommand::register(cdw10)?.change(&KEYS)
    }

    #[test]
    fn a_registration_is_expected_to_be_what_its_action_and_iekey_say() {
        let change = |expected, new| Ok(ChangeKind::Register { expected, new, persist: None });
        assert_eq!(register(0), change(Expected::NothingOrSame, 2));
        assert_eq!(register(IGNORE_KEY), change(Expected::NothingOrSame, 2));
        assert_eq!(register(1), change(Expected::Key(FIRST), 0));
        assert_eq!(register(1 | IGNORE_KEY), change(Expected::AnyKey, 0));
        assert_eq!(register(2), change(Expected::Key(FIRST), 2));
        assert_eq!(register(2 | IGNORE_KEY), change(Expected::Anything, 2));
        for reserved in 3..=7 {
            assert_eq!(register(reserved), Err(Status::INVALID_FIELD.dnr()));
        }
    }

    #[test]
    fn persistence_is_left_set_or_ended_and_01b_is_reserved() {
        for (bits, expected) in [(0, None), (2, Some(false)), (3, Some(true))] {
            let Ok(ChangeKind::Register { persist, .. }) = register(bits << 30) else {
                panic!("CPTPL {bits:02b}b is one")
            };
            assert_eq!(persist, expected);
        }
        assert_eq!(register(1 << 30), Err(Status::INVALID_FIELD.dnr()));
    }

    #[test]
    fn a_key_of_zero_is_none_to_register_with() {
        for action in [0, 2] {
            let command = ReservationCommand::register(action).unwrap();
            assert_eq!(command.change(&[0; 16]), Err(Status::INVALID_FIELD.dnr()));
        }
        let unregister = ReservationCommand::register(1).unwrap();
        assert!(unregister.change(&[0; 16]).is_ok(), "which conflicts with every registration");
    }

    #[test]
    fn acquiring_reads_action_type_and_both_keys() {
        let acquire = |cdw10| ReservationCommand::acquire(cdw10)?.change(&KEYS);
        let reservation = ReservationType::WriteExclusiveRegistrantsOnly;
        assert_eq!(acquire(0x300), Ok(ChangeKind::Reserve { key: FIRST, reservation }));
        for (action, abort) in [(1, false), (2, true)] {
            let preempt = ChangeKind::Preempt { key: FIRST, victim: 2, reservation, abort };
            assert_eq!(acquire(0x300 | action), Ok(preempt));
        }
        for wrong in [0x303, 0x000, 0x700, 0x300 | IGNORE_KEY] {
            assert_eq!(acquire(wrong), Err(Status::INVALID_FIELD.dnr()), "{wrong:#x}");
        }
    }

    #[test]
    fn releasing_needs_a_type_and_clearing_none() {
        let release = |cdw10| ReservationCommand::release(cdw10)?.change(&KEYS[..8]);
        let reservation = ReservationType::ExclusiveAccess;
        assert_eq!(release(0x200), Ok(ChangeKind::Release { key: FIRST, reservation }));
        assert_eq!(release(0x001), Ok(ChangeKind::Clear { key: FIRST }));
        for wrong in [0x000, 0x700, 0x202, 0x200 | IGNORE_KEY] {
            assert_eq!(release(wrong), Err(Status::INVALID_FIELD.dnr()), "{wrong:#x}");
        }
    }

    #[test]
    fn fewer_keys_than_the_command_has_are_refused() {
        let command = ReservationCommand::register(0).unwrap();
        assert_eq!(command.change(&KEYS[..15]), Err(Status::SGL_LENGTH_INVALID.dnr()));
    }

    #[test]
    fn a_report_has_the_bytes_that_hosts_read() {
        let identity = Identity::Nvme { host_id: [0x5A; 16], controller: 3 };
        let host = Registrant { nexus: Nexus(7), identity, key: 0x1122, holds: true };
        let initiator =
            Identity::Iscsi { initiator: "iqn.x".into(), isid: [0; 6], portal_group: 1 };
        let other = Registrant { nexus: Nexus(0x0102), identity: initiator, key: 9, holds: false };
        let report = Report {
            generation: 0x0102_0304,
            reservation: Some(ReservationType::ExclusiveAccessAllRegistrants),
            persists: true,
            registrants: vec![host, other],
        };
        let data = report_data(&report, 4096);
        assert_eq!(data.len(), 64 * 3);
        assert_eq!(data[..12], [4, 3, 2, 1, 6, 2, 0, 0, 0, 1, 0, 0]);
        let entry = [[0xFF, 0xFF, 1, 0, 0, 0, 0, 0], [0x22, 0x11, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(data[64..80], entry[..]);
        assert_eq!(data[80..96], [0x5A; 16]);
        assert_eq!((data[130], data[136]), (0, 9));
        assert_eq!(data[158..160], [1, 2], "the nexus stands for the host that is none");
        assert_eq!(report_data(&report, 8), data[..8]);
    }
}
