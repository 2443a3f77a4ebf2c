//! A whole run of a plan, from the first connection to the empty node.

use std::collections::BTreeMap;

use nearflash_units::Nanos;

use crate::Dice;
use crate::client::worker::Common;
use crate::plan::Plan;
use crate::sim::{PATIENCE, Sim};

/// The result of a run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// The same for two runs of a seed.
    pub trace: u64,
    /// The number of events.
    pub happenings: u64,
    /// Turns that cores took.
    pub turns: u64,
    /// Commands answered with success.
    pub succeeded: u64,
    /// Commands answered with an error.
    pub failed: u64,
    /// Commands whose connection was lost.
    pub lost: u64,
    /// Blocks read and judged.
    pub reads: u64,
    /// Of those, by the reader's protocol (hosts, initiators, direct clients), the number written
    /// over each protocol.
    pub across: [[u64; 3]; 3],
    /// Acknowledged writes, by protocol.
    pub acknowledged: [u64; 3],
    /// Compare-and-writes that succeeded.
    pub counted: u64,
    /// Comparisons that failed and were checked.
    pub differed: u64,
    /// Blocks rewritten with their own content by one operation.
    pub touched: u64,
    /// Requests of direct clients that were done.
    pub direct_succeeded: u64,
    /// Requests made over rings.
    pub direct_by_ring: u64,
    /// Direct requests through seals, those refused because the seal is void, and confirmed revocations.
    /// The last: those of clients that have entered with a bearer.
    pub seals: [u64; 4],
    /// Messages on files that were answered, and those that the node refused.
    pub files: [u64; 2],
    /// Refused requests: missing grants, stale epochs.
    pub direct_refused: u64,
    /// Refused requests for other clients' bytes.
    pub direct_trespasses: u64,
    /// Requests whose connection was lost.
    pub direct_lost: u64,
    /// Checked bytes and words of direct clients.
    pub direct_judged: u64,
    /// Answers compared with reservations, and the refusals among them.
    pub reserved: (u64, u64),
    /// Commands that were aborted before they began.
    pub aborted: u64,
    /// Commands for which there was no room.
    pub turned_away: u64,
    /// Connections that the network broke.
    pub broken: u64,
    /// The number of events by name: faults, changes, closed connections.
    pub events: BTreeMap<&'static str, u64>,
    /// The number of logins of initiators.
    pub logged_in: u32,
    /// The number of times that hosts joined.
    pub joined: u32,
    /// The duration on the simulated clock.
    pub span: Nanos,
}

impl Report {
    /// The number of events of that name.
    pub fn count(&self, what: &str) -> u64 {
        self.events.get(what).copied().unwrap_or_default()
    }
}

/// How long the run waits for a moment at which a loss of power is a risk.
const RISK_SPAN: Nanos = Nanos::from_millis(200);

/// Says which seed failed.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay with SIM_SEED={}", self.0);
        }
    }
}

/// Runs a plan to its end and checks everything.
///
/// # Panics
/// When any check fails. The seed is printed.
pub fn run(plan: Plan) -> Report {
    let seed = Seed(plan.seed);
    let mut sim = Sim::new(plan);
    sim.disturb();
    if !sim.plan.drain_while_busy {
        sim.finish_work();
        sim.calm();
        sim.rest();
        sim.check_silence_ends();
    }
    sim.calm();
    sim.drain();
    sim.rest();
    sim.check_disks();
    sim.lose_power();
    drop(seed);
    sim.report()
}

