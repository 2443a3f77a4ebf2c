//! Payload of commands: sessions want buffers for it, and wait for them in the queue of `admission`.
//!
//! What is next in a stream ([`Due::Next`]) stops it until there is a buffer. What a session asks
//! its peer for ([`Due::Later`]) comes in the stream behind that.
//!
//! Why no want waits for ever: each page of the pool belongs to a request with payload, which ends
//! without the pool and without a peer; to an answer, which its peer takes, or is disconnected; or
//! to payload whose data is to come. Data that is next in its stream comes, or its peer is
//! disconnected. Other data stands behind what is next in its stream. What is next gets its
//! buffer: everything else leaves [`Pool::FRONT_LEN`] alone; what is next takes from that, and from
//! what is gathered, beyond its host's share, unless its connection has requests with payload, whose
//! end it awaits first. What needs a longer run has one gathered, or its session gives way.
//!
//! Invariant: while nothing waits, a want is met without being queued and without an allocation.

use nearflash_request::{BufferId, Due, VolumeId};
use nearflash_units::ByteLen;

use crate::accounts::AccountId;
use crate::admission::{Asker, Item, Taken, Verdict};
use crate::engine::{Engine, Owner};
use crate::pool::Pool;

/// A buffer that a session wants and that was not there at once.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    /// The length in bytes.
    pub len: ByteLen,
    /// The place of the data.
    pub due: Due,
    /// The volume of the command, if the session knows it.
    pub volume: Option<VolumeId>,
    /// With [`Due::Next`]: when the pool has no run of this length, the session decides whether it
    /// makes do without.
    pub may_give_way: bool,
}

/// The end of a want.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    /// The connection.
    pub owner: Owner,
    /// The place of the data.
    pub due: Due,
    /// The buffer, charged to the connection; `None` if there is none and the session may give way.
    pub buffer: Option<BufferId>,
    account: AccountId,
}

impl Engine {
    /// A buffer for payload, charged to the connection, if nothing waits and there is room.
    #[inline]
    pub fn take_for_payload(
        &mut self,
        account: AccountId,
        due: Due,
        len: ByteLen,
        pool: &mut Pool,
    ) -> Option<BufferId> {
        if !self.admission.is_idle() {
            return None;
        }
        let charge = Pool::charge(len);
        let accounts = &mut self.admission.accounts;
        let has_room = due == Due::Next
            || accounts.may_hold(account, charge, pool) && pool.would_leave(Pool::FRONT_LEN, len);
        let taken = if has_room { pool.take(len) } else { None };
        if taken.is_some() {
            accounts.charge(account, charge);
        }
        taken
    }

    /// Queues a want until its turn. A connection has one of each [`Due`] at most.
    #[cold]
    pub fn want(&mut self, asker: Asker, want: Want) {
        self.admission.push_want(asker, want);
    }

    /// The end of a want.
    #[inline]
    pub fn poll_grant(&mut self) -> Option<Grant> {
        self.admission.grants.pop_front()
    }

    /// The connection wants no buffers any more.
    #[cold]
    pub fn withdraw(&mut self, owner: Owner, pool: &mut Pool) {
        let is_meant = |item: &Item| matches!(item, Item::Want(asker, _) if asker.owner == owner);
        self.admission.take_out(is_meant, pool);
        let accounts = &mut self.admission.accounts;
        self.admission.grants.retain(|grant| {
            if let Some(buffer) = grant.buffer.filter(|_| grant.owner == owner) {
                accounts.give_back(grant.account, pool.len_of(buffer));
                pool.give_back(buffer);
            }
            grant.owner != owner
        });
    }

    /// Decides on a want, and takes and charges its buffer if there is one.
    pub(crate) fn judge_want(
        &mut self,
        asker: &Asker,
        want: &Want,
        gathers: bool,
        pool: &mut Pool,
    ) -> Verdict {
        let (account, charge) = (asker.account, Pool::charge(want.len));
        let admission = &mut self.admission;
        let is_within = gathers || admission.accounts.may_hold(account, charge, pool);
        let mut buffer = if is_within { room(want.len, gathers, pool) } else { None };
        if buffer.is_none() && want.due == Due::Next {
            if admission.accounts.awaits_payloads(account) {
                return Verdict::Waits;
            }
            buffer = pool.take_front(want.len);
        }
        if buffer.is_some() {
            admission.accounts.charge(account, charge);
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
        self.admission.grants.push_back(Grant { owner, due: want.due, buffer, account });
    }
}

/// A buffer that leaves [`Pool::FRONT_LEN`] for what is next in streams.
fn room(len: ByteLen, gathers: bool, pool: &mut Pool) -> Option<BufferId> {
    if pool.would_leave(Pool::FRONT_LEN, len) {
        return pool.take(len);
    }
    if gathers && pool.has_free(Pool::FRONT_LEN) { pool.take_gathered() } else { None }
}
