//! Notices of the cores: each is either compared with the hosts' behaviour or awaited by the run.

use std::collections::BTreeSet;

use nearflash_direct as direct;
use nearflash_direct::Status;
use nearflash_engine::CoreId;
use nearflash_nvme::ControllerId;
use nearflash_nvme::serving::DisconnectReason;
use nearflash_shard::{LinkError, Notice, PROGRESS_MIN, Peer, PeerError};
use nearflash_units::Nanos;

use crate::client::worker::Client;
use crate::host::worker::{Life, Worker};
use crate::machine::{Machine, NodeId};
use crate::network::LinkId;
use crate::sim::Sim;

/// How long after a pause a node may still have to take what came meanwhile.
const PAUSE_AFTERMATH: Nanos = Nanos::from_secs(1);

/// Confirmations by the cores: the number of each message, with the core.
#[derive(Debug, Default)]
pub(crate) struct Confirmed {
    /// Messages about mirrors.
    followed: BTreeSet<(u64, CoreId)>,
    drained: BTreeSet<CoreId>,
}

impl Confirmed {
    /// The number of cores that have done what the message with that number asks.
    pub(crate) fn followed(&self, number: u64) -> usize {
        self.followed.range((number, CoreId::FIRST)..=(number, CoreId(u16::MAX))).count()
    }

    /// The cores that have drained.
    pub(crate) fn drained(&self) -> &BTreeSet<CoreId> {
        &self.drained
    }

    /// The node starts again.
    pub(super) fn start_again(&mut self) {
        self.drained.clear();
    }
}

impl Sim {
    pub(super) fn judge_notices(&mut self) {
        while let Some(noted) = self.outside.notices.get(self.notices_judged) {
            self.notices_judged += 1;
            let (node, speaker) = (noted.node, noted.core);
            match noted.notice.clone() {
                Notice::PeerError { peer, error, .. } => self.judge_peer_error(peer, error),
                Notice::Stalled(peer) => self.judge_stall(peer),
                Notice::Disconnecting {
                    controller,
                    reason: DisconnectReason::KeepAliveExpired,
                    ..
                } => self.judge_expiry(node, controller),
                Notice::Change { core, owner, tag, change } => {
                    self.changes.want(node, (core, owner, (change.volume, tag)), change);
                }
                Notice::SessionOver { nexus, identity } => {
                    self.changes.end_session(node, nexus, identity);
                }
                Notice::Files { place, demand } => {
                    assert_eq!(speaker, place.core, "a core speaks for itself");
                    self.files.take(node, place, *demand, &mut self.outside);
                }
                Notice::FilesGone(place) => self.files.end(node, place),
                Notice::Drained(core) => {
                    assert_eq!(speaker, core, "a core speaks for itself");
                    self.nodes[node.0].confirmed.drained.insert(core);
                }
                Notice::ReplicaFailed { side, result, .. } => {
                    assert!(!side.is_local(), "a device failed no write: {result:?}");
                    self.outside.note("replica failed", &[]);
                }
                Notice::StoodStill(..) => self.outside.note("stood still", &[]),
                Notice::ReadRepaired { .. } => self.outside.note("read repaired", &[]),
                Notice::MirrorWritesLost { .. } => self.outside.note("writes lost", &[]),
                Notice::NodeReached(_) => self.outside.note("node reached", &[]),
                Notice::NodeLost { error: LinkError::WritesLost { .. }, .. } => {
                    self.outside.note("writes lost", &[]);
                }
                Notice::NodeLost { error, .. } => {
                    let is_closing = self.outside.machines.iter().any(Machine::may_end_connections);
                    // The other node did not hear the rest of a handshake in time.
                    let late = LinkError::Protocol(direct::PeerError::Goodbye(Status::TIMEOUT));
                    let is_due = is_closing
                        || matches!(error, LinkError::Closed | LinkError::Silent)
                        || error == late;
                    assert!(is_due, "a node is lost: {error}");
                    self.outside.note("node lost", &[]);
                }
                Notice::ConnectRefused { .. } => self.outside.note("connect refused", &[]),
                Notice::Abandoned { .. } => self.outside.note("login abandoned", &[]),
                Notice::LoginRefused { .. } => self.outside.note("login refused", &[]),
                Notice::Shown(core, number) => {
                    self.nodes[node.0].handle_shown(core, number, &mut self.outside);
                }
                Notice::Quiesced(core, number) => {
                    self.nodes[node.0].handle_quiesced(core, number);
                }
                Notice::MirrorsShown(core, number) | Notice::MirrorsDrained(core, number) => {
                    self.nodes[node.0].confirmed.followed.insert((number, core));
                }
                _ => {}
            }
        }
    }

