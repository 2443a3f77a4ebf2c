//! The numbers of the NVMe controllers of each node of a cluster, so that no two nodes have one in common.

use std::ops::RangeInclusive;

use nearflash_nvme::ControllerId;
use nearflash_records::key::ORDINAL_MAX;

/// The nodes that get [`WIDE_IDS`] controller ids each. All further ones get [`NARROW_IDS`].
const WIDE_NODES: u16 = 31;
const WIDE_IDS: u16 = 1024;
const NARROW_IDS: u16 = 34;

/// The numbers of the controllers of the node with this number.
pub fn controller_ids(ordinal: u16) -> RangeInclusive<u16> {
    let wide = WIDE_NODES * WIDE_IDS;
    let (first, count) = match ordinal.saturating_sub(1) {
        number if number < WIDE_NODES => (number * WIDE_IDS + 1, WIDE_IDS),
        number => (wide + (number - WIDE_NODES) * NARROW_IDS + 1, NARROW_IDS),
    };
    first..=first + count - 1
}

const _: () =
    assert!(WIDE_NODES * WIDE_IDS + (ORDINAL_MAX - WIDE_NODES) * NARROW_IDS <= ControllerId::MAX.0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_nodes_have_a_controller_id_in_common() {
        let mut next = 1;
        for ordinal in 1..=ORDINAL_MAX {
            let ids = controller_ids(ordinal);
            assert_eq!(*ids.start(), next, "node {ordinal}");
            next = ids.end() + 1;
        }
        assert!(next - 1 <= ControllerId::MAX.0);
    }
}
