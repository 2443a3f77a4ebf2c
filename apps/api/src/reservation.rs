//! Reservations of volumes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A volume's reservation and registrations.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct ReservationInfo {
    /// The volume.
    pub volume: String,
    /// Its reservation type. Absent if it is not reserved. `exclusive-by-session` is SCSI's legacy
    /// reservation (RESERVE), which ends with the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Whether its registrations and reservation persist through a restart of the node (APTPL,
    /// PTPL).
    pub persists: bool,
    /// All registrants.
    pub registrants: Vec<RegistrantInfo>,
}

/// A registrant.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct RegistrantInfo {
    /// The initiator port's name, or the host identifier.
    pub who: String,
    /// Its reservation key, in hexadecimal.
    pub key: String,
    /// Whether it holds the reservation.
    pub holds: bool,
}

/// Lists reservations and registrations.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReservationList {
    /// The volume; by default all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
}

/// Removes every registration and the reservation of a volume.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReservationClear {
    /// The volume.
    pub volume: String,
}

/// The reservation that was cleared.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct OneReservation {
    /// Its state before.
    pub reservation: ReservationInfo,
}

/// Reservations.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Reservations {
    /// In the order of their volumes' names.
    pub reservations: Vec<ReservationInfo>,
}
