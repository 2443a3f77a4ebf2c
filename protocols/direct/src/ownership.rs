//! Ownership of a volume: at any time, at most one process writes the structures of a volume.
//!
//! The volume has an *owner block*. Its first word is the *term*, a number that grows with every
//! change of owner. Behind it is a record for people: who the owner is, and how to reach it.
//! Connections of an owner claim *role identities* (CLAIM in docs/direct-protocol.md). These are the
//! same for every owner of the volume, so the node ends the connections of the former owner, and
//! answers a claim when none of their requests is under way any more.
//!
//! - To become the owner, a process reads the term, increments it with a compare-and-swap, makes that
//!   durable, and claims every role ([`Take`]). A beat in the record shows whether an owner is alive.
//! - An owner that has lost a connection reads the term first. If it is still its own, it claims the
//!   role again and reads the term again ([`Tenure`]).
//!
//! Invariant: a write goes only over a connection that claimed its role and read its own term
//! afterwards, after the owner had claimed every role. So no write of an older term takes effect
//! after one of a newer term. Clocks decide only whether an owner is considered alive. `walk.rs`
//! checks the invariant in every interleaving of three processes.
//!
//! Identities belong to a credential: the node ends only connections with the same key. All owners
//! of a volume therefore use the same credential.
//!
//! Pure: the caller has the connections and the clock.

mod block;
mod take;
mod tenure;
#[cfg(test)]
mod walk;

use sha2::{Digest as _, Sha256};

pub use block::{
    OWNER_BLOCK_LEN, OWNER_RECORD_LEN, OwnerBlock, OwnerRecord, RECORD_OFFSET, RecordError, Term,
};
pub use take::{BEAT_INTERVAL, Refusal, SILENCE_MAX, Take, TakeStep};
pub use tenure::{Tenure, TenureStep};

/// The number of roles: an owner has this many connections that may write.
pub const ROLES: usize = 4;

/// The length of an identity, in bytes.
const IDENTITY_LEN: usize = 16;

/// The identity that the owner's connection for a role claims: the first 16 bytes of
/// SHA-256(uuid ‖ `owner` ‖ role), where the role is one byte.
pub fn role_identity(volume: [u8; 16], role: u8) -> [u8; IDENTITY_LEN] {
    let mut hash = Sha256::new();
    hash.update(volume);
    hash.update(b"owner");
    hash.update([role]);
    let digest: [u8; 32] = hash.finalize().into();
    std::array::from_fn(|index| digest[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_depends_on_the_volume_and_the_role_alone() {
        let of = |volume, role| role_identity([volume; 16], role);
        assert_eq!(of(1, 0), of(1, 0));
        assert_ne!(of(1, 0), of(1, 1));
        assert_ne!(of(1, 0), of(2, 0));
    }

    #[test]
    fn identities_are_the_same_in_every_version() {
        let identity = role_identity(std::array::from_fn(|at| u8::try_from(at).unwrap()), 3);
        let expected = [
            0x9c, 0xf0, 0xe6, 0xc4, 0x30, 0x2f, 0x27, 0x01, 0x10, 0x9f, 0x36, 0xef, 0x8d, 0x1c,
            0x44, 0x0e,
        ];
        assert_eq!(identity, expected);
    }
}
