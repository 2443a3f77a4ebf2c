//! A property of every device's contents, as a function for tests and fuzzers.

use crate::probe::what_it_holds;

/// The probe finds nothing if and only if the first and last bytes of a device are all zero.
pub fn check_probe(head: &[u8], tail: &[u8], device_len: u64) {
    let is_zero = head.iter().chain(tail).all(|byte| *byte == 0);
    let found = what_it_holds(head, tail, device_len);
    assert_eq!(found.is_none(), is_zero, "{found:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_is_not_zero_holds_something(
            head in prop::collection::vec(0..2_u8, 0..200),
            tail in prop::collection::vec(0..2_u8, 0..200),
            device_len: u64,
        ) {
            check_probe(&head, &tail, device_len);
        }
    }
}
