//! Faults of whole machines, and of the network between them and their hosts: partitions, pauses, and
//! losses of power. Other machines run on.

use nearflash_units::Nanos;

use crate::host::worker::{Leaving, Life};
use crate::machine::NodeId;
use crate::network::{Endpoint, HostId, Way};
use crate::outside::Happening;
use crate::sim::Sim;

/// How long a host waits for what does not arrive before it gives up its connections.
const HOST_PATIENCE: Nanos = Nanos::from_secs(3);

/// The directions in which nothing arrives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cut {
    /// From the host to its node.
    ToNode,
    /// From the node to the host.
    ToHost,
    /// Both.
    Both,
}

/// How hosts give up their connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GiveUp {
    /// They close them.
    Close,
    /// They reset them.
    Reset,
    /// Nothing is heard of them any more.
    Vanish,
}

impl GiveUp {
    fn leaving(self) -> Leaving {
        match self {
            Self::Close => Leaving::Closing,
            Self::Reset => Leaving::Resetting,
            Self::Vanish => Leaving::Silently,
        }
    }
}

/// A fault of a machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Upset {
    PowerLoss,
    /// One host and its node do not hear each other.
    Partition,
    /// A node and all its hosts do not hear each other.
    Isolation,
    /// Two nodes do not hear each other.
    NodePartition,
    Pause,
}

impl Sim {
    /// The machines' faults of the plan, in the order in which they come.
    pub(crate) fn draw_upsets(&mut self) -> Vec<Upset> {
        let faults = self.plan.machine_faults;
        let counts = [
            (Upset::PowerLoss, faults.power_losses),
            (Upset::Partition, faults.partitions),
            (Upset::Isolation, faults.isolations),
            (Upset::NodePartition, faults.node_partitions),
            (Upset::Pause, faults.pauses),
        ];
        let several = |(upset, count)| (0..count).map(move |_| upset);
        let mut upsets: Vec<Upset> = counts.into_iter().flat_map(several).collect();
        for last in (1..upsets.len()).rev() {
            upsets.swap(last, self.dice.index(last + 1));
        }
        upsets
    }

    pub(crate) fn upset(&mut self, upset: Upset) {
        let node = self.draw_node();
        match upset {
            Upset::PowerLoss => self.lose_power_of(node),
            Upset::Partition => {
                let host = self.dice.index(self.homes.len());
                let cut = self.dice.pick(&[Cut::ToNode, Cut::ToHost, Cut::Both]);
                let span = self.draw_span();
                self.part(&[host], cut, span);
            }
            Upset::Isolation => {
                let span = self.draw_span();
                self.isolate(node, span);
            }
            Upset::NodePartition => {
                let next = node.next(self.nodes.len());
                let cut = self.dice.pick(&[Cut::ToNode, Cut::ToHost, Cut::Both]);
                let span = self.draw_span();
                self.part_nodes((node, next), cut, span);
            }
            Upset::Pause => {
                let span = Nanos::from_millis(self.dice.between(1, 2_000));
                self.pause(node, span);
            }
        }
    }

    /// Some partitions end before the hosts give up, and some after.
    fn draw_span(&mut self) -> Nanos {
        let longest = self.dice.pick(&[10, 1_000, 12_000]);
        Nanos::from_millis(self.dice.between(1, longest))
    }

    /// For `span`, some hosts and their nodes do not hear each other. Hosts are counted in this order:
    /// workers, misfits, clients, initiators.
    pub fn part(&mut self, hosts: &[usize], cut: Cut, span: Nanos) {
        let ways = |host: &usize| -> Vec<Way> {
            let (host, node) = (Endpoint::Host(HostId(*host)), Endpoint::Node(self.homes[*host]));
            match cut {
                Cut::ToNode => vec![(host, node)],
                Cut::ToHost => vec![(node, host)],
                Cut::Both => vec![(host, node), (node, host)],
            }
        };
        self.part_ways(hosts.iter().flat_map(ways).collect(), span);
    }

