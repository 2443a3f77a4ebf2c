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

use nearflash_access::{Accounts, Grants, Tokens};
use nearflash_config::ValueError;
use nearflash_nvme::DISCOVERY_NQN;
use nearflash_planner::Refusal;
use nearflash_planner::access::check_first_list;
use nearflash_publish::Records;
use nearflash_space::Space;
use zeroize::Zeroizing;

use super::quiesce::PATIENCE;
use super::{Node, now};
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
    /// Makes a change on a copy; if that succeeds, records it and publishes it to the cores.
    fn change_grants<T>(
        &self,
        change: impl FnOnce(&mut Grants, &Space) -> Result<T, Refusal>,
    ) -> Result<T, NodeError> {
        let one = self.one_change_of_a_caller()?;
        let mut fresh = self.copy();
        let changed = change(&mut fresh.grants, &fresh.space)?;
        self.record(&mut fresh)?;
        let (mut next, shown_at) = (self.next(), now());
        next.follow_clients(&fresh, shown_at);
        let ticket = self.cores.serve(next, Vec::new(), Vec::new());
        self.replace(fresh, shown_at);
        drop(one);
        self.wait_for(&ticket)?;
        if !self.end_earlier_rights_on_files() {
            return Err(NodeError::NotQuiesced);
        }
        Ok(changed)
    }

    /// Calls on files have the rights of the time at which they arrive, some wait for a thread, and some
    /// give seals. Returns `false` if some take too long.
    pub(super) fn end_earlier_rights_on_files(&self) -> bool {
        self.files.get().is_none_or(|owner| owner.end_earlier_rights(PATIENCE))
    }

    /// Likewise. The sessions of a removed user have ended when this returns.
    fn change_accounts<T>(
        &self,
        change: impl FnOnce(&mut Accounts) -> Result<T, Refusal>,
    ) -> Result<T, NodeError> {
        let one = self.one_change_of_a_caller()?;
        let mut fresh = self.copy();
        let changed = change(&mut fresh.accounts)?;
        self.record(&mut fresh)?;
        let mut next = self.next();
        next.follow_initiators(&fresh);
        let ticket = self.cores.serve(next, Vec::new(), Vec::new());
        self.adopt(fresh);
        drop(one);
        self.wait_for(&ticket)?;
        Ok(changed)
    }

    /// Likewise. Authentications use the new keys; a host whose keys were added or removed is disconnected. One
    /// whose volumes changed stays connected, and is told.
    fn change_hosts<T>(
        &self,
        change: impl FnOnce(&mut Records) -> Result<T, Refusal>,
    ) -> Result<T, NodeError> {
        let one = self.one_change_of_a_caller()?;
        let mut fresh = self.copy();
        let changed = change(&mut fresh)?;
        self.check_first_list(&fresh)?;
        self.record(&mut fresh)?;
        let (mut next, tls_hosts) = (self.next(), fresh.hosts.tls());
        let before = Arc::clone(&next.rights);
        next.keyed = Arc::new(fresh.hosts.keyed());
        if fresh.host_rights() != *before {
            next.follow_rights(&fresh);
        }
        let served = fresh.space.served().map(|volume| volume.id).collect::<Vec<_>>();
        let quiesce = next.rights.reduced_since(&before, served).to_vec();
        // Before the cores ask for the keys of a new host.
        self.adopt(fresh);
        self.cores.set_tls_hosts(tls_hosts);
        let ticket = self.cores.serve(next, Vec::new(), quiesce);
        drop(one);
        self.wait_for(&ticket)?;
        Ok(changed)
    }

    /// Asks the cores for the connected hosts only if the rule for hosts without a list changes.
    fn check_first_list(&self, fresh: &Records) -> Result<(), Refusal> {
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

    /// Likewise, where no core needs to know. The next request is checked against the new tokens.
    fn change_tokens<T>(
        &self,
        change: impl FnOnce(&mut Tokens) -> Result<T, Refusal>,
    ) -> Result<T, NodeError> {
        let _one = self.one_change_of_a_caller()?;
        let mut fresh = self.copy();
        let changed = change(&mut fresh.tokens)?;
        self.record(&mut fresh)?;
        self.adopt(fresh);
        Ok(changed)
    }
}
