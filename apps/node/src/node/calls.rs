//! The calls that change and list rights. Each parses its values and draws its secrets. The rules are those of
//! `core/access` and `core/planner`, which change a copy of the records. A change is effective when it is answered:
//! every core has adopted it, and no request that it forbids is under way.

mod access;
mod chap;
mod hosts;
mod tokens;

pub(super) use tokens::scope_of;

use std::str::FromStr;
use std::sync::Arc;

use nearflash_config::ValueError;
use nearflash_nvme::DISCOVERY_NQN;
use nearflash_planner::Refusal;
use nearflash_planner::access::check_first_list;
use nearflash_publish::Records;
use zeroize::Zeroizing;

use super::quiesce::PATIENCE;
use super::shared_list::{self, Changed};
use super::{Node, now};
use crate::Ticket;
use crate::error::NodeError;

/// A value of a call.
fn parsed<T: FromStr>(text: &str) -> Result<T, NodeError>
where
    ValueError: From<T::Err>,
{
    Ok(text.parse().map_err(ValueError::from)?)
}

/// A value that a call may leave out.
fn parsed_or<T: FromStr + Default>(text: Option<&str>) -> Result<T, NodeError>
where
    ValueError: From<T::Err>,
{
    text.map_or_else(|| Ok(T::default()), parsed)
}

/// A secret of so many random bytes.
fn drawn<const LEN: usize>() -> Result<Zeroizing<[u8; LEN]>, NodeError> {
    let mut bytes = Zeroizing::new([0; LEN]);
    fill_random(bytes.as_mut_slice())?;
    Ok(bytes)
}

/// Fills the buffer with random bytes from the kernel.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), NodeError> {
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        let count = rustix::rand::getrandom(&mut bytes[filled..], flags);
        let failed = |errno: rustix::io::Errno| NodeError::System {
            action: "generate a secret",
            source: errno.into(),
        };
        filled += count.map_err(failed)?;
    }
    Ok(())
}

impl Node {
    /// Makes a change of access on a copy, and publishes it to the cores. It is effective when this returns: no
    /// request that it forbids is under way, except on the nodes that are named.
    pub(super) fn change_access<T>(
        &self,
        change: impl Fn(&mut Records) -> Result<T, Refusal>,
    ) -> Result<Changed<T>, NodeError> {
        if shared_list::is_shared(self) {
            return shared_list::change(self, change);
        }
        let one = self.one_change_of_a_caller()?;
        let mut fresh = self.copy();
        let changed = change(&mut fresh)?;
        self.check_first_list(&fresh)?;
        self.record(&mut fresh)?;
        let are_files = fresh.grants != self.served().recorded.grants;
        let ticket = self.show_access(fresh);
        drop(one);
        self.wait_for(&ticket)?;
        if are_files && !self.end_earlier_rights_on_files() {
            return Err(NodeError::NotQuiesced);
        }
        Ok((changed, Vec::new()))
    }

    /// Publishes the access of these records. The caller holds the lock of changes.
    pub(super) fn show_access(&self, fresh: Records) -> Ticket {
        let (mut next, shown_at, old) = (self.next(), now(), self.copy());
        let before = Arc::clone(&next.rights);
        next.keyed = Arc::new(fresh.hosts.keyed());
        if fresh.host_rights() != *before {
            next.follow_rights(&fresh);
        } else if fresh.accounts != old.accounts {
            next.follow_initiators(&fresh);
        }
        let are_grants = fresh.grants != old.grants;
        if are_grants {
            next.follow_clients(&fresh, shown_at);
        }
        let served = fresh.space.served().map(|volume| volume.id).collect::<Vec<_>>();
        let quiesce = next.rights.reduced_since(&before, served).to_vec();
        let tls_hosts = (fresh.hosts != old.hosts).then(|| fresh.hosts.tls());
        // Before the cores ask for the keys of a new host.
        self.adopt(fresh);
        if are_grants {
            self.served().shown_at = shown_at;
        }
        tls_hosts.into_iter().for_each(|hosts| self.cores.set_tls_hosts(hosts));
        self.cores.serve(next, Vec::new(), quiesce)
    }

    /// Calls on files have the rights of the time at which they arrive, some wait for a thread, and some
    /// give seals. Returns `false` if some take too long.
    pub(super) fn end_earlier_rights_on_files(&self) -> bool {
        self.files.get().is_none_or(|owner| owner.end_earlier_rights(PATIENCE))
    }

    /// Asks the cores for the connected hosts only if the rule for hosts without a list changes.
    pub(super) fn check_first_list(&self, fresh: &Records) -> Result<(), Refusal> {
        let (was, unlisted) = (self.served().recorded.unlisted(), fresh.unlisted());
        if was == unlisted {
            return Ok(());
        }
        let status = self.cores.status();
        let hosts = status.hosts.iter().filter(|it| it.nqn != DISCOVERY_NQN);
        let hosts = hosts.map(|it| it.host.clone());
        let initiators = status.initiators.iter().filter(|it| it.target.is_some());
        let initiators = initiators.map(|it| it.initiator.clone());
        check_first_list((was, unlisted), &fresh.host_volumes, hosts.chain(initiators))
    }
}
