//! Who uses a volume: the question to every core, before a call destroys data. The rule is in
//! `core/planner/src/usage.rs`.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use nearflash_api::{ClientInfo, HostInfo, InitiatorInfo};
use nearflash_planner::usage::Usage;
use nearflash_publish::{FILES_KEY, subsystem_nqn};
use nearflash_space::Volume;

use super::Node;
use crate::runtime::CoresStatus;

impl Node {
    /// The users of a volume. It asks every core, so it must not be called under the lock of changes: other
    /// changes do not wait for a core that hangs. With `force`, no core is asked.
    pub(super) fn usage(&self, volume: &Volume, force: bool) -> Usage {
        if self.files.get().is_some_and(|owner| owner.state_of(volume.id).is_some()) {
            return Usage::Files;
        }
        if force {
            return Usage::None;
        }
        match self.cores.connected(volume.id) {
            None => Usage::Unknown,
            Some(connected) => match self.users(volume, connected) {
                users if users.is_empty() => Usage::None,
                users => Usage::By(users),
            },
        }
    }

    fn users(&self, volume: &Volume, connected: CoresStatus) -> Vec<String> {
        let recorded = self.served().recorded.clone();
        let (rights, names) = (recorded.host_rights(), recorded.target_names());
        let nqn = subsystem_nqn(&volume.subsystem).to_string();
        let sees = |host: &str| rights.on(Some(host), volume.id).is_some();
        let CoresStatus { hosts, initiators, clients, .. } = connected;
        let is_host = |it: &&HostInfo| it.nqn == nqn && sees(&it.host);
        let is_initiator = |it: &&InitiatorInfo| {
            let target = it.target.as_deref().and_then(|iqn| names.subsystem(iqn));
            target == Some(&volume.subsystem) && sees(&it.initiator)
        };
        let is_client = |it: &&ClientInfo| it.credential.as_deref() != Some(FILES_KEY);
        let hosts = hosts.iter().filter(is_host).map(|it| format!("NVMe host {}", it.host));
        let initiators = initiators.iter().filter(is_initiator);
        let initiators = initiators.map(|it| format!("iSCSI initiator {}", it.initiator));
        let clients = clients.iter().filter(is_client).map(client);
        let users: BTreeSet<String> = hosts.chain(initiators).chain(clients).collect();
        users.into_iter().collect()
    }
}

/// A client in a few words. The connections of a program are not told apart.
fn client(client: &ClientInfo) -> String {
    let from = match client.from.parse::<SocketAddr>() {
        Ok(address) => address.ip().to_string(),
        Err(_) => client.from.clone(),
    };
    match &client.credential {
        Some(credential) => format!("direct client {from} (credential '{credential}')"),
        None => format!("direct client {from}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(from: &str, credential: Option<&str>) -> ClientInfo {
        ClientInfo {
            from: from.to_owned(),
            credential: credential.map(str::to_owned),
            is_in: true,
            core: 0,
            in_flight: 0,
        }
    }

    #[test]
    fn the_connections_of_a_machine_are_one_user() {
        let one = client(&from("192.0.2.7:5000", Some("app")));
        assert_eq!(one, "direct client 192.0.2.7 (credential 'app')");
        assert_eq!(client(&from("192.0.2.7:5001", Some("app"))), one);
        let local = client(&from("process 12 of user 1000", None));
        assert_eq!(local, "direct client process 12 of user 1000");
    }
}
