//! Notices of the cores, as log lines: the event, the peer or device, and the remedy if there is
//! one.

use std::time::Instant;

use nearflash_request::Identity;
use nearflash_shard::Notice;
use tracing::{error, info, warn};

use super::faults::Faults;

/// Logs a notice for the operator; returns a notice for the control side.
pub(super) fn log(notice: Notice, faults: &mut Faults) -> Option<Notice> {
    match notice {
        Notice::DeviceFailed { device, offset, errno, loses } => {
            if let Some(line) = faults.note(Instant::now(), device, offset, errno) {
                error!("{line}");
            }
            if loses {
                error!("{}", faults.loss(device));
                return Some(Notice::DeviceFailed { device, offset, errno, loses });
            }
        }
        Notice::DeviceWornOut(device) => {
            if let Some(line) = faults.worn_out(device) {
                error!("{line}");
            }
        }
        Notice::AcceptFailed(reason) => {
            warn!(
                "cannot accept a connection: {reason} (is the limit of open files, LimitNOFILE, high enough?)"
            );
        }
        Notice::TooManyConnections(peer) => {
            warn!(%peer, "connection refused: this core has too many connections");
        }
        Notice::PeerError { peer, error } => warn!(%peer, "connection closed: {error}"),
        Notice::Stalled(peer) => {
            warn!(%peer, "connection closed: the host neither reads answers nor sends the data it announced");
        }
        Notice::StoodStill(core, span) => {
            let seconds = span.to_duration().as_secs_f64();
            warn!(
                core = core.0,
                "stood still for {seconds:.1} s: the machine or the process was stopped, or is overloaded"
            );
        }
        Notice::ClientConnected { peer, key, is_secured } => {
            let key = key.unwrap_or_default();
            match is_secured {
                true => info!(%peer, key = &*key, "client connected with TLS"),
                false => info!(%peer, key = &*key, "client connected"),
            }
        }
        Notice::ClientGone { peer, key } => {
            let key = key.unwrap_or_default();
            info!(%peer, key = &*key, "client gone");
        }
        Notice::NodeReached(node) => info!(%node, "connected to another node"),
        Notice::NodeLost { address, error } => warn!(node = %address, "another node: {error}"),
        Notice::LoggedIn { peer, initiator, target, account } => {
            let (target, user) = (target.unwrap_or_default(), account.unwrap_or_default());
            info!(%peer, initiator = &*initiator, target = &*target, user = &*user, "initiator logged in");
        }
        Notice::LoginRefused { peer, initiator, status } => {
            warn!(%peer, initiator = &*initiator, "login refused: {status}");
        }
        Notice::SessionOver { nexus, identity } => {
            if let Identity::Iscsi { initiator, .. } = &identity {
                info!(initiator = &**initiator, "initiator gone");
            }
            return Some(Notice::SessionOver { nexus, identity });
        }
        other => return log_host(other),
    }
    None
}

/// Logs a notice about an NVMe host; returns any other one.
fn log_host(notice: Notice) -> Option<Notice> {
    match notice {
        Notice::ConnectRefused { peer, status } => {
            warn!(%peer, "connect refused: {status}");
        }
        Notice::ControllerConnected { controller, peer, host, suite: None } => {
            info!(%peer, controller = controller.0, %host, "host connected");
        }
        Notice::ControllerConnected { controller, peer, host, suite: Some(suite) } => {
            let hash = suite.hash();
            info!(%peer, controller = controller.0, %host, %hash, "host connected with TLS");
        }
        Notice::TlsFailed { peer, identity, hash, fault } => {
            let identity = identity.unwrap_or_default();
            let hash = hash.map(|hash| hash.to_string()).unwrap_or_default();
            warn!(%peer, identity = &*identity, hash, "connection refused: {fault}");
        }
        Notice::PreviousPsk { peer, host } => {
            info!(%peer, host = host.as_str(), "host uses its previous PSK, which a new one replaces");
        }
        Notice::ControllerGone { controller, host } => {
            let host = host.map(|host| host.to_string()).unwrap_or_default();
            info!(controller = controller.0, host, "host gone");
        }
        Notice::Disconnecting { controller, host, reason } => {
            let host = host.map(|host| host.to_string()).unwrap_or_default();
            info!(controller = controller.0, host, "host disconnected: {reason}");
        }
        for_control => return Some(for_control),
    }
    None
}
