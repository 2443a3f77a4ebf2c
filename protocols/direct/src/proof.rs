//! Proofs: that an end knows a key's secret, without saying it.
//!
//! HMAC-SHA256 (RFC 2104, FIPS 198-1) under the secret, over a label and the transcript: the HELLO
//! and its answer, headers and payload, as they stood on the wire. Both nonces are in there, so
//! that no proof is good twice; the features agreed are, so that nobody in between takes one away;
//! and the labels differ, so that neither end's proof is good for the other's.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::secret::{Secret, are_equal};
use crate::wire::PROOF_LEN;

/// Stands before the transcript in the client's proof.
pub const CLIENT_LABEL: &[u8] = b"nearflash direct 1 client";
/// Stands before the transcript in the node's proof.
pub const NODE_LABEL: &[u8] = b"nearflash direct 1 node";

/// What the client sends in PROVE.
pub fn client_proof(secret: &Secret, transcript: &[u8]) -> [u8; PROOF_LEN] {
    proof(secret, CLIENT_LABEL, transcript)
}

/// What the node answers PROVE with.
pub fn node_proof(secret: &Secret, transcript: &[u8]) -> [u8; PROOF_LEN] {
    proof(secret, NODE_LABEL, transcript)
}

/// Whether a proof is the one awaited, in the same time wherever they differ.
pub(crate) fn is_proof(awaited: &[u8; PROOF_LEN], received: &[u8]) -> bool {
    <&[u8; PROOF_LEN]>::try_from(received).is_ok_and(|received| are_equal(awaited, received))
}

fn proof(secret: &Secret, label: &[u8], transcript: &[u8]) -> [u8; PROOF_LEN] {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret.bytes()).expect("HMAC takes keys of any length");
    mac.update(label);
    mac.update(transcript);
    mac.finalize().into_bytes().into()
}
