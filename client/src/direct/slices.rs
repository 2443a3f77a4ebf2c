//! The bytes of a call, which may lie in several slices.

use std::io::{IoSlice, IoSliceMut};

pub(super) fn len_of<'a>(slices: impl IntoIterator<Item = &'a [u8]>) -> usize {
    slices.into_iter().map(<[u8]>::len).sum()
}

/// Copies `bytes` to the slices, from the byte `start` of all of them.
pub(super) fn scatter(slices: &mut [IoSliceMut<'_>], start: usize, bytes: &[u8]) {
    let (mut skipped, mut rest) = (start, bytes);
    for slice in slices {
        let Some(place) = slice.get_mut(skipped..) else {
            skipped -= slice.len();
            continue;
        };
        let (now, later) = rest.split_at(rest.len().min(place.len()));
        place[..now.len()].copy_from_slice(now);
        (skipped, rest) = (0, later);
    }
    assert!(rest.is_empty(), "the slices have room");
}

/// The bytes of a write.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    Slices(&'a [IoSlice<'a>]),
    /// As many zeroes.
    Zeroes(usize),
}

impl Source<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Slices(slices) => len_of(slices.iter().map(|slice| &**slice)),
            Self::Zeroes(len) => *len,
        }
    }

    /// Fills `bytes` from the byte `start` of the source.
    pub(super) fn copy(&self, start: usize, bytes: &mut [u8]) {
        let Self::Slices(slices) = self else { return bytes.fill(0) };
        let (mut skipped, mut rest) = (start, bytes);
        for slice in *slices {
            let Some(from) = slice.get(skipped..) else {
                skipped -= slice.len();
                continue;
            };
            let (now, later) = rest.split_at_mut(rest.len().min(from.len()));
            now.copy_from_slice(&from[..now.len()]);
            (skipped, rest) = (0, later);
        }
        assert!(rest.is_empty(), "the slices have enough bytes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Slices are one sequence of bytes, however they are cut.
        #[test]
        fn slices_are_one_sequence(
            mut slices in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), 0..6),
            cut in any::<(prop::sample::Index, prop::sample::Index)>(),
        ) {
            let whole = slices.concat();
            let (a, b) = (cut.0.index(whole.len() + 1), cut.1.index(whole.len() + 1));
            let range = a.min(b)..a.max(b);
            let borrowed: Vec<IoSlice<'_>> = slices.iter().map(|it| IoSlice::new(it)).collect();
            let source = Source::Slices(&borrowed);
            prop_assert_eq!(source.len(), whole.len());
            let mut copied = vec![0; range.len()];
            source.copy(range.start, &mut copied);
            prop_assert_eq!(&copied, &whole[range.clone()]);

            let written = vec![0xEE; range.len()];
            let mut places: Vec<_> = slices.iter_mut().map(|it| IoSliceMut::new(it)).collect();
            scatter(&mut places, range.start, &written);
            let mut expected = whole;
            expected[range].fill(0xEE);
            prop_assert_eq!(slices.concat(), expected);
        }
    }
}
