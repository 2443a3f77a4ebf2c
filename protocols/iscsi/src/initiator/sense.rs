//! Sense data as an initiator reads it. SPC-4, 4.5: fixed and descriptor format.

use std::fmt;

/// The reason for a CHECK CONDITION status.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sense {
    /// Sense key.
    pub key: u8,
    /// Additional sense code.
    pub asc: u8,
    /// Additional sense code qualifier.
    pub ascq: u8,
    /// INFORMATION, when it is valid.
    pub information: Option<u64>,
}

impl Sense {
    /// Parses sense data; `None` if its format is unknown.
    pub fn parse(data: &[u8]) -> Option<Self> {
        match data.first()? & 0x7F {
            0x70 | 0x71 => Self::parse_fixed(data),
            0x72 | 0x73 => Self::parse_descriptors(data),
            _ => None,
        }
    }

    fn parse_fixed(data: &[u8]) -> Option<Self> {
        let is_valid = data[0] & 0x80 != 0;
        let information = data.get(3..7).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        Some(Self {
            key: data.get(2)? & 0x0F,
            asc: data.get(12).copied().unwrap_or(0),
            ascq: data.get(13).copied().unwrap_or(0),
            information: information
                .filter(|_| is_valid)
                .map(|bytes| u32::from_be_bytes(bytes).into()),
        })
    }

    fn parse_descriptors(data: &[u8]) -> Option<Self> {
        let mut sense = Self {
            key: data.get(1)? & 0x0F,
            asc: *data.get(2)?,
            ascq: *data.get(3)?,
            information: None,
        };
        let mut rest = data.get(8..).unwrap_or(&[]);
        while let [kind, len, ..] = rest {
            let len = usize::from(*len) + 2;
            let Some((descriptor, after)) = rest.split_at_checked(len) else { break };
            if *kind == 0 && descriptor.get(2).is_some_and(|flags| flags & 0x80 != 0) {
                let bytes = descriptor.get(4..12).and_then(|bytes| bytes.try_into().ok());
                sense.information = bytes.map(u64::from_be_bytes);
            }
            rest = after;
        }
        Some(sense)
    }
}

impl fmt::Display for Sense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sense {:x}h/{:02x}h/{:02x}h", self.key, self.asc, self.ascq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_formats_say_the_same() {
        let fixed = [0xF0, 0, 0x0E, 0, 0, 2, 0, 10, 0, 0, 0, 0, 0x1D, 0x01, 0, 0, 0, 0];
        let descriptors =
            [0x72, 0x0E, 0x1D, 0x01, 0, 0, 0, 12, 0, 10, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0];
        let sense = Sense { key: 0x0E, asc: 0x1D, ascq: 1, information: Some(512) };
        assert_eq!(Sense::parse(&fixed), Some(sense));
        assert_eq!(Sense::parse(&descriptors), Some(sense));
        assert_eq!(Sense::parse(&[0x70, 0, 5]).map(|sense| sense.key), Some(5));
        assert_eq!(Sense::parse(&[]), None);
    }

    proptest! {
        #[test]
        fn any_sense_data_is_read_or_refused(data in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Sense::parse(&data);
        }
    }
}
