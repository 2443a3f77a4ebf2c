//! The keys whose value both ends agree on, as a table: RFC 7143, 13.

use super::{LEN_MAX, LEN_MIN, SessionParams};

/// How the two values of a key become one. RFC 7143, 6.2.2.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Rule {
    /// Numbers from one to the other; the lower is taken.
    Lower(u32, u32),
    /// Numbers from one to the other; the higher is taken.
    Higher(u32, u32),
    /// Yes if either end says so.
    Or,
    /// Yes if both ends say so.
    And,
}

/// A key of the session, leading-only.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) rule: Rule,
    /// Whether it means nothing in a discovery session.
    pub(super) is_normal_only: bool,
    pub(super) get: fn(&SessionParams) -> u32,
    pub(super) set: fn(&mut SessionParams, u32),
}

/// Every negotiated key of a session.
pub(super) const KEYS: [Key; 12] = [
    Key {
        name: "MaxConnections",
        rule: Rule::Lower(1, 65_535),
        is_normal_only: true,
        get: |params| params.max_connections,
        set: |params, value| params.max_connections = value,
    },
    Key {
        name: "InitialR2T",
        rule: Rule::Or,
        is_normal_only: true,
        get: |params| params.initial_r2t.into(),
        set: |params, value| params.initial_r2t = value != 0,
    },
    Key {
        name: "ImmediateData",
        rule: Rule::And,
        is_normal_only: true,
        get: |params| params.immediate_data.into(),
        set: |params, value| params.immediate_data = value != 0,
    },
    Key {
        name: "MaxBurstLength",
        rule: Rule::Lower(LEN_MIN, LEN_MAX),
        is_normal_only: true,
        get: |params| params.max_burst_len,
        set: |params, value| params.max_burst_len = value,
    },
    Key {
        name: "FirstBurstLength",
        rule: Rule::Lower(LEN_MIN, LEN_MAX),
        is_normal_only: true,
        get: |params| params.first_burst_len,
        set: |params, value| params.first_burst_len = value,
    },
    Key {
        name: "DefaultTime2Wait",
        rule: Rule::Higher(0, 3600),
        is_normal_only: false,
        get: |params| params.time_to_wait,
        set: |params, value| params.time_to_wait = value,
    },
    Key {
        name: "DefaultTime2Retain",
        rule: Rule::Lower(0, 3600),
        is_normal_only: false,
        get: |params| params.time_to_retain,
        set: |params, value| params.time_to_retain = value,
    },
    Key {
        name: "MaxOutstandingR2T",
        rule: Rule::Lower(1, 65_535),
        is_normal_only: true,
        get: |params| params.max_outstanding_r2t,
        set: |params, value| params.max_outstanding_r2t = value,
    },
    Key {
        name: "DataPDUInOrder",
        rule: Rule::Or,
        is_normal_only: true,
        get: |params| params.data_pdu_in_order.into(),
        set: |params, value| params.data_pdu_in_order = value != 0,
    },
    Key {
        name: "DataSequenceInOrder",
        rule: Rule::Or,
        is_normal_only: true,
        get: |params| params.data_sequence_in_order.into(),
        set: |params, value| params.data_sequence_in_order = value != 0,
    },
    Key {
        name: "ErrorRecoveryLevel",
        rule: Rule::Lower(0, 2),
        is_normal_only: false,
        get: |params| params.error_recovery_level,
        set: |params, value| params.error_recovery_level = value,
    },
    Key {
        name: "iSCSIProtocolLevel",
        rule: Rule::Lower(0, 31),
        is_normal_only: true,
        get: |params| params.protocol_level,
        set: |params, value| params.protocol_level = value,
    },
];

impl Rule {
    /// A value as the text says it; `None` when it is none, or out of range.
    pub(super) fn parse(self, text: &str) -> Option<u32> {
        match (self, text) {
            (Self::Or | Self::And, "Yes") => Some(1),
            (Self::Or | Self::And, "No") => Some(0),
            (Self::Or | Self::And, _) => None,
            (Self::Lower(min, max) | Self::Higher(min, max), _) => {
                number(text).filter(|value| (min..=max).contains(value))
            }
        }
    }

    /// A value as text.
    pub(super) fn print(self, value: u32) -> String {
        match self {
            Self::Or | Self::And if value == 0 => "No".to_owned(),
            Self::Or | Self::And => "Yes".to_owned(),
            Self::Lower(..) | Self::Higher(..) => value.to_string(),
        }
    }

    /// What two values become. Yes is 1 and No is 0, so that or and and are the higher and the lower.
    pub(super) fn of(self, ours: u32, theirs: u32) -> u32 {
        match self {
            Self::Lower(..) | Self::And => ours.min(theirs),
            Self::Higher(..) | Self::Or => ours.max(theirs),
        }
    }

    /// The result when the other end's value cannot change it: no answer is needed then.
    /// RFC 7143, 6.2.2.
    pub(super) fn foregone(self, ours: u32) -> Option<u32> {
        match (self, ours) {
            (Self::Or, 1) | (Self::And, 0) => Some(ours),
            _ => None,
        }
    }
}

/// A number, decimal or hexadecimal. RFC 7143, 6.1.
pub(super) fn number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    // A sign is no digit, though the standard library takes one.
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u32::from_str_radix(digits, radix).ok().filter(|_| is_number)
}
