//! Converts the identity of a requester to a number that reservations can compare and record.

use nearflash_request::Nexus;
use sha2::{Digest, Sha256};

/// The nexus of these names in one protocol. Equal names give the same nexus, and different names
/// give different ones.
///
/// iSCSI: `("iscsi", [initiator name in lower case, ISID, target name])`; NVMe: `("nvme", [host
/// identifier, subsystem NQN])`. The catalog records it with persistent reservations, so its
/// derivation must never change.
pub fn nexus(protocol: &str, parts: &[&[u8]]) -> Nexus {
    let mut hasher = Sha256::new();
    for part in [protocol.as_bytes()].iter().chain(parts) {
        // The length is included, so that two different lists of parts never have the same bytes.
        hasher.update(u64::to_le_bytes(part.len().try_into().expect("usize is at most 64 bits")));
        hasher.update(part);
    }
    let hash = hasher.finalize();
    let first = hash.first_chunk().expect("a hash has 32 bytes");
    // Zero stands for nobody. No input with this hash is known.
    Nexus(u128::from_be_bytes(*first).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nexus_is_the_same_for_the_same_names_for_ever() {
        let one = nexus("nvme", &[&[7; 16], b"nqn.2026-11.io.nearflash:a"]);
        assert_eq!(one.to_string(), "f84170345cd8f12f5b8f5520d07d462e");
    }

    #[test]
    fn names_cut_elsewhere_are_another_nexus() {
        assert_ne!(nexus("iscsi", &[b"ab", b"c"]), nexus("iscsi", &[b"a", b"bc"]));
        assert_ne!(nexus("iscsi", &[b"ab"]), nexus("nvme", &[b"ab"]));
        assert_ne!(nexus("iscsi", &[b""]), nexus("iscsi", &[]));
    }
}
