//! Proofs: that an end knows a key's secret, without saying it.
//!
//! HMAC-SHA256 (RFC 2104, FIPS 198-1) under the secret, over a label and the transcript: the HELLO
//! and its answer, headers and payload, as they stood on the wire. Both nonces are in there, so
//! that no proof is good twice; the features agreed are, so that nobody in between takes one away;
//! and the labels differ, so that neither end's proof is good for the other's.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::secret::Secret;
use crate::wire::PROOF_LEN;

/// Stands before the transcript in the client's proof.
pub const CLIENT_LABEL: &[u8] = b"nearflash direct 1 client";
/// Stands before the transcript in the node's proof.
pub const NODE_LABEL: &[u8] = b"nearflash direct 1 node";

/// The client's proof, sent in PROVE.
pub fn client_proof(secret: &Secret, transcript: &[u8]) -> [u8; PROOF_LEN] {
    mac(secret, CLIENT_LABEL, transcript).finalize().into_bytes().into()
}

/// The node's proof, sent in the answer to PROVE.
pub fn node_proof(secret: &Secret, transcript: &[u8]) -> [u8; PROOF_LEN] {
    mac(secret, NODE_LABEL, transcript).finalize().into_bytes().into()
}

/// Whether a proof is the client's, in the same time wherever the two differ.
pub(crate) fn is_client_proof(secret: &Secret, transcript: &[u8], proof: &[u8]) -> bool {
    mac(secret, CLIENT_LABEL, transcript).verify_slice(proof).is_ok()
}

/// Whether a proof is the node's, in the same time wherever the two differ.
pub(crate) fn is_node_proof(secret: &Secret, transcript: &[u8], proof: &[u8]) -> bool {
    mac(secret, NODE_LABEL, transcript).verify_slice(proof).is_ok()
}

fn mac(secret: &Secret, label: &[u8], transcript: &[u8]) -> Hmac<Sha256> {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret.bytes()).expect("HMAC takes keys of any length");
    mac.update(label);
    mac.update(transcript);
    mac
}