    /// For `span`, two nodes do not hear each other. The first is the one that calls.
    pub fn part_nodes(&mut self, (from, to): (NodeId, NodeId), cut: Cut, span: Nanos) {
        let (from, to) = (Endpoint::Node(from), Endpoint::Node(to));
        let ways = match cut {
            Cut::ToNode => vec![(from, to)],
            Cut::ToHost => vec![(to, from)],
            Cut::Both => vec![(from, to), (to, from)],
        };
        self.outside.note("nodes parted", &[]);
        self.part_ways(ways, span);
    }

    fn part_ways(&mut self, ways: Vec<Way>, span: Nanos) {
        let partition = self.outside.network.part(ways);
        self.outside.note("partition", &[]);
        self.outside.agenda.push(self.now().plus(span), Happening::Heal(partition));
    }

    /// For `span`, a node and all its hosts do not hear each other.
    pub fn isolate(&mut self, node: NodeId, span: Nanos) {
        let hosts: Vec<usize> = self.hosts_of(node).collect();
        self.part(&hosts, Cut::Both, span);
    }

    /// For `span`, a node's cores take no turns. Its devices go on, and its sockets and rings fill.
    pub fn pause(&mut self, node: NodeId, span: Nanos) {
        self.outside.note("pause", &[]);
        let until = self.now().plus(span);
        let machine = self.outside.machine_mut(node);
        machine.paused_until = machine.paused_until.max(until);
    }

    /// From now on nothing holds up requests between nodes. So a write over one node for another must begin
    /// before its connection is over, as one on the node itself.
    pub fn expect_swift_nodes(&mut self) {
        self.outside.witness.is_swift = true;
    }

    /// All hosts of a node give up their connections, and come back.
    pub fn give_up(&mut self, node: NodeId, how: GiveUp) {
        for host in self.hosts_of(node) {
            self.leave(host, how.leaving());
        }
    }

    /// The same, and its initiators do not come back: a new login would end their earlier sessions.
    pub fn give_up_for_good(&mut self, node: NodeId, how: GiveUp) {
        let first = self.first_initiator();
        for initiator in self.hosts_of(node).filter_map(|host| host.checked_sub(first)) {
            self.initiators[initiator].retire();
        }
        self.give_up(node, how);
    }

    /// The hosts of a node.
    pub(super) fn hosts_of(&self, node: NodeId) -> impl Iterator<Item = usize> + use<> {
        let homes = self.homes.clone();
        (0..homes.len()).filter(move |host| homes[*host] == node)
    }

    /// A host has waited too long for what does not arrive because of a partition: it gives up its
    /// connections, and comes back. Returns whether it has.
    pub(super) fn gives_up(&mut self, host: usize) -> bool {
        let since = Nanos(self.now().0.saturating_sub(HOST_PATIENCE.0));
        let held = self.outside.network.held_longer(since);
        if !held.iter().any(|link| self.host_at(*link) == Some(host)) {
            return false;
        }
        self.outside.note("host gives up", &[]);
        self.leave(host, Leaving::Resetting);
        true
    }

    /// A host loses all its connections.
    pub(super) fn leave(&mut self, host: usize, how: Leaving) {
        let (first_client, first_initiator) = (self.first_client(), self.first_initiator());
        let first_misfit = self.workers.len();
        let is_here = |life| !matches!(life, Life::Away(_) | Life::Gone);
        let (checks, outside) = (&mut self.checks, &mut self.outside);
        let next = if let Some(worker) = self.workers.get_mut(host) {
            is_here(worker.life).then(|| worker.leave(how, checks, outside)).flatten()
        } else if let Some(misfit) = self.misfits.get_mut(host - first_misfit) {
            misfit.leave(outside);
            None
        } else if let Some(client) = self.clients.get_mut(host - first_client) {
            let common = &mut self.commons[client.route.node.0];
            client.leave(how, common, checks, outside)
        } else {
            let initiator = &mut self.initiators[host - first_initiator];
            is_here(initiator.life).then(|| initiator.leave(how, checks, outside)).flatten()
        };
        next.into_iter().for_each(|at| self.look_at(host, at));
        self.note_home(host);
    }
}
