//! Input that a host reads from an untrusted controller: identify structures and log pages.

use nearflash_nvme::check::check_parsers_never_panic;
use nearflash_nvme::identify::{IdentifyController, IdentifyNamespace};
use nearflash_nvme::log::{DiscoveryEntry, DiscoveryHeader};
use zerocopy::FromBytes;

/// Checks that the accessors of the structures accept any bytes.
pub fn check_structures(bytes: &[u8]) {
    check_parsers_never_panic(bytes);
    if let Ok((header, rest)) = DiscoveryHeader::ref_from_prefix(bytes) {
        let _ = (header.generation.get(), header.entries.get());
        check_discovery_entries(rest);
    }
    check_discovery_entries(bytes);
    let Ok((controller, _)) = IdentifyController::read_from_prefix(&padded(bytes)) else {
        unreachable!("padded to its length")
    };
    let _ = (controller.transfer_len_max(), controller.in_capsule_len_max());
    let Ok((namespace, _)) = IdentifyNamespace::read_from_prefix(&padded(bytes)) else {
        unreachable!("padded to its length")
    };
    let _ = (namespace.blocks.get(), namespace.lba_formats);
}

fn check_discovery_entries(bytes: &[u8]) {
    for piece in bytes.chunks(1024) {
        let padded = padded(piece);
        let Ok((entry, _)) = DiscoveryEntry::ref_from_prefix(&padded) else { continue };
        for text in [entry.address.text(), entry.service.text()] {
            assert!(text.len() <= 3 * 256, "a text is no longer than its field");
        }
        if let Ok(nqn) = entry.subsystem.get() {
            assert!(!nqn.to_string().is_empty());
        }
    }
}

/// Pads an input to the length of a structure.
fn padded(bytes: &[u8]) -> [u8; 4096] {
    let mut padded = [0; 4096];
    let len = bytes.len().min(padded.len());
    padded[..len].copy_from_slice(&bytes[..len]);
    padded
}
