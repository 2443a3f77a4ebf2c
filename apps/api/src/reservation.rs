//! Reservations of volumes.

use serde::{Deserialize, Serialize};

/// A volume's reservation and registrations.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ReservationInfo {
    /// The volume.
    pub volume: String,
    /// Its reservation type. Absent when it is not reserved. `exclusive-by-session` is the older
    /// reservation of SCSI, which ends with the session that took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// It outlives a restart.
    pub persists: bool,
    /// All registrants.
    pub registrants: Vec<RegistrantInfo>,
}

/// A registrant.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RegistrantInfo {
    /// An initiator port's name, or a host identifier.
    pub who: String,
    /// Its key, in hexadecimal.
    pub key: String,
    /// It holds the reservation.
    pub holds: bool,
}

/// Lists reservations and registrations.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReservationList {
    /// Only those of this volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
}

/// Ends every registration and reservation of a volume.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReservationClear {
    /// The volume.
    pub volume: String,
}

/// The reservation that was cleared.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct OneReservation {
    /// As it was.
    pub reservation: ReservationInfo,
}

/// Reservations.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Reservations {
    /// In the order of their volumes' names.
    pub reservations: Vec<ReservationInfo>,
}
