//! Invalid seals and bearers, at those who are to use them.

use crate::secret::SECRET_LEN;
use crate::wire::{
    BEARER_LEN_MAX, Bearer, RUN_UNIT, Rights, SALT_LEN, SEAL_LEN_MAX, SEAL_RUNS_MAX, Seal, SealKey,
};

/// For all bytes: they are no seal, or a seal that keeps the rules and is encoded as the same bytes. No key
/// has minted it.
pub fn check_seal(bytes: &[u8]) {
    check_bearer(bytes);
    let Ok(seal) = Seal::decode(bytes) else { return };
    assert_eq!(seal.encode(), bytes);
    assert!(bytes.len() <= SEAL_LEN_MAX);
    let terms = seal.terms();
    assert!(terms.version > 0 && seal.generation() > 0);
    assert!(terms.rights != Rights::NONE && Rights::READ_WRITE.has(terms.rights));
    let Some((last, whole)) = terms.runs.split_last() else { panic!("a seal has a run") };
    assert!(whole.len() < SEAL_RUNS_MAX);
    assert!(whole.iter().all(|run| run.len.is_multiple_of(RUN_UNIT)));
    assert!(terms.len() >= last.len && last.len > 0);
    assert!(terms.runs.iter().all(|run| run.start.checked_add(run.len).is_some()));
    let key = SealKey::derive(None, seal.generation(), seal.volume(), [0; SALT_LEN]);
    assert!(!key.has_minted(&seal), "somebody has guessed a MAC");
}

/// They are no bearer, or one that is encoded as the same bytes. No key has made it.
fn check_bearer(bytes: &[u8]) {
    let Ok(bearer) = Bearer::decode(bytes) else { return };
    assert_eq!(bearer.encode(), bytes);
    assert!(bytes.len() <= SECRET_LEN + BEARER_LEN_MAX && bearer.id().starts_with('~'));
}
