//! Binary values of text keys: hexadecimal or base64. RFC 7143, 6.1.

/// The longest binary value, in bytes. RFC 7143, 12.1.3: a challenge is at most 1024 bytes.
pub const BINARY_LEN_MAX: usize = 1024;

/// Encodes bytes in hexadecimal.
pub fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let digits = digits.map(|digit| char::from(DIGITS[usize::from(digit)]));
    "0x".chars().chain(digits).collect()
}

/// Decodes a text; `None` when it is not a binary value, or is too long.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let (base, digits) = text.split_at_checked(2)?;
    let bytes = match base {
        "0x" | "0X" => from_hex(digits.as_bytes()),
        "0b" | "0B" => from_base64(digits.as_bytes()),
        _ => None,
    };
    bytes.filter(|bytes| (1..=BINARY_LEN_MAX).contains(&bytes.len()))
}

fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit =
        |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    // An odd number of digits begins with half a byte.
    let (first, pairs) = digits.split_at(digits.len() % 2);
    let first = first.iter().map(|low| digit(*low));
    let pairs = pairs.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?));
    first.chain(pairs).collect()
}

fn from_base64(digits: &[u8]) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(4) {
        return None;
    }
    let padding = digits.iter().rev().take_while(|digit| **digit == b'=').count();
    if padding > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3);
    for group in digits[..digits.len() - padding].chunks(4) {
        let mut bits = 0u32;
        for digit in group {
            bits = bits << 6 | u32::from(base64_digit(*digit)?);
        }
        bits <<= 6 * (4 - group.len());
        let [_, group_bytes @ ..] = bits.to_be_bytes();
        bytes.extend_from_slice(&group_bytes[..group.len() * 6 / 8]);
    }
    Some(bytes)
}

const fn base64_digit(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_bases_are_read() {
        assert_eq!(decode("0x0aFf"), Some(vec![0x0A, 0xFF]));
        assert_eq!(decode("0xabc"), Some(vec![0x0A, 0xBC]));
        assert_eq!(decode("0bZm9vYmFy"), Some(b"foobar".to_vec()));
        assert_eq!(decode("0bZm9vYg=="), Some(b"foob".to_vec()));
        assert_eq!(decode("0bZm9vYmE="), Some(b"fooba".to_vec()));
    }

    #[test]
    fn what_is_no_binary_value_is_refused() {
        for text in ["", "0", "0x", "0b", "12", "0xgg", "0bZm9", "0bZ===", "0b====", "0bZ*9v", "é0"]
        {
            assert_eq!(decode(text), None, "{text}");
        }
        assert_eq!(decode(&encode(&[7; BINARY_LEN_MAX + 1])), None);
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(bytes in prop::collection::vec(any::<u8>(), 1..1025)) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }

        #[test]
        fn any_text_is_decoded_or_refused(text in "0[xb].{0,40}") {
            let _ = decode(&text);
        }
    }
}
