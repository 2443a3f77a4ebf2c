//! The pool bytes that connections and their hosts hold on one core.
//!
//! A share of the pool is a host's, however many connections it has. A connection that holds
//! nothing always gets what its next command needs, so that no connection waits for another one
//! that has stopped reading.
//!
//! Invariant: only charged bytes are given back. A violation would let one host take the share of
//! others, so it ends the process.

use std::collections::BTreeMap;
use std::sync::Arc;

use nearflash_request::{BufferId, VolumeId};
use nearflash_units::ByteLen;
use slab::Slab;

use crate::need::Need;
use crate::pool::{Pool, Reserve};
use crate::stamp::MeterId;

/// Names the account of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AccountId(pub(crate) usize);

/// Names a host on its core.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct HostId(usize);

#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// Payload received, answers not yet sent, and what the engine takes for its requests.
    bytes: u64,
    /// Requests in the engine that take scratch.
    scratches: usize,
}

/// The most meters that a connection keeps. One that uses more volumes in turn looks some of them up
/// again.
const METERS_KEPT_MAX: usize = 64;

#[derive(Debug)]
struct Account {
    held: Held,
    /// Requests in the engine that brought payload.
    payloads: usize,
    /// The reserve that it may take buffers from.
    reserve: Option<Reserve>,
    host: HostId,
    /// Its host has proved its name, or must before it asks for anything.
    is_proved: bool,
    /// Indexed by the lowest bits of the volume's number. The length is a power of two, or 0.
    meters: Vec<Option<(VolumeId, MeterId)>>,
}

#[derive(Debug)]
struct Host {
    held: Held,
    accounts: usize,
    /// `None` for a connection whose host is unknown.
    name: Option<Arc<str>>,
}

/// The accounts of one core's connections.
#[derive(Debug, Default)]
pub struct Accounts {
    accounts: Slab<Account>,
    hosts: Slab<Host>,
    names: BTreeMap<Arc<str>, HostId>,
    /// Counts the events after which a connection holds less, or has another share.
    returns: u64,
}

impl Accounts {
    /// Opens an account for a connection of the named host, or of an unknown one.
    pub fn open(&mut self, name: Option<&str>) -> AccountId {
        let host = self.enter(name);
        let (held, meters) = (Held::default(), Vec::new());
        let account = Account { held, payloads: 0, reserve: None, host, is_proved: false, meters };
        AccountId(self.accounts.insert(account))
    }

    /// The host of the connection has proved its name, or must before it asks for anything.
    pub fn set_proved(&mut self, id: AccountId) {
        self.accounts[id.0].is_proved = true;
    }

    /// Whether it has.
    pub(crate) fn is_proved(&self, id: AccountId) -> bool {
        self.accounts[id.0].is_proved
    }

    /// The connection is another node's, and its requests are on faces of mirrors.
    pub fn set_reserve(&mut self, id: AccountId, reserve: Reserve) {
        self.returns += 1;
        self.accounts[id.0].reserve = Some(reserve);
    }

    /// Takes a buffer from the reserve of the connection, if it has one.
    #[inline]
    pub(crate) fn take_reserved(
        &self,
        id: AccountId,
        len: ByteLen,
        pool: &mut Pool,
    ) -> Option<BufferId> {
        let reserve = self.accounts[id.0].reserve?;
        pool.take_reserved(reserve, len)
    }

    /// The host of the connection has become known.
    pub fn join(&mut self, id: AccountId, name: &str) {
        self.returns += 1;
        let Account { held, host, .. } = &self.accounts[id.0];
        let (held, host) = (*held, *host);
        let fresh = self.enter(Some(name));
        self.leave(host, held);
        let host = &mut self.hosts[fresh.0].held;
        host.bytes += held.bytes;
        host.scratches += held.scratches;
        let account = &mut self.accounts[id.0];
        (account.host, account.meters) = (fresh, Vec::new());
    }

    /// Records that the connection has returned everything except for the buffers in the engine.
    pub fn clear(&mut self, id: AccountId) {
        self.returns += 1;
        let account = &mut self.accounts[id.0];
        let held = std::mem::take(&mut account.held);
        self.hosts[account.host.0].held.take(held);
    }

    /// The connection has left this core.
    pub fn close(&mut self, id: AccountId) {
        self.returns += 1;
        let Account { held, host, .. } = self.accounts.remove(id.0);
        self.leave(host, held);
    }

