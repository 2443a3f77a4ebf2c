//! Whether a volume is in use, and by whom: the one rule for every call that destroys data of a volume.
//!
//! In use is a volume with a host or an initiator connected to its subsystem that may use it, or with a
//! client of the direct protocol that has it open, or a seal of it: a program, a mount, a bench, another
//! node. Who is connected but silent counts as well: nothing tells a pause from an end. The files of a
//! volume that the node owns are in use as long as the node serves them.

use nearflash_records::users::Answers;
use nearflash_space::Name;

use crate::refusal::{Lost, Refusal};

/// The users that a message names; others are counted.
const NAMED_MAX: usize = 3;

/// The users of a volume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Usage {
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
    pub fn told(&self) -> String {
        match self {
            Self::None => String::new(),
            Self::Files => "the owner of its files".to_owned(),
            Self::By(users) => sentence(users),
            Self::Unknown => "somebody unknown (a core does not answer)".to_owned(),
        }
    }

    /// Refuses to destroy data that is in use, unless the caller insists. Files that the node serves are
    /// never destroyed under it.
    ///
    /// # Errors
    /// When the volume is in use, or nobody says so.
    pub fn check(&self, name: &Name, lost: Lost, force: bool) -> Result<(), Refusal> {
        let name = name.clone();
        match self {
            Self::Files => Err(Refusal::ServesFiles { name }),
            Self::By(users) if !force => {
                Err(Refusal::InUse { name, by: sentence(users).into(), lost })
            }
            Self::Unknown if !force => Err(Refusal::NobodySaysWho { name, lost }),
            Self::None | Self::By(_) | Self::Unknown => Ok(()),
        }
    }
}

/// Refuses to destroy data that other nodes use, or of which a node that runs says nothing.
///
/// # Errors
/// When there is such a node.
pub fn check_elsewhere(found: &Answers, name: &Name, lost: Lost) -> Result<(), Refusal> {
    let name = name.clone();
    match (&found.users[..], &found.silent[..]) {
        ([], []) => Ok(()),
        ([], [node, ..]) => Err(Refusal::NodeSaysNothing { name, node: node.clone(), lost }),
        (users, _) => {
            let by: Vec<String> =
                users.iter().map(|(node, users)| format!("{users} at node {node}")).collect();
            Err(Refusal::InUse { name, by: by.join("; ").into(), lost })
        }
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
    use nearflash_units::ByteLen;

    use super::*;

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

    #[test]
    fn users_elsewhere_are_named_with_their_nodes_and_a_node_that_does_not_answer_by_name() {
        let name = |text: &str| text.parse::<Name>().unwrap();
        let check =
            |found: Answers| check_elsewhere(&found, &name("data"), Lost::All(ByteLen(1 << 20)));
        assert!(check(Answers::default()).is_ok());
        let users = |node: &str, users: &str| (name(node), users.to_owned());
        let by = vec![users("n2", "NVMe host a, NVMe host b"), users("n3", "NVMe host c")];
        let refused = check(Answers { users: by, silent: vec![name("n4")] }).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "volume 'data' is in use by NVMe host a, NVMe host b at node n2; NVMe host c at node n3: \
             disconnect these first, or add --force, which destroys all of its 1MiB under them"
        );
        let refused = check(Answers { users: Vec::new(), silent: vec![name("n4")] }).unwrap_err();
        let refused = refused.to_string();
        assert!(
            refused.contains("at node 'n4', which runs") && refused.contains("--force"),
            "{refused}"
        );
    }
}
