//! Proofs: an end shows that it knows a key's secret, without revealing the secret.
//!
//! A proof is the HMAC-SHA256 (RFC 2104, FIPS 198-1) under the secret, over a label and the
//! transcript: the HELLO and its answer, headers and payload, as sent on the wire. The transcript
//! has both nonces, so no proof is valid twice. It has the agreed features, so nobody in between
//! can remove one. The labels differ, so neither end's proof is valid as the other's.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::secret::Secret;
use crate::wire::PROOF_LEN;

/// Precedes the transcript in the client's proof.
pub const CLIENT_LABEL: &[u8] = b"nearflash direct 1 client";
/// Precedes the transcript in the node's proof.
pub const NODE_LABEL: &[u8] = b"nearflash direct 1 node";

/// The client's proof, sent in PROVE.
pub fn client_proof(secret: &Secret, transcript: &[u8]) -> [u8; PROOF_LEN] {
    mac(secret, CLIENT_LABEL, transcript).finalize().into_bytes().into()
}

/// The node's proof, sent in the answer to PROVE.
pub fn node_proof(secret: &Secret, transcript: &[u8]) -> [u8; PROOF_LEN] {
    mac(secret, NODE_LABEL, transcript).finalize().into_bytes().into()
}

/// Whether a proof is the client's. The time does not depend on where the two differ.
pub(crate) fn is_client_proof(secret: &Secret, transcript: &[u8], proof: &[u8]) -> bool {
    mac(secret, CLIENT_LABEL, transcript).verify_slice(proof).is_ok()
}

/// Whether a proof is the node's. The time does not depend on where the two differ.
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
