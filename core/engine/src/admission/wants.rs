//! Buffers for the payload of commands. A session that does not get one at once has a *want*, which
//! waits in the queue of `admission`.
//!
//! Data that is next in its stream ([`Due::Next`]) stops the stream until it has a buffer. Data
//! that a session requests from its peer ([`Due::Later`]) comes later in the stream.
//!
//! No want waits forever, because every taken page of the pool comes back. It belongs to one of:
//!
//! - a request with payload, which ends without another buffer and without its peer;
//! - an answer: its peer takes it, or is disconnected;
//! - payload that is next in its stream and has a buffer: it arrives, or its peer is disconnected;
//! - payload that comes later in its stream: the same, once the payload before it has a buffer.
//!
//! Payload that is next in its stream always gets a buffer. Everything else leaves
//! [`Pool::FRONT_LEN`] of the pool free for it. It may exceed its host's share and take gathered
//! pages, but first waits until its connection's requests with payload have ended. If it needs a
//! run longer than any free one, the pool gathers one, or its session gives way: it proceeds
//! without the buffer.
//!
//! Invariant: while nothing waits, a session gets its buffer without a want and without an
//! allocation.

use nearflash_device::Owner;
use nearflash_request::{BufferId, Due, VolumeId};
use nearflash_units::ByteLen;

use super::{Admission, Asker, Item, Lane, Taken, Verdict};
use crate::accounts::AccountId;
use crate::pool::Pool;

/// A session's wait for a buffer that it could not get at once.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    /// The length in bytes.
    pub len: ByteLen,
    /// The place of the data.
    pub due: Due,
    /// The volume of the command, if the session knows it.
    pub volume: Option<VolumeId>,
    /// With [`Due::Next`]: if the pool has no run of this length, the session decides whether it
    /// can proceed without one.
    pub may_give_way: bool,
}

/// The end of a want.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    /// The connection.
    pub owner: Owner,
    /// The place of the data.
    pub due: Due,
    /// The buffer, charged to the connection; `None` if no run is free and the session may give
    /// way.
    pub buffer: Option<BufferId>,
    account: AccountId,
}

impl Admission {
    /// Takes a buffer for payload and charges it to the connection, if nothing waits and one is
    /// free.
    #[inline]
    pub(crate) fn take_for_payload(
        &mut self,
        account: AccountId,
        due: Due,
        len: ByteLen,
        pool: &mut Pool,
    ) -> Option<BufferId> {
        if !self.is_idle() {
            return None;
        }
        let charge = Pool::charge(len);
        let accounts = &mut self.accounts;
        let has_room = due == Due::Next
            || accounts.may_hold(account, charge, pool) && pool.would_leave(Pool::FRONT_LEN, len);
        let reserved = accounts.take_reserved(account, len, pool);
        let taken = reserved.or_else(|| if has_room { pool.take(len) } else { None });
        if taken.is_some() {
            accounts.charge(account, charge);
        }
        taken
    }

    /// Queues a want until its turn. A connection has at most one want for each [`Due`].
    #[cold]
    pub(crate) fn want(&mut self, asker: Asker, want: Want) {
        self.wants += 1;
        self.push(Item::Want(asker, want), want.volume, Lane::Payload(want.due), want.len);
    }

    /// The next want that has ended.
    #[inline]
    pub(crate) fn poll_grant(&mut self) -> Option<Grant> {
        self.grants.pop_front()
    }

    /// Drops the wants of a connection.
    #[cold]
    pub(crate) fn withdraw(&mut self, owner: Owner, pool: &mut Pool) {
        let is_meant = |item: &Item| matches!(item, Item::Want(asker, _) if asker.owner == owner);
        self.take_out(is_meant, pool);
        let accounts = &mut self.accounts;
        self.grants.retain(|grant| {
            if let Some(buffer) = grant.buffer.filter(|_| grant.owner == owner) {
                accounts.give_back(grant.account, pool.len_of(buffer));
                pool.give_back(buffer);
            }
            grant.owner != owner
        });
    }

    /// Decides on a want. If a buffer is free for it, takes and charges it.
    pub(crate) fn judge_want(
        &mut self,
        asker: &Asker,
        want: &Want,
        gathers: bool,
        pool: &mut Pool,
    ) -> Verdict {
        let (account, charge) = (asker.account, Pool::charge(want.len));
        let mut buffer = self.accounts.take_reserved(account, want.len, pool);
        let is_within = gathers || self.accounts.may_hold(account, charge, pool);
        if buffer.is_none() && is_within {
            buffer = room(want.len, gathers, pool);
        }
        if buffer.is_none() && want.due == Due::Next {
            if self.accounts.awaits_payloads(account) {
                return Verdict::Waits;
            }
            buffer = pool.take_front(want.len);
        }
        if buffer.is_some() {
            self.accounts.charge(account, charge);
            return Verdict::Begins(Taken { buffer, ..Taken::NOTHING });
        }
        match want.due {
            Due::Next if want.may_give_way => Verdict::GivesWay,
            Due::Later if !is_within => Verdict::Waits,
            _ => Verdict::NoRoom(want.len),
        }
    }

    /// Ends a want that had its turn.
    pub(crate) fn end_want(&mut self, asker: Asker, want: Want, buffer: Option<BufferId>) {
        let Asker { owner, account, .. } = asker;
        self.grants.push_back(Grant { owner, due: want.due, buffer, account });
    }
}

/// Takes a buffer, and leaves [`Pool::FRONT_LEN`] for data that is next in its stream.
fn room(len: ByteLen, gathers: bool, pool: &mut Pool) -> Option<BufferId> {
    if pool.would_leave(Pool::FRONT_LEN, len) {
        return pool.take(len);
    }
    if gathers && pool.has_free(Pool::FRONT_LEN) { pool.take_gathered() } else { None }
}
