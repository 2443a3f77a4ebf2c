//! The cores' refusals of peers, as [`Refusal`]s: the reason of each in one of few words.

use nearflash_api::RefusalReason;
use nearflash_direct::PeerError as DirectError;
use nearflash_direct::serving::TlsKeyRefused as ClientRefused;
use nearflash_iscsi::PeerError as IscsiError;
use nearflash_iscsi::pdu::LoginStatus;
use nearflash_nvme::Status;
use nearflash_nvme::serving::Refusal as Refused;
use nearflash_shard::{Claim, Notice, Peer, PeerError, Protocol, TlsFault, TlsKeyRefused};

use nearflash_journal::peer_lines::Kind;
use nearflash_journal::refusals::{PEERS, Refusal, may_write};

/// Logs a refusal; returns any other notice.
pub(super) fn log(notice: Notice) -> Option<Notice> {
    match notice {
        Notice::PeerError { peer, error, claim: Some(claim) } => {
            let (protocol, reason) = (protocol_of(error), reason_of(error));
            match error {
                PeerError::Iscsi(IscsiError::Login(status)) => {
                    refuse((peer, protocol), &claim, reason, &status);
                }
                _ => refuse((peer, protocol), &claim, reason, &error),
            }
        }
        Notice::PeerError { peer, error, claim: None } => {
            if may_write(peer, Kind::Closed) {
                tracing::warn!(target: PEERS, %peer, "connection closed: {error}");
            }
        }
        Notice::Abandoned { peer, protocol, claim } => {
            let text = "it went away before it proved who it is";
            refuse((peer, protocol), &claim, RefusalReason::Abandoned, &text);
        }
        Notice::ConnectRefused { peer, refusal, claim } => {
            refuse((peer, Protocol::NvmeTcp), &claim, of_connect(refusal), &refusal);
        }
        Notice::LoginRefused { peer, status, claim } => {
            refuse((peer, Protocol::Iscsi), &claim, of_login(status), &status);
        }
        Notice::VolumeRefused { peer, claim } => {
            let text = "it has no grant on this volume";
            refuse((peer, Protocol::Direct), &claim, RefusalReason::NotAdmitted, &text);
        }
        Notice::TlsFailed { peer, protocol, identity, hash, fault } => {
            let text = match hash {
                Some(hash) => format!("{fault} (hash {hash})"),
                None => fault.to_string(),
            };
            let claim = Claim { name: identity, ..Claim::default() };
            refuse((peer, protocol), &claim, of_tls(&fault), &text);
        }
        other => return Some(other),
    }
    None
}

fn refuse(
    (peer, protocol): (Peer, Protocol),
    claim: &Claim,
    reason: RefusalReason,
    text: &dyn std::fmt::Display,
) {
    let (protocol, source) = (protocol.name(), peer.into());
    Refusal { protocol, peer: &peer, source, claim, reason, text }.log();
}

fn protocol_of(error: PeerError) -> Protocol {
    match error {
        PeerError::NvmeTcp(_) => Protocol::NvmeTcp,
        PeerError::Direct(_) => Protocol::Direct,
        PeerError::Iscsi(_) => Protocol::Iscsi,
    }
}

fn reason_of(error: PeerError) -> RefusalReason {
    match error {
        _ if error.is_silence() => RefusalReason::TimedOut,
        PeerError::Direct(DirectError::Unauthenticated | DirectError::OtherTlsKey) => {
            RefusalReason::NotProved
        }
        PeerError::Direct(DirectError::CredentialExpired) => RefusalReason::Expired,
        PeerError::Direct(DirectError::ShareTaken) => RefusalReason::Limit,
        PeerError::Iscsi(IscsiError::Login(status)) => of_login(status),
        _ => RefusalReason::Invalid,
    }
}

fn of_connect(refusal: Refused) -> RefusalReason {
    match refusal.status.code() {
        _ if refusal.is_of_subsystem() => RefusalReason::NotFound,
        Status::CONNECT_INVALID_HOST => RefusalReason::NotAdmitted,
        Status::CONNECT_CONTROLLER_BUSY => RefusalReason::Limit,
        _ => RefusalReason::Invalid,
    }
}

fn of_login(status: LoginStatus) -> RefusalReason {
    match status {
        LoginStatus::AUTHENTICATION_FAILURE => RefusalReason::NotProved,
        LoginStatus::AUTHORIZATION_FAILURE => RefusalReason::NotAdmitted,
        LoginStatus::NOT_FOUND | LoginStatus::TARGET_REMOVED => RefusalReason::NotFound,
        LoginStatus::OUT_OF_RESOURCES | LoginStatus::TOO_MANY_CONNECTIONS => RefusalReason::Limit,
        _ => RefusalReason::Invalid,
    }
}

fn of_tls(fault: &TlsFault) -> RefusalReason {
    match fault {
        TlsFault::NoKey(TlsKeyRefused::Direct(ClientRefused::Expired)) => RefusalReason::Expired,
        TlsFault::WrongPsk | TlsFault::WrongSecret | TlsFault::NoKey(_) => RefusalReason::NotProved,
        TlsFault::NotUsed | TlsFault::NoIdentity | TlsFault::Library(_) => RefusalReason::Tls,
    }
}
