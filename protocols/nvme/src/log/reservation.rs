//! Reservation notifications. NVMe Base 2.0, 5.16.1 (LID 80h) and 8.19.

use nearflash_session::wire;
use zerocopy::FromZeros;
use zerocopy::little_endian::{U32, U64};

use crate::NamespaceId;

/// The type of a reservation notification, by its code in the page. NVMe Base 2.0, 5.16.1 (LID 80h, log page type).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ReservationNotice {
    /// Another host preempted the host's registration.
    RegistrationPreempted = 1,
    /// The reservation was released or changed its type.
    ReservationReleased = 2,
    /// Another host cleared the reservation and all registrations.
    ReservationPreempted = 3,
}

impl ReservationNotice {
    /// The type's bit in Reservation Notification Mask. NVMe Base 2.0, 5.27.1 (FID 82h).
    pub const fn mask_bit(self) -> u32 {
        1 << self as u8
    }
}

wire! {
    /// Reservation Notification page. NVMe Base 2.0, 5.16.1 (LID 80h).
    pub struct ReservationNotification: [u8; 64] {
        /// The notification's number, from 1 and never 0. A gap tells the host that it missed some.
        pub count: U64,
        pub notice: u8 = "The type, see [`ReservationNotice`]; 0 if the page is empty",
        pub available: u8 = "The number of further notifications, up to 255",
        pub(crate) reserved10: [u8; 2],
        pub namespace: U32 = "NSID",
        pub(crate) reserved16: [u8; 48],
    }
}

impl ReservationNotification {
    /// The empty page.
    pub fn none() -> Self {
        Self::new_zeroed()
    }

    /// A page with one notification.
    pub fn new(count: u64, notice: ReservationNotice, namespace: NamespaceId) -> Self {
        Self {
            count: count.into(),
            notice: notice as u8,
            namespace: namespace.0.into(),
            ..Self::none()
        }
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    #[test]
    fn a_notification_has_the_bytes_that_hosts_read() {
        let notice = ReservationNotice::ReservationReleased;
        let page = ReservationNotification {
            available: 5,
            ..ReservationNotification::new(0x0102, notice, NamespaceId(7))
        };
        assert_eq!(page.as_bytes()[..16], [2, 1, 0, 0, 0, 0, 0, 0, 2, 5, 0, 0, 7, 0, 0, 0]);
        assert_eq!(page.as_bytes()[16..], [0; 48]);
    }

    #[test]
    fn the_mask_has_a_bit_for_each_notice() {
        let bits = [
            (ReservationNotice::RegistrationPreempted, 0b0010),
            (ReservationNotice::ReservationReleased, 0b0100),
            (ReservationNotice::ReservationPreempted, 0b1000),
        ];
        for (notice, bit) in bits {
            assert_eq!(notice.mask_bit(), bit, "{notice:?}");
        }
    }
}
