//! Asynchronous events, by which the controller notifies the host.
//!
//! Spec: NVMe Base 2.0, 5.2. An event is dword 0 of the completion of an Asynchronous Event
//! Request. The host selects the events that it wants with the Asynchronous Event Configuration
//! feature.

use crate::log::LogId;

/// Dword 0 of an Asynchronous Event Request's completion. NVMe Base 2.0, 5.2.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct AsyncEvent {
    /// Bits 2:0.
    pub event_type: u8,
    /// Bits 15:8.
    pub information: u8,
    /// Bits 23:16: the log page whose reading clears the event.
    pub log: LogId,
}

impl AsyncEvent {
    /// Type 2h: notice.
    pub const NOTICE: u8 = 2;

    /// Type 6h: I/O command set specific.
    pub const IO_COMMAND_SET: u8 = 6;

    /// Namespaces were added, removed or changed. The changed namespace list log page names them.
    pub const NAMESPACE_CHANGED: Self =
        Self { event_type: Self::NOTICE, information: 0x00, log: LogId::CHANGED_NAMESPACES };
    /// The ANA state of namespaces changed.
    pub const ANA_CHANGED: Self =
        Self { event_type: Self::NOTICE, information: 0x03, log: LogId::ANA };
    /// The discovery log changed.
    pub const DISCOVERY_CHANGED: Self =
        Self { event_type: Self::NOTICE, information: 0xF0, log: LogId::DISCOVERY };

    /// Another host changed a reservation: see the reservation notification log page.
    pub const RESERVATION_CHANGED: Self = Self {
        event_type: Self::IO_COMMAND_SET,
        information: 0x00,
        log: LogId::RESERVATION_NOTIFICATION,
    };

    /// Encodes dword 0.
    pub fn to_result(self) -> u32 {
        u32::from_le_bytes([self.event_type & 0b111, self.information, self.log.0, 0])
    }
}

/// A set of notices. OAES lists those that a controller can send, and the Asynchronous Event
/// Configuration feature those that the host wants. Both use the same bits. NVMe Base 2.0, 5.17.2.1
/// (OAES) and 5.27.1.8.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Notices(pub u32);

impl Notices {
    /// Bit 8: namespace attribute notices.
    pub const NAMESPACE: u32 = 1 << 8;
    /// Bit 11: ANA change notices.
    pub const ANA: u32 = 1 << 11;
    /// Bit 31: discovery log change notices.
    pub const DISCOVERY: u32 = 1 << 31;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_numbers_that_hosts_know() {
        let known = [
            (AsyncEvent::NAMESPACE_CHANGED, 0x0004_0002),
            (AsyncEvent::ANA_CHANGED, 0x000C_0302),
            (AsyncEvent::DISCOVERY_CHANGED, 0x0070_F002),
            (AsyncEvent::RESERVATION_CHANGED, 0x0080_0006),
        ];
        for (event, result) in known {
            assert_eq!(event.to_result(), result, "{event:?}");
            assert_eq!(AsyncEvent::from_result(result), event);
        }
    }
}
