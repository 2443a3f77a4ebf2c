//! The properties of outside input, as functions for tests and fuzzers. Each panics when its property does
//! not hold.

use crate::membership::Pulse;
use crate::membership::wire::{Hello, WireError, decode, decode_len, encode};

/// Any bytes of an opener are refused, or are a hello and messages that are written as they were read.
///
/// # Panics
/// When the property does not hold.
pub fn check_pulse(input: &[u8]) {
    if let Some((hello, _)) = input.split_first_chunk()
        && let Ok(read) = Hello::decode(hello)
    {
        assert_eq!(read.encode(), *hello);
    }
    let mut rest = input;
    while let Ok(Some((pulse, after))) = next(rest) {
        rest = after;
        let Some(pulse) = pulse else { continue };
        // A long message may be longer in our form.
        if let Ok(bytes) = encode(&pulse) {
            let again = next(&bytes);
            assert!(again.is_ok_and(|it| it == Some((Some(pulse), &[][..]))));
        }
    }
}

/// A message, or a beat, and the bytes after it.
type Cut<'a> = (Option<Pulse>, &'a [u8]);

/// The first message of these bytes; `None` if it is not whole.
fn next(bytes: &[u8]) -> Result<Option<Cut<'_>>, WireError> {
    let Some((prefix, rest)) = bytes.split_first_chunk() else { return Ok(None) };
    match rest.split_at_checked(decode_len(*prefix)?) {
        Some((message, after)) => Ok(Some((decode(message)?, after))),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use nearflash_device::MirrorKey;
    use uuid::Uuid;

    use super::*;
    use crate::Term;
    use crate::membership::Question;
    use crate::membership::wire::BEAT;

    #[test]
    fn messages_and_beats_of_a_stream_are_what_they_were() {
        let mirror = MirrorKey { volume: Uuid::from_u128(7), number: 1 };
        let question = Question { mirror, term: Term(1), session: 1 };
        let ask = Pulse::Ask { sequence: 1, questions: vec![question], heard: None };
        let bytes = [&BEAT[..], &encode(&ask).unwrap(), &BEAT, &[1]].concat();
        check_pulse(&bytes);
        let (first, rest) = next(&bytes).unwrap().unwrap();
        let (second, rest) = next(rest).unwrap().unwrap();
        let (third, rest) = next(rest).unwrap().unwrap();
        assert_eq!((first, second, third), (None, Some(ask), None));
        assert_eq!(next(rest).unwrap(), None);
        assert!(matches!(next(&[1, 0, 0, 0, b'{']), Err(WireError::Undecodable(_))));
    }
}