    /// The pool bytes that the connection holds.
    #[inline]
    pub fn held(&self, id: AccountId) -> ByteLen {
        ByteLen(self.accounts[id.0].held.bytes)
    }

    /// A buffer is taken.
    #[inline]
    pub fn charge(&mut self, id: AccountId, len: ByteLen) {
        let account = &mut self.accounts[id.0];
        account.held.bytes += len.0;
        self.hosts[account.host.0].held.bytes += len.0;
    }

    /// A buffer is back in the pool.
    #[inline]
    pub fn give_back(&mut self, id: AccountId, len: ByteLen) {
        self.give_back_request(id, len, false);
    }

    /// A request has left the engine.
    #[inline]
    pub fn give_back_request(&mut self, id: AccountId, len: ByteLen, had_scratch: bool) {
        if len.0 == 0 && !had_scratch {
            return;
        }
        self.returns += 1;
        let back = Held { bytes: len.0, scratches: usize::from(had_scratch) };
        let account = &mut self.accounts[id.0];
        account.held.take(back);
        self.hosts[account.host.0].held.take(back);
    }

    /// Counts the returns. A request that waits for its host's share may begin when this has
    /// changed.
    #[inline]
    pub(crate) fn returns(&self) -> u64 {
        self.returns
    }

    /// Whether the share of the connection's host allows `more` pool bytes.
    ///
    /// Each host may hold as much as half of the free bytes. So hosts that keep their share
    /// (because they stopped reading) always leave room for one more.
    #[inline]
    pub fn may_hold(&self, id: AccountId, more: ByteLen, pool: &Pool) -> bool {
        let Account { held, host, .. } = &self.accounts[id.0];
        held.bytes == 0 || self.hosts[host.0].held.bytes + more.0 <= pool.free_len().0 / 2
    }

    /// Whether the share of the connection's host allows what a request needs.
    ///
    /// One request at a time may take scratch even beyond the share: it may hold the very buffers
    /// that others wait for. The engine, which has a reserve for this, completes every such request
    /// without the peer.
    #[inline]
    pub(crate) fn may_take(&self, id: AccountId, need: Need, pool: &Pool) -> bool {
        let has_no_scratch = || self.hosts[self.accounts[id.0].host.0].held.scratches == 0;
        let is_only_scratch = matches!(need, Need::Scratch(_)) && has_no_scratch();
        is_only_scratch || self.may_hold(id, need.len(), pool)
    }

    /// A request goes to the engine.
    #[inline]
    pub(crate) fn charge_request(&mut self, id: AccountId, need: Need) {
        let account = &mut self.accounts[id.0];
        let scratches = usize::from(matches!(need, Need::Scratch(_)));
        for held in [&mut account.held, &mut self.hosts[account.host.0].held] {
            held.bytes += need.len().0;
            held.scratches += scratches;
        }
    }

    /// A request with payload goes to the engine.
    #[inline]
    pub(crate) fn note_payload(&mut self, id: AccountId) {
        self.accounts[id.0].payloads += 1;
    }

    /// A request with payload has left the engine.
    #[inline]
    pub fn end_payload(&mut self, id: AccountId) {
        self.returns += 1;
        self.accounts[id.0].payloads -= 1;
    }

    /// Whether the engine has requests of the connection that brought payload.
    pub(crate) fn awaits_payloads(&self, id: AccountId) -> bool {
        self.accounts[id.0].payloads > 0
    }

    /// The host of a connection.
    pub(crate) fn host_of(&self, id: AccountId) -> HostId {
        self.accounts[id.0].host
    }

    /// The name of a connection's host.
    pub(crate) fn name_of(&self, id: AccountId) -> Option<&Arc<str>> {
        self.hosts[self.host_of(id).0].name.as_ref()
    }

    /// The meter that the connection keeps for a volume.
    #[inline]
    pub(crate) fn meter(&self, id: AccountId, volume: VolumeId) -> Option<MeterId> {
        let kept = &self.accounts[id.0].meters;
        let (of, meter) = (*kept.get(place_of(volume, kept))?)?;
        (of == volume).then_some(meter)
    }

    /// The connection keeps a meter, perhaps instead of another one.
    pub(crate) fn keep_meter(&mut self, id: AccountId, volume: VolumeId, meter: MeterId) {
        let kept = &mut self.accounts[id.0].meters;
        // Doubled until it has a place of its own.
        while kept.len() < METERS_KEPT_MAX
            && kept.get(place_of(volume, kept)).is_none_or(Option::is_some)
        {
            let doubled = vec![None; (2 * kept.len()).max(1)];
            for (volume, meter) in std::mem::replace(kept, doubled).into_iter().flatten() {
                let place = place_of(volume, kept);
                kept[place] = Some((volume, meter));
            }
        }
        let place = place_of(volume, kept);
        kept[place] = Some((volume, meter));
    }

