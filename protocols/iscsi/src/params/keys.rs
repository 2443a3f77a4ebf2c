//! The keys whose value both ends agree on, as a table: RFC 7143, 13.

use super::{LEN_MAX, LEN_MIN};

/// The rule that combines the two values of a key. RFC 7143, 6.2.2.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Rule {
    /// A number in this range; the result is the lower of both.
    Lower(u32, u32),
    /// A number in this range; the result is the higher of both.
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
    /// Whether it has no meaning in a discovery session.
    pub(super) is_normal_only: bool,
    pub(super) get: fn(&SessionParams) -> u32,
    pub(super) set: fn(&mut SessionParams, u32),
}

/// A value as a number: Yes is 1 and No is 0.
trait Value {
    fn of(number: u32) -> Self;
}
impl Value for u32 {
    fn of(number: u32) -> Self {
        number
    }
}
impl Value for bool {
    fn of(number: u32) -> Self {
        number != 0
    }
}

/// `field: type = default, "Key", rule, whether it means nothing in a discovery session;`.
macro_rules! session_keys {
    ($(
        $(#[$doc:meta])*
        $field:ident: $type:ty = $default:expr, $key:literal, $rule:expr, $is_normal_only:expr;
    )*) => {
        /// The parameters of a session: an end's offer, or the negotiated result.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub struct SessionParams {
            $(#[doc = concat!($key, ".")] $(#[$doc])* pub $field: $type,)*
        }

        impl Default for SessionParams {
            /// The values that apply without negotiation. RFC 7143, 13.
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        /// Every negotiated key of a session.
        pub(super) const KEYS: &[Key] = &[$(Key {
            name: $key,
            rule: $rule,
            is_normal_only: $is_normal_only,
            get: |params| params.$field.into(),
            set: |params, value| params.$field = Value::of(value),
        },)*];
    };
}

session_keys! {
    /// The lower of both. 1 to 65535.
    max_connections: u32 = 1, "MaxConnections", Rule::Lower(1, 65_535), true;
    /// No unsolicited Data-Out, if either end requests this.
    initial_r2t: bool = true, "InitialR2T", Rule::Or, true;
    /// Data in the command's PDU, if both ends request this.
    immediate_data: bool = true, "ImmediateData", Rule::And, true;
    /// The maximum length of the data that one R2T requests, and of one sequence of Data-In.
    max_burst_len: u32 = 262_144, "MaxBurstLength", Rule::Lower(LEN_MIN, LEN_MAX), true;
    /// The most unsolicited data of a command, including immediate data.
    first_burst_len: u32 = 65_536, "FirstBurstLength", Rule::Lower(LEN_MIN, LEN_MAX), true;
    /// In seconds: the higher of both. 0 to 3600.
    time_to_wait: u32 = 2, "DefaultTime2Wait", Rule::Higher(0, 3600), false;
    /// In seconds: the lower of both. 0 to 3600.
    time_to_retain: u32 = 20, "DefaultTime2Retain", Rule::Lower(0, 3600), false;
    /// R2Ts of a task at a time. 1 to 65535.
    max_outstanding_r2t: u32 = 1, "MaxOutstandingR2T", Rule::Lower(1, 65_535), true;
    data_pdu_in_order: bool = true, "DataPDUInOrder", Rule::Or, true;
    data_sequence_in_order: bool = true, "DataSequenceInOrder", Rule::Or, true;
    /// The lower of both, and 0 here.
    error_recovery_level: u32 = 0, "ErrorRecoveryLevel", Rule::Lower(0, 2), false;
    /// RFC 7144: the lower of both.
    protocol_level: u32 = 1, "iSCSIProtocolLevel", Rule::Lower(0, 31), true;
}

impl Rule {
    /// Parses a value; `None` when it is not valid for the key, or out of range.
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

    pub(super) fn print(self, value: u32) -> String {
        match self {
            Self::Or | Self::And if value == 0 => "No".to_owned(),
            Self::Or | Self::And => "Yes".to_owned(),
            Self::Lower(..) | Self::Higher(..) => value.to_string(),
        }
    }

    /// The result of two values. Yes is 1 and No is 0, so OR is the higher and AND the lower.
    pub(super) fn of(self, ours: u32, theirs: u32) -> u32 {
        match self {
            Self::Lower(..) | Self::And => ours.min(theirs),
            Self::Higher(..) | Self::Or => ours.max(theirs),
        }
    }

    /// The result, if the other end cannot change it: no answer is needed. RFC 7143, 6.2.2.
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
    // The standard library accepts a sign, which RFC 7143 does not.
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u32::from_str_radix(digits, radix).ok().filter(|_| is_number)
}