impl Sim {
    /// While hosts work, sizes change, the power goes and machines fail, each after a share of the work drawn from
    /// the seed. A drain while busy comes after the last of them.
    fn disturb(&mut self) {
        let mut resizes = self.plan.resizes;
        let mut power_losses = self.plan.power_losses;
        let mut revocations = self.plan.revocations;
        let mut clearings = self.plan.clearings;
        let mut terms = self.plan.terms;
        let mut upsets = self.draw_upsets();
        let count = u32::try_from(upsets.len()).expect("few faults")
            + revocations
            + resizes
            + power_losses
            + clearings
            + terms
            + u32::from(self.plan.drain_while_busy);
        for left in self.draw_shares_of_work(count) {
            let is_at_it = self.run_until(PATIENCE, |sim| sim.commands_left() <= left);
            assert!(is_at_it, "work goes on: {} are left, not {left}", self.commands_left());
            let others = revocations + resizes + power_losses + clearings + terms;
            if !upsets.is_empty() && (others == 0 || self.draw_coin()) {
                upsets.pop().into_iter().for_each(|upset| self.upset(upset));
            } else if terms > 0 && self.draw_coin() {
                terms -= 1;
                self.change_terms();
            } else if clearings > 0 {
                clearings -= 1;
                self.clear_suspects();
            } else if revocations > 0 && self.draw_coin() {
                revocations -= 1;
                self.revoke();
            } else if power_losses > 0 && (resizes == 0 || self.draw_coin()) {
                power_losses -= 1;
                self.await_risk(power_losses);
                self.lose_power();
            } else if resizes > 0 {
                resizes -= 1;
                self.resize();
            } else if terms > 0 {
                terms -= 1;
                self.change_terms();
            } else if revocations > 0 {
                revocations -= 1;
                self.revoke();
            }
        }
    }

    /// The power usually goes right after the answer to a flush that was sent while another was
    /// under way: its data is then on the disks, or lost. With its own dice.
    fn await_risk(&mut self, power_losses: u32) {
        let mut dice = Dice::new(self.plan.seed ^ u64::from(power_losses) ^ 0xF1C5);
        if dice.permille(750) {
            let before = self.checks.history.overlapping_flushes();
            let is_risky = |sim: &Self| sim.checks.history.overlapping_flushes() > before;
            let at_risk = self.run_until(RISK_SPAN, |sim| is_risky(sim) || sim.is_work_done());
            self.outside.note(if at_risk { "power lost at risk" } else { "no risk came up" }, &[]);
        }
    }

    /// The result of the run.
    pub fn report(&self) -> Report {
        let direct = |count: fn(&Common) -> u64| self.commons.iter().map(count).sum::<u64>();
        Report {
            trace: self.outside.trace.hash(),
            happenings: self.outside.trace.entries(),
            turns: self.outside.turns,
            succeeded: self.checks.succeeded,
            failed: self.checks.failed,
            lost: self.checks.lost,
            reads: self.checks.history.reads(),
            across: self.checks.across,
            acknowledged: self.checks.acknowledged,
            counted: self.checks.increments.won_count(),
            differed: self.checks.differed,
            touched: self.checks.touched,
            direct_succeeded: direct(|common| common.succeeded),
            direct_refused: direct(|common| common.refused + common.stale),
            direct_by_ring: direct(|common| common.by_ring),
            seals: [
                direct(|common| common.sealed),
                direct(|common| common.seals_stale),
                direct(|common| common.seals_revoked),
                direct(|common| common.by_bearer),
            ],
            files: [direct(|common| common.files), direct(|common| common.files_refused)],
            direct_trespasses: direct(|common| common.trespasses),
            direct_lost: direct(|common| common.lost),
            direct_judged: direct(|common| common.words.judged)
                + self.clients.iter().map(|client| client.owned.judged).sum::<u64>(),
            reserved: (self.checks.reservations.judged, self.checks.reservations.refused),
            aborted: self.checks.aborted,
            turned_away: self.checks.turned_away,
            broken: self.outside.network.broken,
            events: self.outside.trace.counts().clone(),
            logged_in: self.initiators.iter().map(|initiator| initiator.joined).sum(),
            joined: self.workers.iter().map(|worker| worker.joined).sum(),
            span: self.now(),
        }
    }
}
