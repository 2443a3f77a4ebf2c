//! Notices of the cores, as log lines: the event, the peer or device, and the remedy if there is
//! one.

use std::time::Instant;

use nearflash_nvme::tls::Suite;
use nearflash_request::Identity;
use nearflash_shard::Notice;
use tracing::{error, info, warn};

use super::faults::Faults;
use super::refused;
use nearflash_journal::peer_lines::{Kind, Source};
use nearflash_journal::refusals::{PEERS, client_went, may_write, may_write_client};

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
        Notice::PlacesTaken { kind, used } => {
            let (holder, held) = used.most.unwrap_or_default();
            warn!(
                places = kind.name(),
                used = used.used,
                of = used.places,
                holder = &*holder,
                held,
                "a peer got no place, or took that of another one: the holder has the most"
            );
        }
        Notice::Stalled(peer) => {
            if may_write(peer, Kind::Closed) {
                warn!(target: PEERS, %peer, "connection closed: the host neither reads answers nor sends the data it announced");
            }
        }
        Notice::StoodStill(core, span) => {
            let seconds = span.to_duration().as_secs_f64();
            warn!(
                core = core.0,
                "stood still for {seconds:.1} s: the machine or the process was stopped, or is overloaded"
            );
        }
        Notice::NodeReached(node) => info!(%node, "connected to another node"),
        Notice::NodeLost { address, error } => warn!(node = %address, "another node: {error}"),
        other => return refused::log(other).and_then(log_peer),
    }
    None
}

/// Logs a notice about a peer that has come or gone; returns any other one.
fn log_peer(notice: Notice) -> Option<Notice> {
    match notice {
        Notice::ClientConnected { peer, key, is_secured } => {
            let key = key.unwrap_or_default();
            if !may_write_client(peer, &key) {
                return None;
            }
            match is_secured {
                true => info!(target: PEERS, %peer, key = &*key, "client connected with TLS"),
                false => info!(target: PEERS, %peer, key = &*key, "client connected"),
            }
        }
        Notice::ClientGone { peer, key } => client_went(peer, &key.unwrap_or_default()),
        Notice::LoggedIn { peer, initiator, target, account }
            if may_write(peer, Kind::Connected) =>
        {
            let (target, user) = (target.unwrap_or_default(), account.unwrap_or_default());
            info!(target: PEERS, %peer, initiator = &*initiator, target = &*target, user = &*user, "initiator logged in");
        }
        Notice::LoggedIn { .. } => {}
        Notice::SessionOver { nexus, identity } => {
            if let Identity::Iscsi { initiator, .. } = &identity
                && may_write(Source::Unknown, Kind::Gone)
            {
                info!(target: PEERS, initiator = &**initiator, "initiator gone");
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
        Notice::ControllerConnected { controller, peer, host, suite }
            if may_write(peer, Kind::Connected) =>
        {
            let (controller, hash) = (controller.0, suite.map(Suite::hash));
            match hash {
                None => info!(target: PEERS, %peer, controller, %host, "host connected"),
                Some(hash) => {
                    info!(target: PEERS, %peer, controller, %host, %hash, "host connected with TLS");
                }
            }
        }
        Notice::PreviousPsk { peer, host } => {
            let host = host.as_str();
            info!(target: PEERS, %peer, host, "host uses its previous PSK, which a new one replaces");
        }
        Notice::ControllerGone { controller, host } if may_write(Source::Unknown, Kind::Gone) => {
            let host = host.map(|host| host.to_string()).unwrap_or_default();
            info!(target: PEERS, controller = controller.0, host, "host gone");
        }
        Notice::Disconnecting { controller, host, reason }
            if may_write(Source::Unknown, Kind::Gone) =>
        {
            let host = host.map(|host| host.to_string()).unwrap_or_default();
            info!(target: PEERS, controller = controller.0, host, "host disconnected: {reason}");
        }
        Notice::ControllerConnected { .. }
        | Notice::ControllerGone { .. }
        | Notice::Disconnecting { .. } => {}
        for_control => return Some(for_control),
    }
    None
}
