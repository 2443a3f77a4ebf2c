//! A loss of power: all peers are gone, and the disks must still hold all durable data.

use crate::host::worker::{Leaving, Life};
use crate::sim::Sim;
use crate::stamp::Value;

impl Sim {
    /// The power goes: what is left on the disks is checked, and the node starts again.
    ///
    /// # Panics
    /// When something durable is lost.
    pub fn lose_power(&mut self) {
        for host in 0..self.workers.len() {
            if !matches!(self.workers[host].life, Life::Away(_) | Life::Gone) {
                let next = self.workers[host].leave(
                    Leaving::Resetting,
                    &mut self.checks,
                    &mut self.outside,
                );
                next.into_iter().for_each(|at| self.look_at(host, at));
            }
        }
        for misfit in &mut self.misfits {
            misfit.leave(&mut self.outside);
        }
        for number in 0..self.clients.len() {
            let (checks, outside) = (&mut self.checks, &mut self.outside);
            let next =
                self.clients[number].leave(Leaving::Resetting, &mut self.common, checks, outside);
            self.clients[number].forget();
            let host = self.first_client() + number;
            next.into_iter().for_each(|at| self.look_at(host, at));
        }
        let first = self.first_initiator();
        for number in 0..self.initiators.len() {
            let initiator = &mut self.initiators[number];
            if !matches!(initiator.life, Life::Away(_) | Life::Gone) {
                let (checks, outside) = (&mut self.checks, &mut self.outside);
                let next = initiator.leave(Leaving::Resetting, checks, outside);
                next.into_iter().for_each(|at| self.look_at(first + number, at));
            }
        }
        self.outside.lose_node();
        self.forget_changes();
        self.judge_steps();
        self.outside.note("power lost", &[]);
        self.check_disks_after_power_loss();
        for disk in 0..self.outside.disks.len() {
            let now = self.outside.tick();
            self.outside.failures.cleared(disk, now);
        }
        self.confirmed.start_again();
        self.node.start(&mut self.outside);
    }

    fn check_disks_after_power_loss(&mut self) {
        let volatile = self.plan.node.volatile_cache;
        for block in self.checks.history.blocks() {
            let bytes = self.block_bytes(block);
            if matches!(Value::of(&bytes), Value::Other(_)) {
                self.outside.note("torn block", &[block.lba.0]);
            }
            self.checks.history.power_lost(block, &bytes, volatile, &self.outside.witness);
        }
        self.check_places();
        self.checks.history.forget_flushes();
        self.check_clients_after_power_loss();
        self.checks.increments.restart();
    }
}
