//! Slices and etcd that are restored from copies.

use std::cell::RefCell;
use std::fs;
use std::time::Duration;

use nearflash_node_tests::{Machine, copy_file, copy_folder, freeze};
use rustix::process::{Signal, kill_process};

use crate::{NODES, Torture};

/// The copies of the folder of an etcd: from before a fault, and from before it went back.
const OLDER: &str = "older";
const NEWEST: &str = "newest";

impl Torture<'_> {
    /// A node is killed, and its slice is restored from a copy that lacks its last writes.
    pub(crate) fn lose_later_writes(&mut self, node: usize) {
        let place = &self.machines[node].place;
        let (slice, copy) = (place.path("slice.img"), place.path("copy.img"));
        self.nodes.node(node).freeze();
        copy_file(&slice, &copy).unwrap();
        self.nodes.signal(node, Signal::CONT);
        std::thread::sleep(self.random.millis(500, 1500));
        self.nodes.crash(node);
        // Until then, the cluster may count on the slice: see docs/cluster.md, Backups of slices.
        self.must("the membership without the node", |it| it.is_dropped(node));
        copy_file(&copy, &slice).unwrap();
    }

    /// A node is killed, and perhaps returns. Then etcd goes back to the time before, and no node believes it.
    pub(crate) fn store_goes_back(&mut self, node: usize) {
        self.keep_store();
        self.nodes.crash(node);
        self.must("the membership without the node", |it| it.is_dropped(node));
        std::thread::sleep(self.random.millis(200, 1000));
        if self.random.coin() {
            self.nodes.serve(node);
            assert!(self.wait_until_whole("the return before etcd goes back"));
            // A primary that has just added a replica may not have noted it: see docs/consistency.md, Exceptions.
            std::thread::sleep(Duration::from_millis(500));
        }
        self.put_store_back(OLDER, Some(NEWEST));
        self.must("the verdict on an older etcd", |it| {
            it.running().all(|node| it.suspects_etcd(node))
        });
    }

    /// Etcd has its newest state again, and the nodes that have run go on with it.
    pub(crate) fn store_is_the_newest_again(&mut self, node: usize) {
        self.put_store_back(NEWEST, None);
        self.must("the newest etcd", |it| it.running().all(|node| !it.suspects_etcd(node)));
        if !self.nodes.runs(node) {
            self.nodes.serve(node);
        }
        self.must_run_etcd();
    }

    /// All nodes are killed, an operator accepts the older etcd, and they start.
    pub(crate) fn accept_the_older_store(&mut self) {
        // In order, an end could take half a minute: a request may wait for a node that has gone, and nobody can change
        // the membership.
        for node in (0..NODES).filter(|node| self.nodes.runs(*node)).collect::<Vec<_>>() {
            self.nodes.crash(node);
        }
        // In the older state, the nodes run until their leases are over.
        let accept = ["accept-restored", "--force", "--yes"];
        let has_etcd = self.machines.iter().find(|machine| machine.running().is_some());
        let (machine, refusal) = (has_etcd.unwrap(), RefCell::default());
        let accepts = |_: &Self| {
            let output = machine.run(&accept);
            refusal.replace(String::from_utf8_lossy(&output.stderr).into_owned());
            output.status.success()
        };
        let is_accepted = self.wait("an operator accepts the older etcd", accepts);
        assert!(is_accepted, "{}", refusal.borrow());
        (0..NODES).for_each(|node| self.nodes.serve(node));
        self.must_run_etcd();
    }

    /// Whether no mirror counts on the replicas of a node.
    fn is_dropped(&self, node: usize) -> bool {
        let mirrors = self.nodes.mirrors(self.nodes.other(node));
        mirrors.iter().flat_map(|it| &it.replicas).all(|it| it.node != node || !it.is_in_sync)
    }

    fn running(&self) -> impl Iterator<Item = usize> {
        (0..NODES).filter(|node| self.nodes.runs(*node))
    }

    /// Whether a node has found that etcd went back.
    fn suspects_etcd(&self, node: usize) -> bool {
        let status = self.nodes.node(node).command(&["status"]);
        let reason = status["cluster"]["reason"].as_str().unwrap_or_default();
        reason.contains("restored from an older snapshot")
    }

    fn must(&self, what: &str, is_true: impl Fn(&Self) -> bool) {
        assert!(self.wait(what, is_true), "{what}");
    }

    /// Waits until each node that runs has its etcd.
    fn must_run_etcd(&self) {
        self.must("every etcd", |it| {
            it.running().all(|node| it.machines[node].running().is_some())
        });
    }

    /// Stops every etcd at one moment.
    fn freeze_store(&self) {
        self.must_run_etcd();
        self.machines.iter().filter_map(Machine::running).for_each(freeze);
    }

    fn signal_store(&self, signal: Signal) {
        let pids = self.machines.iter().filter_map(Machine::running);
        pids.for_each(|pid| kill_process(pid, signal).unwrap());
    }

    /// Copies what every etcd has.
    fn keep_store(&self) {
        for copy in self.machines.iter().flat_map(|it| [OLDER, NEWEST].map(|name| it.etcd(name))) {
            let _ = fs::remove_dir_all(copy); // there may be none
        }
        self.freeze_store();
        for machine in self.machines {
            copy_folder(&machine.etcd("data"), &machine.etcd(OLDER)).unwrap();
        }
        self.signal_store(Signal::CONT);
    }

    /// Every etcd is killed, and has the data of a copy when its node starts it again. Its present data are kept.
    fn put_store_back(&self, copy: &str, kept: Option<&str>) {
        self.freeze_store();
        for machine in self.machines {
            let data = machine.etcd("data");
            match kept {
                Some(kept) => fs::rename(&data, machine.etcd(kept)).unwrap(),
                None => fs::remove_dir_all(&data).unwrap(),
            }
            fs::rename(machine.etcd(copy), data).unwrap();
        }
        self.signal_store(Signal::KILL);
    }
}
