//! Log pages. NVMe Base 2.0, 5.16.

mod ana;
mod device;
mod discovery;
mod effects;
mod reservation;

use zerocopy::IntoBytes;

pub use ana::{AnaGroup, AnaHeader, AnaState};
pub use device::{ErrorEntry, FirmwareSlots, HealthInformation};
pub use discovery::{AddressFamily, DiscoveryEntry, DiscoveryHeader, SubsystemType, TransportType};
pub use effects::CommandEffects;
pub use reservation::{ReservationNotice, ReservationNotification};

use crate::{AdminOpcode, Command, NamespaceId, SglDescriptor};

/// Log page identifier, LID. NVMe Base 2.0, 5.16.1.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LogId(pub u8);

#[allow(missing_docs, reason = "the names are the specification's")]
impl LogId {
    pub const SUPPORTED_PAGES: Self = Self(0x00);
    pub const ERROR: Self = Self(0x01);
    pub const HEALTH: Self = Self(0x02);
    pub const FIRMWARE_SLOTS: Self = Self(0x03);
    pub const CHANGED_NAMESPACES: Self = Self(0x04);
    pub const COMMAND_EFFECTS: Self = Self(0x05);
    pub const ANA: Self = Self(0x0C);
    pub const FEATURE_EFFECTS: Self = Self(0x12);
    pub const DISCOVERY: Self = Self(0x70);
    pub const RESERVATION_NOTIFICATION: Self = Self(0x80);
}

/// The maximum number of entries of the changed namespace list. If more namespaces changed, the
/// list's only entry is [`NamespaceId::ALL`]. NVMe Base 2.0, 5.16.1.5.
pub const CHANGED_NAMESPACES_MAX: usize = 1024;

/// A Get Log Page command's parameters. NVMe Base 2.0, 5.16.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GetLogPage {
    /// LID.
    pub log: LogId,
    /// LSP: a field specific to the log page.
    pub specific: u8,
    /// RAE: reading the page does not clear its event.
    pub retain_event: bool,
    /// NUMD: the number of dwords to return, 0's based.
    pub dwords_zero_based: u32,
    /// LPO: the offset in the page, in bytes (or an index, with OT).
    pub offset: u64,
    /// OT: the offset is an index.
    pub offset_is_index: bool,
    /// CSI: the I/O command set.
    pub command_set: u8,
}

impl GetLogPage {
    /// The first `len` bytes of a page. `len` must be a multiple of 4 and not 0.
    pub fn new(log: LogId, len: u32) -> Self {
        Self {
            log,
            specific: 0,
            retain_event: false,
            dwords_zero_based: (len / 4).saturating_sub(1),
            offset: 0,
            offset_is_index: false,
            command_set: 0,
        }
    }

    /// The number of bytes to return.
    pub fn len(&self) -> u64 {
        (u64::from(self.dwords_zero_based) + 1) * 4
    }

    /// Decodes the command's parameters.
    pub fn from_command(command: &Command) -> Self {
        let [log, specific, low0, low1] = command.cdw10.get().to_le_bytes();
        let [high0, high1, _, _] = command.cdw11.get().to_le_bytes();
        let [_, _, flags, command_set] = command.cdw14.get().to_le_bytes();
        Self {
            log: LogId(log),
            specific: specific & 0x7F,
            retain_event: specific & 0x80 != 0,
            dwords_zero_based: u32::from_le_bytes([low0, low1, high0, high1]),
            offset: command.cdw12_13(),
            offset_is_index: flags & 0x80 != 0,
            command_set,
        }
    }

    /// Get Log Page of the controller (`NamespaceId::ALL` or `NONE`) or of a namespace.
    pub fn to_command(self, nsid: NamespaceId) -> Command {
        let [low0, low1, high0, high1] = self.dwords_zero_based.to_le_bytes();
        let specific = self.specific & 0x7F | u8::from(self.retain_event) << 7;
        let index = u8::from(self.offset_is_index) << 7;
        let len = u32::try_from(self.len()).unwrap_or(u32::MAX);
        let mut command = Command {
            sgl: SglDescriptor::transport(len),
            cdw10: u32::from_le_bytes([self.log.0, specific, low0, low1]).into(),
            cdw11: u32::from_le_bytes([high0, high1, 0, 0]).into(),
            cdw14: u32::from_le_bytes([0, 0, index, self.command_set]).into(),
            ..Command::new(AdminOpcode::GET_LOG_PAGE.0, nsid)
        };
        command.set_cdw12_13(self.offset);
        command
    }
}

/// Encodes the changed namespace list. NVMe Base 2.0, 5.16.1.5.
pub fn changed_namespaces(changed: &[NamespaceId]) -> Vec<u8> {
    let mut list = vec![0; CHANGED_NAMESPACES_MAX * 4];
    let overflow = [NamespaceId::ALL];
    let listed = if changed.len() > CHANGED_NAMESPACES_MAX { &overflow } else { changed };
    for (entry, nsid) in list.chunks_exact_mut(4).zip(listed) {
        entry.copy_from_slice(zerocopy::little_endian::U32::new(nsid.0).as_bytes());
    }
    list
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::identify::parse_namespace_list;

    #[test]
    fn a_log_page_is_asked_for_by_the_bytes_that_hosts_send() {
        let page = GetLogPage {
            retain_event: true,
            offset: 0x1_0000_0400,
            ..GetLogPage::new(LogId::DISCOVERY, 4096)
        };
        let command = page.to_command(NamespaceId::NONE);
        let expected = [0x70, 0x80, 0xFF, 0x03, 0, 0, 0, 0, 0, 4, 0, 0, 1, 0, 0, 0];
        assert_eq!(command.as_bytes()[40..56], expected);
        assert_eq!(command.as_bytes()[32..40], [0, 0x10, 0, 0, 0, 0, 0, 0x5A]);
    }

    #[test]
    fn changes_past_the_list_are_told_as_all_changed() {
        let changed: Vec<_> = (1..=1024).map(NamespaceId).collect();
        assert_eq!(parse_namespace_list(&changed_namespaces(&changed)), changed);
        let more: Vec<_> = (1..=1025).map(NamespaceId).collect();
        assert_eq!(parse_namespace_list(&changed_namespaces(&more)), [NamespaceId::ALL]);
    }

    proptest! {
        #[test]
        fn what_is_asked_for_is_what_is_understood(
            log: u8, specific in 0..0x80_u8, retain_event: bool, dwords: u32, offset: u64,
            offset_is_index: bool, command_set: u8,
        ) {
            let page = GetLogPage {
                log: LogId(log),
                specific,
                retain_event,
                dwords_zero_based: dwords,
                offset,
                offset_is_index,
                command_set,
            };
            let command = page.to_command(NamespaceId::ALL);
            prop_assert_eq!(GetLogPage::from_command(&command), page);
            prop_assert_eq!(page.len(), (u64::from(dwords) + 1) * 4);
        }
    }
}
