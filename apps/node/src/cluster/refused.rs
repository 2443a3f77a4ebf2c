//! Connections to the port of pulses that become no pulse, as refused logins.

use std::net::SocketAddr;

use nearflash_api::RefusalReason;
use nearflash_cluster_store::PulseError;
use nearflash_mirror::membership::wire::WireError;
use nearflash_shard::Claim;

use nearflash_journal::refusals::Refusal;

/// Logs and counts such a connection.
pub(super) fn refused(peer: SocketAddr, error: &PulseError) {
    let reason = match error {
        PulseError::Slow => RefusalReason::TimedOut,
        PulseError::Crowded => RefusalReason::Limit,
        PulseError::Wire(WireError::Secret) => RefusalReason::NotProved,
        PulseError::Wire(WireError::Cluster(_) | WireError::Node(_) | WireError::Itself) => {
            RefusalReason::NotAdmitted
        }
        _ => RefusalReason::Invalid,
    };
    let (source, claim) = (peer.into(), &Claim::default());
    let text = &format!("no pulse: {error}");
    Refusal { protocol: "pulse", peer: &peer, source, claim, reason, text }.log();
}
