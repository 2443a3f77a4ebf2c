//! Every rule of the layout, and the MAC.

use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

fn key(generation: u32) -> SealKey {
    SealKey::derive(Some(("app", &Secret::new([7; 32]))), generation, [1; 16], [2; SALT_LEN])
}

fn terms(runs: &[(u64, u64)]) -> SealTerms {
    SealTerms {
        object: 5,
        uuid: [3; 16],
        version: 9,
        rights: Rights::READ,
        good_until: 60,
        runs: runs.iter().map(|(start, len)| Run { start: *start, len: *len }).collect(),
    }
}

/// A seal whose bytes were changed, with the MAC left as it was.
fn changed(at: usize, byte: u8) -> Result<Seal, SealError> {
    let mut bytes = key(1).mint(terms(&[(0, MIB), (4 * MIB, 512)])).unwrap().encode();
    bytes[at] = byte;
    Seal::decode(&bytes)
}

#[test]
fn a_minted_seal_is_known_by_its_key_alone() {
    let seal = key(1).mint(terms(&[(0, 4096)])).unwrap();
    assert!(key(1).has_minted(&seal));
    assert!(!key(2).has_minted(&seal), "another generation");
    let (secret, other) = (Secret::new([7; 32]), Secret::new([8; 32]));
    let minter = Some(("app", &secret));
    for (key, what) in [
        (SealKey::derive(Some(("app", &other)), 1, [1; 16], [2; SALT_LEN]), "another secret"),
        (SealKey::derive(minter, 1, [9; 16], [2; SALT_LEN]), "another volume"),
        (SealKey::derive(minter, 1, [1; 16], [9; SALT_LEN]), "another start of the node"),
        (SealKey::derive(None, 1, [1; 16], [2; SALT_LEN]), "an anonymous client"),
    ] {
        assert!(!key.has_minted(&seal), "{what}");
    }
}

#[test]
fn no_version_is_zero() {
    assert_eq!(
        key(1).mint(SealTerms { version: 0, ..terms(&[(0, 512)]) }),
        Err(SealError::Version)
    );
    let seal = key(0).mint(terms(&[(0, 512)])).unwrap();
    assert_eq!(Seal::decode(&seal.encode()), Err(SealError::Version), "of the key");
}

#[test]
fn rights_are_known_and_at_least_one() {
    for (rights, is_sound) in [(0, false), (1, true), (2, true), (3, true), (4, false), (7, false)]
    {
        let minted = key(1).mint(SealTerms { rights: Rights(rights), ..terms(&[(0, 512)]) });
        assert_eq!(minted.is_ok(), is_sound, "{rights}");
    }
    assert_eq!(changed(20, 4), Err(SealError::Rights));
}

#[test]
fn there_are_one_to_eight_runs() {
    let runs: Vec<(u64, u64)> = (0..9).map(|at| (at * MIB, MIB)).collect();
    for count in [0, 9] {
        assert_eq!(key(1).mint(terms(&runs[..count])), Err(SealError::RunCount(count)));
    }
    assert!(key(1).mint(terms(&runs[..8])).is_ok());
    assert_eq!(changed(21, 0), Err(SealError::RunCount(0)));
    assert_eq!(changed(21, 9), Err(SealError::RunCount(9)));
    assert!(matches!(changed(21, 3), Err(SealError::Length(_))), "one that is not there");
}

#[test]
fn every_run_but_the_last_is_whole_mebibytes_and_every_one_whole_blocks() {
    assert!(key(1).mint(terms(&[(512, MIB), (512, 512)])).is_ok());
    for (runs, wrong) in [
        (&[(0, MIB - 512), (2 * MIB, 512)][..], 0),
        (&[(0, MIB + 512), (2 * MIB, 512)], 0),
        (&[(0, 0), (2 * MIB, 512)], 0),
        (&[(1, 512)], 0),
        (&[(0, MIB), (0, 511)], 1),
        (&[(0, MIB), (0, 0)], 1),
    ] {
        assert_eq!(key(1).mint(terms(runs)), Err(SealError::Run(wrong)), "{runs:?}");
    }
}

#[test]
fn no_run_and_no_object_ends_past_the_last_number() {
    let huge = 1 << 63;
    assert!(key(1).mint(terms(&[(huge - MIB, huge)])).is_ok());
    for (runs, wrong) in [(&[(huge, huge)][..], 0), (&[(0, huge), (0, huge)], 1)] {
        assert_eq!(key(1).mint(terms(runs)), Err(SealError::Run(wrong)), "{runs:?}");
    }
}

#[test]
fn what_is_reserved_is_zero() {
    assert_eq!(changed(23, 1), Err(SealError::Magic));
    assert_eq!(changed(0, b'M'), Err(SealError::Magic));
}

#[test]
fn a_cut_seal_and_one_with_something_behind_it_are_refused() {
    let bytes = key(1).mint(terms(&[(0, MIB), (4 * MIB, 512)])).unwrap().encode();
    for len in 0..bytes.len() {
        assert!(Seal::decode(&bytes[..len]).is_err(), "{len} bytes");
    }
    assert!(Seal::decode(&[&bytes[..], &[0]].concat()).is_err());
}

#[test]
fn the_name_of_the_minter_is_text_of_at_most_63_bytes() {
    assert!(matches!(changed(22, 64), Err(SealError::Length(_))));
    assert_eq!(changed(64 + 32, 0xFF), Err(SealError::Minter));
}

proptest! {
    #[test]
    fn a_seal_is_read_as_it_was_minted(
        object: u64, version in 1u32.., good_until: u64, rights in 1u8..4, generation in 1u32..,
        mibs in prop::collection::vec((0u64..1 << 30, 1u64..1 << 20), 0..8),
        last in (0u64..1 << 40, 1u64..1 << 20),
        name in "[a-zäöü]{0,20}",
    ) {
        let last = Run { start: last.0 * 512, len: last.1 * 512 };
        let runs = mibs.iter().map(|(start, len)| Run { start: start * 512, len: len * MIB });
        let runs = runs.chain([last]).collect();
        let rights = Rights(rights);
        let terms = SealTerms { object, uuid: [4; 16], version, rights, good_until, runs };
        let secret = Secret::new([7; 32]);
        let key = SealKey::derive(Some((&name, &secret)), generation, [1; 16], [2; SALT_LEN]);
        let seal = key.mint(terms.clone()).unwrap();
        let bytes = seal.encode();
        prop_assert!(bytes.len() <= SEAL_LEN_MAX);
        let read = Seal::decode(&bytes).unwrap();
        prop_assert!(key.has_minted(&read));
        prop_assert_eq!((read.minter(), read.terms()), (&name[..], &terms));
        prop_assert_eq!(read, seal);
    }

    #[test]
    fn a_seal_with_a_changed_bit_is_nobodys(at: usize, bit in 0u8..8) {
        let mut bytes = key(1).mint(terms(&[(0, MIB), (4 * MIB, 512)])).unwrap().encode();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        let is_minted = Seal::decode(&bytes).is_ok_and(|seal| key(1).has_minted(&seal));
        prop_assert!(!is_minted, "byte {}", at);
    }

    #[test]
    fn reading_any_bytes_gives_them_back_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..300)
    ) {
        if let Ok(seal) = Seal::decode(&bytes) {
            prop_assert_eq!(seal.encode(), bytes);
        }
    }
}
