//! Whether a volume is in use, and by whom: the one rule for every call that destroys data of a volume.
//!
//! In use is a volume with a host or an initiator connected to its subsystem that may use it, or with a
//! client of the direct protocol that has it open, or a seal of it: a program, a mount, a bench, another
//! node. Who is connected but silent counts as well: nothing tells a pause from an end. The files of a
//! volume that the node owns are in use as long as the node serves them.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;

use nearflash_space::{Name, Volume};
use nearflash_units::ByteLen;

use super::Node;
use crate::error::NodeError;
use crate::exports::{host_rights, subsystem_nqn, target_names};
use crate::files::FILES_KEY;
use crate::{Connected, ConnectedClient, ConnectedHost, ConnectedInitiator};

/// The users that a message names; others are counted.
const NAMED_MAX: usize = 3;

/// The data that a call destroys, for a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lost {
    /// Everything.
    All(ByteLen),
    /// The bytes past the new end.
    Past(ByteLen),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(len) => write!(f, "all of its {len}"),
            Self::Past(end) => write!(f, "its data past {end}"),
        }
    }
}

/// The users of a volume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Usage {
    /// Nobody uses it.
    None,
    /// The node serves its files.
    Files,
    /// These peers use it, each in a few words.
    By(Vec<String>),
    /// Somebody who would know does not answer.
    Unknown,
}

impl Usage {
    /// The users, as the node tells them to another one; empty if there are none.
    pub(super) fn told(&self) -> String {
        match self {
            Self::None => String::new(),
            Self::Files => "the owner of its files".to_owned(),
            Self::By(users) => sentence(users),
            Self::Unknown => "somebody unknown (a core does not answer)".to_owned(),
        }
    }

    /// Refuses to destroy data that is in use, unless the caller insists. Files that the node serves are
    /// never destroyed under it.
    pub(super) fn check(&self, name: &Name, lost: Lost, force: bool) -> Result<(), NodeError> {
        let name = name.clone();
        match self {
            Self::Files => Err(NodeError::ServesFiles { name }),
            Self::By(users) if !force => {
                Err(NodeError::InUse { name, by: sentence(users).into(), lost })
            }
            Self::Unknown if !force => Err(NodeError::NobodySaysWho { name, lost }),
            Self::None | Self::By(_) | Self::Unknown => Ok(()),
        }
    }
}

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
        match self.runtime.connected(volume.id) {
            None => Usage::Unknown,
            Some(connected) => match self.users(volume, connected) {
                users if users.is_empty() => Usage::None,
                users => Usage::By(users),
            },
        }
    }

    fn users(&self, volume: &Volume, connected: Connected) -> Vec<String> {
        let recorded = self.served().recorded.clone();
        let (rights, names) = (host_rights(&recorded), target_names(&recorded));
        let nqn = subsystem_nqn(&volume.subsystem);
        let sees = |host: &str| rights.on(Some(host), volume.id).is_some();
        let Connected { hosts, initiators, clients } = connected;
        let is_host = |it: &&ConnectedHost| it.subsystem == nqn && sees(&it.host.to_string());
        let is_initiator = |it: &&ConnectedInitiator| {
            let target = it.target.as_deref().and_then(|iqn| names.subsystem(iqn));
            target == Some(&volume.subsystem) && sees(&it.initiator)
        };
        let is_client = |it: &&ConnectedClient| it.credential.as_deref() != Some(FILES_KEY);
        let hosts = hosts.iter().filter(is_host).map(|it| format!("NVMe host {}", it.host));
        let initiators = initiators.iter().filter(is_initiator);
        let initiators = initiators.map(|it| format!("iSCSI initiator {}", it.initiator));
        let clients = clients.iter().filter(is_client).map(client);
        let users: BTreeSet<String> = hosts.chain(initiators).chain(clients).collect();
        users.into_iter().collect()
    }
}

/// A client in a few words. The connections of a program are not told apart.
fn client(client: &ConnectedClient) -> String {
    let from = match client.from.parse::<SocketAddr>() {
        Ok(address) => address.ip().to_string(),
        Err(_) => client.from.clone(),
    };
    match &client.credential {
        Some(credential) => format!("direct client {from} (credential '{credential}')"),
        None => format!("direct client {from}"),
    }
}

/// The users, as a part of a sentence.
fn sentence(users: &[String]) -> String {
    let named = users[..users.len().min(NAMED_MAX)].join(", ");
    match users.len() - users.len().min(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(from: &str, credential: Option<&str>) -> ConnectedClient {
        ConnectedClient {
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

    #[test]
    fn a_message_names_a_few_users_and_counts_the_rest() {
        let users: Vec<String> = (1..=5).map(|number| format!("u{number}")).collect();
        assert_eq!(sentence(&users[..1]), "u1");
        assert_eq!(sentence(&users[..3]), "u1, u2, u3");
        assert_eq!(sentence(&users), "u1, u2, u3 and 2 more");
    }

    #[test]
    fn force_destroys_what_is_in_use_and_never_what_the_node_itself_serves() {
        let (name, lost) = ("b".parse().unwrap(), Lost::All(ByteLen(1 << 20)));
        let by = Usage::By(vec!["NVMe host nqn.x".to_owned()]);
        let refused = by.check(&name, lost, false).unwrap_err().to_string();
        assert!(refused.contains("NVMe host nqn.x") && refused.contains("all of its 1MiB"));
        assert!(refused.contains("--force"), "{refused}");
        for usage in [by, Usage::Unknown, Usage::None] {
            assert!(usage.check(&name, lost, true).is_ok(), "{usage:?}");
        }
        assert!(Usage::Unknown.check(&name, lost, false).is_err());
        assert!(Usage::None.check(&name, lost, false).is_ok());
        assert!(Usage::Files.check(&name, lost, true).is_err());
    }
}