    /// No connection keeps a meter any more.
    pub(crate) fn forget_meters(&mut self) {
        self.accounts.iter_mut().for_each(|(_, account)| account.meters = Vec::new());
    }

    fn enter(&mut self, name: Option<&str>) -> HostId {
        let known = name.and_then(|name| self.names.get(name)).copied();
        let id = known.unwrap_or_else(|| {
            let name: Option<Arc<str>> = name.map(Into::into);
            let host = Host { held: Held::default(), accounts: 0, name: name.clone() };
            let id = HostId(self.hosts.insert(host));
            self.names.extend(name.map(|name| (name, id)));
            id
        });
        self.hosts[id.0].accounts += 1;
        id
    }

    fn leave(&mut self, id: HostId, held: Held) {
        let host = &mut self.hosts[id.0];
        host.held.take(held);
        host.accounts -= 1;
        if host.accounts == 0
            && let Some(name) = self.hosts.remove(id.0).name
        {
            self.names.remove(&name);
        }
    }
}

#[inline]
fn place_of<T>(VolumeId(volume): VolumeId, kept: &[T]) -> usize {
    volume as usize & kept.len().wrapping_sub(1)
}

impl Held {
    #[inline]
    fn take(&mut self, back: Self) {
        assert!(back.bytes <= self.bytes, "{} given back, {} held", back.bytes, self.bytes);
        assert!(back.scratches <= self.scratches, "scratch is given back once");
        self.bytes -= back.bytes;
        self.scratches -= back.scratches;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: ByteLen = ByteLen(4096);

    #[test]
    fn an_account_is_empty_when_all_is_given_back() {
        let mut accounts = Accounts::default();
        let id = accounts.open(None);
        accounts.charge(id, PAGE);
        accounts.charge_request(id, Need::Scratch(PAGE));
        assert_eq!(accounts.held(id), ByteLen(8192));
        accounts.give_back_request(id, PAGE, true);
        accounts.give_back(id, PAGE);
        assert_eq!(accounts.held(id), ByteLen(0));
    }

    #[test]
    #[should_panic(expected = "given back")]
    fn what_was_not_charged_is_not_given_back() {
        let mut accounts = Accounts::default();
        let id = accounts.open(None);
        accounts.charge(id, PAGE);
        accounts.give_back(id, ByteLen(8192));
    }

    #[test]
    #[should_panic(expected = "once")]
    fn scratch_is_not_given_back_twice() {
        let mut accounts = Accounts::default();
        let id = accounts.open(None);
        accounts.give_back_request(id, ByteLen(0), true);
    }

    /// The pool bytes that a host gets with this many connections, if each takes all the pages that
    /// it is allowed.
    fn taken(connections: usize) -> u64 {
        let (mut accounts, mut pool) = (Accounts::default(), Pool::new(ByteLen(4 << 20)));
        let ids: Vec<AccountId> = (0..connections).map(|_| accounts.open(Some("host"))).collect();
        for id in &ids {
            while accounts.may_hold(*id, PAGE, &pool) {
                pool.take(PAGE).expect("a share is less than all");
                accounts.charge(*id, PAGE);
            }
        }
        ids.iter().map(|id| accounts.held(*id).0).sum()
    }

    #[test]
    fn a_host_with_more_connections_has_no_larger_share() {
        // One page for each connection that holds nothing, beyond the share.
        assert!(taken(16) <= taken(1) + 15 * PAGE.0);
    }

    #[test]
    fn what_a_connection_holds_goes_with_it_to_its_host_and_ends_with_it() {
        let (mut accounts, pool) = (Accounts::default(), Pool::new(ByteLen(1 << 20)));
        let (one, other) = (accounts.open(Some("host")), accounts.open(None));
        accounts.charge(other, ByteLen(512 << 10));
        accounts.charge(one, PAGE);
        assert!(accounts.may_hold(one, PAGE, &pool));
        accounts.join(other, "host");
        assert!(!accounts.may_hold(one, PAGE, &pool));
        accounts.clear(other);
        assert!(accounts.may_hold(one, PAGE, &pool));
        accounts.close(other);
        accounts.close(one);
        assert!(accounts.hosts.is_empty() && accounts.names.is_empty());
    }
}
