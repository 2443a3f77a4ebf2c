//! The record of those reservations of a volume that persist through a power loss.

use nearflash_request::{Identity, Nexus, ReservationType};
use nearflash_space::{Persistent, Registration, Reservation, Reservations};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::record::{Record, Schema};

/// The rights of hosts and initiators on a volume.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RightsRecord {
    /// The schema.
    pub schema: Schema,
    /// Grows with each change.
    pub version: u64,
    /// The reservations, if they persist. They did once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservations: Option<ReservationsRecord>,
}

impl Record for RightsRecord {
    /// A volume may have some hundred registrations.
    const LEN_MAX: usize = 16 * 1024 * 1024;
}

impl RightsRecord {
    /// The reservations; `None` when a field holds a value that no version writes.
    pub fn reservations(&self) -> Option<Reservations> {
        match &self.reservations {
            Some(record) => record.reservations(),
            None => Some(Reservations::default()),
        }
    }
}

/// Registrations and reservation. The record itself says that they persist, even when it is empty.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReservationsRecord {
    registrations: Vec<RegistrationRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reservation: Option<ReservationRecord>,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
struct RegistrationRecord {
    /// 32 hexadecimal digits.
    nexus: String,
    key: u64,
    identity: IdentityRecord,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "protocol", rename_all = "kebab-case", deny_unknown_fields)]
enum IdentityRecord {
    Iscsi { initiator: String, isid: [u8; 6], portal_group: u16 },
    Nvme { host_id: Uuid },
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
struct ReservationRecord {
    /// The reservation type's name in text form.
    kind: String,
    /// `None` when every registrant is a holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
}

impl ReservationsRecord {
    /// `None` when the reservations do not persist.
    pub fn of(reservations: &Reservations) -> Option<Self> {
        let Persistent { registrations, reservation } = reservations.persistent()?;
        let registration = |it: &Registration| RegistrationRecord {
            nexus: it.nexus.to_string(),
            key: it.key,
            identity: IdentityRecord::of(&it.identity),
        };
        Some(Self {
            registrations: registrations.iter().map(registration).collect(),
            reservation: reservation.map(|it| ReservationRecord {
                kind: it.kind.name().to_owned(),
                holder: it.holder.map(|holder| holder.to_string()),
            }),
        })
    }

    /// The reservations; `None` when a field holds a value that no version writes.
    pub fn reservations(&self) -> Option<Reservations> {
        let registration = |it: &RegistrationRecord| {
            let nexus = nexus(&it.nexus)?;
            Some(Registration { nexus, identity: it.identity.identity(), key: it.key })
        };
        let registrations: Option<Vec<Registration>> =
            self.registrations.iter().map(registration).collect();
        let reservation = match &self.reservation {
            None => None,
            Some(it) => {
                let kind = ReservationType::ALL.into_iter().find(|kind| kind.name() == it.kind)?;
                let holder = match &it.holder {
                    Some(text) => Some(nexus(text)?),
                    None => None,
                };
                Some(Reservation { kind, holder })
            }
        };
        Reservations::restore(Persistent { registrations: registrations?, reservation }).ok()
    }
}

impl IdentityRecord {
    fn of(identity: &Identity) -> Self {
        match identity {
            Identity::Iscsi { initiator, isid, portal_group } => Self::Iscsi {
                initiator: initiator.to_string(),
                isid: *isid,
                portal_group: *portal_group,
            },
            // A controller does not outlive the node's run.
            Identity::Nvme { host_id, .. } => Self::Nvme { host_id: Uuid::from_bytes(*host_id) },
        }
    }

    fn identity(&self) -> Identity {
        match self {
            Self::Iscsi { initiator, isid, portal_group } => Identity::Iscsi {
                initiator: initiator.as_str().into(),
                isid: *isid,
                portal_group: *portal_group,
            },
            Self::Nvme { host_id } => Identity::Nvme {
                host_id: host_id.into_bytes(),
                controller: Identity::NO_CONTROLLER,
            },
        }
    }
}

fn nexus(text: &str) -> Option<Nexus> {
    let digits = (text.len() == 32).then_some(text)?;
    u128::from_str_radix(digits, 16).ok().map(Nexus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_request::{Change, ChangeKind, ChangeResult, Expected, VolumeId};

    fn change(reservations: &mut Reservations, nexus: u128, identity: &Identity, kind: ChangeKind) {
        let (nexus, identity) = (Nexus(nexus), identity.clone());
        let change = Change { volume: VolumeId(0), nexus, identity, kind };
        assert_eq!(reservations.apply(&change).0, ChangeResult::Done);
    }

    fn reserved() -> Reservations {
        let iscsi = Identity::Iscsi {
            initiator: "iqn.2026-11.org.example:a".into(),
            isid: [0x80, 1, 2, 3, 0, 1],
            portal_group: 1,
        };
        let controller = Identity::NO_CONTROLLER;
        let nvme = Identity::Nvme { host_id: *b"sixteen bytes of", controller };
        let register = |key| ChangeKind::Register {
            expected: Expected::Nothing,
            new: key,
            persist: Some(true),
        };
        let mut reservations = Reservations::default();
        change(&mut reservations, 0xA, &iscsi, register(u64::MAX));
        change(&mut reservations, 0xB, &nvme, register(7));
        let reservation = ReservationType::WriteExclusiveRegistrantsOnly;
        change(&mut reservations, 0xB, &nvme, ChangeKind::Reserve { key: 7, reservation });
        reservations
    }

    #[test]
    fn what_persists_is_found_again_as_it_was() {
        let reservations = reserved();
        let text = serde_json::to_string(&ReservationsRecord::of(&reservations)).unwrap();
        insta::assert_snapshot!(text, @r#"{"registrations":[{"nexus":"0000000000000000000000000000000a","key":18446744073709551615,"identity":{"protocol":"iscsi","initiator":"iqn.2026-11.org.example:a","isid":[128,1,2,3,0,1],"portal_group":1}},{"nexus":"0000000000000000000000000000000b","key":7,"identity":{"protocol":"nvme","host_id":"73697874-6565-6e20-6279-746573206f66"}}],"reservation":{"kind":"write-exclusive-registrants-only","holder":"0000000000000000000000000000000b"}}"#);
        let record: ReservationsRecord = serde_json::from_str(&text).unwrap();
        let found = record.reservations().unwrap();
        assert_eq!(found.persistent(), reservations.persistent());
        assert_eq!(found.restriction(), reservations.restriction());
    }

    #[test]
    fn what_does_not_persist_is_not_recorded() {
        assert_eq!(ReservationsRecord::of(&Reservations::default()), None);
    }

    #[test]
    fn a_record_that_was_never_written_is_refused() {
        let sound = ReservationsRecord::of(&reserved()).unwrap();
        let mut damaged = vec![sound.clone(); 4];
        damaged[0].registrations[0].nexus = "a".into();
        damaged[1].registrations[0].key = 0;
        damaged[2].registrations.pop();
        damaged[3].reservation.as_mut().unwrap().kind = "exclusive".into();
        assert!(sound.reservations().is_some());
        assert!(damaged.iter().all(|record| record.reservations().is_none()));
    }
}