    fn link_of(&self, peer: Peer) -> LinkId {
        self.outside.network.link_of(peer).expect("peers have links")
    }

    fn is_misfit(&self, link: LinkId) -> bool {
        self.misfits.iter().flat_map(|misfit| &misfit.links).any(|(_, of)| *of == link)
    }

    fn judge_peer_error(&mut self, peer: Peer, error: PeerError) {
        let link = self.link_of(peer);
        let is_crooked = self.clients.iter().any(|client| client.is_crooked_at(link));
        // A network may delay bytes for longer than the node waits.
        let is_unheard = self.outside.network.is_between_nodes(link)
            || self.outside.network.has_lost_host(link)
            || self.plan.faults.network.stall_permille > 0;
        // The Connect of a host that comes back waits for the operations of its earlier queues. On a
        // volume of another node, or one that is kept there too, these may take longer than a handshake.
        let waits = self.outside.is_mirrored
            || self.workers.iter().any(|worker| worker.is_far() && worker.has(link));
        let is_due =
            (error.is_silence() && (is_unheard || waits)) || is_crooked || self.is_misfit(link);
        assert!(is_due, "{link:?} was said to have broken the protocol: {error}");
        let what = if error.is_silence() { "silence given up" } else { "protocol broken" };
        self.outside.note(what, &[u64::from(link.0)]);
    }

    fn judge_stall(&mut self, peer: Peer) {
        let link = self.link_of(peer);
        let now = self.outside.now;
        let reads = |worker: &Worker| worker.has(link) && !worker.is_deaf_at(link, now);
        let takes = |client: &Client| {
            client.has(link) && !client.is_deaf() && client.plan.crooked.is_none()
        };
        // A network that holds bytes back can for a while be slower than the least that the node demands
        // of a peer which holds buffers, unless its mean rate is many times as high.
        let network = &self.plan.faults.network;
        let is_slow = network.stall_permille > 0 && network.mean_rate().0 < 10 * PROGRESS_MIN.0;
        // A command of the same session may wait for another node on another connection. Those behind it
        // count as commands that the initiator owes.
        let waits_elsewhere = self.outside.is_mirrored
            && self.initiators.iter().any(|it| it.has(link) && it.plan.connections > 1);
        let is_due = is_slow
            || waits_elsewhere
            || self.outside.network.was_cut(link)
            || self.outside.network.is_between_nodes(link)
            || !self.workers.iter().any(reads)
                && !self.clients.iter().any(takes)
                && !self.initiators.iter().any(|initiator| initiator.has(link));
        assert!(is_due, "{link:?} was said to stall");
        self.outside.note("stall given up", &[u64::from(link.0)]);
    }

    fn judge_expiry(&mut self, node: NodeId, controller: ControllerId) {
        let is_heard = |worker: &Worker| {
            worker.life == Life::Working
                && worker.route.node == node
                && worker.node_life == self.outside.machine(node).starts
                && worker.controller() == Some(controller)
                && !worker.links().any(|link| self.outside.network.was_cut(link))
        };
        let now = self.outside.now;
        // In one turn after a pause, a node does not take all that came meanwhile.
        let has_just_paused = self.outside.machine(node).has_paused_since(now, PAUSE_AFTERMATH);
        let is_due = has_just_paused || !self.workers.iter().any(is_heard);
        assert!(is_due, "{controller:?} was given up at {now:?}, and its host is there");
        self.outside.note("keep-alive expired", &[u64::from(controller.0)]);
    }
}
