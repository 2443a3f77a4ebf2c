//! Discovery of targets: SendTargets. RFC 7143, 13.3 and Appendix C.

use crate::error::PeerError;
use crate::pdu::Opcode;
use crate::text::Pairs;

/// The maximum length of the text that is collected in discovery, in bytes.
pub const TARGETS_TEXT_LEN_MAX: usize = 1 << 20;

/// A target, and where it is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DiscoveredTarget {
    /// TargetName.
    pub name: String,
    /// TargetAddress as the target wrote it. Without any, the target is where it was asked for.
    pub addresses: Vec<String>,
}

/// Parses a complete answer.
pub(super) fn parse_targets(text: &[u8]) -> Result<Vec<DiscoveredTarget>, PeerError> {
    let mut targets: Vec<DiscoveredTarget> = Vec::new();
    for pair in Pairs::new(text) {
        match (pair?, targets.last_mut()) {
            (("TargetName", name), _) => {
                targets.push(DiscoveredTarget { name: name.to_owned(), addresses: Vec::new() });
            }
            (("TargetAddress", address), Some(target)) => {
                target.addresses.push(address.to_owned());
            }
            (("SendTargets", "Reject" | "NotUnderstood"), _) => {
                return Err(PeerError::Sequence(Opcode::TEXT_RESPONSE));
            }
            _ => {}
        }
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_belong_to_the_target_before_them() {
        let text = b"TargetName=iqn.a:1\0TargetAddress=10.0.0.1:3260,1\0\
            TargetAddress=[::1]:3260,1\0TargetName=iqn.a:2\0";
        let targets = parse_targets(text).unwrap();
        assert_eq!(targets.len(), 2);
        assert_eq!(targets[0].addresses, ["10.0.0.1:3260,1", "[::1]:3260,1"]);
        assert_eq!((&*targets[1].name, targets[1].addresses.len()), ("iqn.a:2", 0));
    }
}
