//! A network of machines on this one, whose links are cut in one direction or in both. Needs root.
//!
//! Each machine has a network namespace with one interface, at a bridge in the namespace of this process.
//! A link is cut in one direction by a false hardware address for the other machine: its packets leave, and
//! nobody takes them. So nothing is configured outside of what this module has made, and everything is
//! removed at the end.

use std::process::{Command, Stdio};

use crate::machine::Machine;

/// A hardware address that no interface has.
const NOBODY: &str = "02:00:00:00:00:01";

/// Machines at one bridge.
#[derive(Debug)]
pub struct Network {
    id: String,
    count: usize,
    /// The first bytes of the addresses.
    prefix: String,
}

impl Network {
    /// Makes the bridge and the namespaces.
    ///
    /// # Panics
    /// When the system refuses; this needs root.
    pub fn new(count: usize) -> Self {
        let pid = std::process::id();
        // 198.18.0.0/15 is for measurements.
        let prefix = format!("198.18.{}", pid % 250 + 1);
        let network = Self { id: format!("nf{}", pid % 100_000), count, prefix };
        let bridge = network.bridge();
        ip(&["link", "add", &bridge, "type", "bridge"]);
        ip(&["addr", "add", &format!("{}.254/24", network.prefix), "dev", &bridge]);
        ip(&["link", "set", &bridge, "up"]);
        (0..count).for_each(|number| network.add(number));
        network
    }

    fn add(&self, number: usize) {
        let (namespace, link) = (self.namespace(number), format!("{}v{number}", self.id));
        let address = format!("{}/24", self.address(number));
        ip(&["netns", "add", &namespace]);
        ip(&["link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", &namespace]);
        ip(&["link", "set", &link, "master", &self.bridge(), "up"]);
        ip(&["-n", &namespace, "addr", "add", &address, "dev", "eth0"]);
        ip(&["-n", &namespace, "link", "set", "eth0", "up"]);
        ip(&["-n", &namespace, "link", "set", "lo", "up"]);
    }

    fn bridge(&self) -> String {
        format!("{}br", self.id)
    }

    fn namespace(&self, number: usize) -> String {
        format!("{}-{number}", self.id)
    }

    fn address(&self, number: usize) -> String {
        format!("{}.{}", self.prefix, number + 1)
    }

    /// The machines.
    pub fn machines(&self) -> Vec<Machine> {
        let machine = |number| Machine::within(&self.namespace(number), &self.address(number));
        (0..self.count).map(machine).collect()
    }

    /// Nothing that `from` sends reaches `to`.
    ///
    /// # Panics
    /// When the system refuses.
    pub fn cut(&self, from: usize, to: usize) {
        let (namespace, to) = (self.namespace(from), self.address(to));
        let neighbour = ["neigh", "replace", &to, "lladdr", NOBODY, "dev", "eth0"];
        ip(&[&["-n", &namespace], &neighbour[..], &["nud", "permanent"]].concat());
    }

    /// Ends [`Self::cut`].
    ///
    /// # Panics
    /// When the system refuses.
    pub fn mend(&self, from: usize, to: usize) {
        let (namespace, to) = (self.namespace(from), self.address(to));
        ip(&["-n", &namespace, "neigh", "del", &to, "dev", "eth0"]);
    }

    /// Takes the link of a machine down, or up again.
    ///
    /// # Panics
    /// When the system refuses.
    pub fn set_link(&self, number: usize, is_up: bool) {
        let state = if is_up { "up" } else { "down" };
        ip(&["-n", &self.namespace(number), "link", "set", "eth0", state]);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let remove = |arguments: &[&str]| {
            let mut command = Command::new("ip");
            // It may not have been made.
            let _ = command.args(arguments).stderr(Stdio::null()).status();
        };
        for number in 0..self.count {
            remove(&["link", "del", &format!("{}v{number}", self.id)]);
            remove(&["netns", "del", &self.namespace(number)]);
        }
        remove(&["link", "del", &self.bridge()]);
    }
}

fn ip(arguments: &[&str]) {
    let status = Command::new("ip").args(arguments).status().expect("there is the program ip");
    assert!(status.success(), "ip {}: run this as root", arguments.join(" "));
}
