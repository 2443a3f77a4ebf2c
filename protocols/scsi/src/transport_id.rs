//! TransportIDs, which identify initiator ports.
//!
//! Spec: SPC-4, 7.6.4.

use nearflash_request::Identity;

/// PROTOCOL IDENTIFIER iSCSI.
const ISCSI: u8 = 5;
/// FORMAT CODE of an iSCSI TransportID with a name and an ISID, shifted to its position.
const WITH_ISID: u8 = 0b01 << 6;
/// PROTOCOL IDENTIFIER: no specific protocol.
const OTHER: u8 = 0xF;
/// Length of a TransportID of any protocol other than iSCSI.
const FIXED_LEN: usize = 24;

/// The TransportID of a registrant; of an NVMe host, for which SPC-4 has none, its identifier.
pub(crate) fn of(identity: &Identity) -> Vec<u8> {
    match identity {
        Identity::Iscsi { initiator, isid, .. } => of_initiator(initiator, *isid),
        Identity::Nvme { host_id, .. } => {
            let mut bytes = vec![OTHER, 0, 0, 0, 0, 0, 0, 0];
            bytes.extend(host_id);
            bytes.resize(FIXED_LEN, 0);
            bytes
        }
    }
}

/// "NAME,i,0xISID", terminated by a zero and padded to a multiple of four bytes.
fn of_initiator(initiator: &str, isid: [u8; 6]) -> Vec<u8> {
    let [a, b, c, d, e, f] = isid;
    let isid = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    let mut name = format!("{initiator},i,0x{isid:012x}").into_bytes();
    name.resize(name.len() / 4 * 4 + 4, 0);
    let mut bytes = vec![WITH_ISID | ISCSI, 0];
    bytes.extend(u16::try_from(name.len()).unwrap_or(u16::MAX).to_be_bytes());
    bytes.extend(name);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_initiator_is_named_with_its_isid() {
        let initiator = "iqn.2026-11.io.example:a".into();
        let isid = [0x80, 0x12, 0x34, 0x56, 0, 1];
        let bytes = of(&Identity::Iscsi { initiator, isid, portal_group: 1 });
        assert_eq!(bytes[..4], [0x45, 0, 0, 44]);
        assert!(bytes[4..].starts_with(b"iqn.2026-11.io.example:a,i,0x801234560001\0"));
        assert_eq!(bytes.len(), 48);
    }

    #[test]
    fn a_host_of_another_door_has_its_identifier() {
        let bytes = of(&Identity::Nvme { host_id: [7; 16], controller: 3 });
        assert_eq!((bytes.len(), bytes[0]), (24, 0x0F));
        assert_eq!(bytes[8..], [7; 16]);
    }
}
