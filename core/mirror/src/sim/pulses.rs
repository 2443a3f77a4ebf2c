//! The pulses between the nodes that have replicas, and partitions.

use super::history::Time;
use super::{Event, MICRO, MILLI, Run};
use crate::membership::Pulse;

/// The pulse from one node to another.
#[derive(Debug, Default)]
pub(super) struct PulseLink {
    connection: u64,
    is_up: bool,
    last: Time,
}

impl PulseLink {
    /// The messages on their way are lost.
    pub(super) fn lose(&mut self) {
        (self.connection, self.is_up) = (self.connection + 1, false);
    }
}

pub(super) fn node_key(node: usize) -> [u8; 16] {
    [u8::try_from(node).expect("they are few"); 16]
}

impl Run {
    /// Whether messages from one node to the other are lost.
    pub(super) fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.get(&(from, to)).is_some_and(|until| self.now < *until)
    }

    pub(super) fn pulse(&mut self, from: usize, to: usize, pulse: Pulse) {
        let delay = 10 * MICRO + self.random.below(300 * MICRO);
        let link = &mut self.pulses[from][to];
        if !link.is_up {
            return;
        }
        link.last = (self.now + delay).max(link.last + 1);
        let (time, connection) = (link.last, link.connection);
        if !self.is_cut(from, to) {
            self.later(time, Event::Pulse(from, to, connection, pulse));
        }
    }

    pub(super) fn pulse_arrives(&mut self, from: usize, to: usize, connection: u64, pulse: Pulse) {
        if connection != self.pulses[from][to].connection {
            return;
        }
        self.with_membership(to, |membership| membership.handle_pulse(node_key(from), pulse));
    }

    /// The pulse ends: in an orderly way if its process has died.
    pub(super) fn end_pulse(&mut self, from: usize, to: usize, is_proof: bool) {
        if !std::mem::take(&mut self.pulses[from][to].is_up) {
            return;
        }
        let connection = self.pulses[from][to].connection;
        let longest = if is_proof { 200 * MILLI } else { 5 * MILLI };
        let delay = 500 * MICRO + self.random.below(longest);
        if !self.is_cut(from, to) {
            self.later(self.now + delay, Event::PulseEnd(from, to, connection, is_proof));
        }
        if !is_proof {
            let delay = 50 * MILLI + self.random.below(200 * MILLI);
            self.later(self.now + delay, Event::PulseConnect(from, to));
        }
    }

    pub(super) fn pulse_ended(&mut self, from: usize, to: usize, connection: u64, is_proof: bool) {
        if connection != self.pulses[from][to].connection {
            return;
        }
        if is_proof {
            self.count("deaths proved");
        }
        self.with_membership(to, |it| it.handle_pulse_end(node_key(from), is_proof));
    }

    /// Connects a pulse that is not there.
    pub(super) fn connect_pulse(&mut self, from: usize, to: usize) {
        if !self.nodes[from].is_up || self.pulses[from][to].is_up {
            return;
        }
        if !self.nodes[to].is_up || self.is_cut(from, to) || self.is_cut(to, from) {
            let delay = 50 * MILLI + self.random.below(200 * MILLI);
            return self.later(self.now + delay, Event::PulseConnect(from, to));
        }
        let link = &mut self.pulses[from][to];
        (link.connection, link.is_up) = (link.connection + 1, true);
        let hello = self.nodes[from].membership.as_ref().map(|membership| membership.hello());
        if let Some(hello) = hello {
            self.pulse(from, to, hello);
        }
    }

    /// Loses messages between two nodes for a while, in one direction or both.
    pub(super) fn cut(&mut self, from: usize, to: usize, span: Time, is_one_way: bool) {
        self.count("partitions");
        let until = self.now + span;
        self.cuts.insert((from, to), until);
        if !is_one_way {
            self.cuts.insert((to, from), until);
        }
        self.later(until, Event::Healed(from, to));
        self.lose_links(from, to, span.min(5000 * MILLI));
    }

    pub(super) fn healed(&mut self, from: usize, to: usize) {
        self.lose_links(from, to, 0);
        if from < self.sharing() && to < self.sharing() {
            self.end_pulse(from, to, false);
            self.end_pulse(to, from, false);
        }
    }
}
