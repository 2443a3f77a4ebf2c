//! Revocation of seals on all cores.
//!
//! A client revokes over a session of one core, and its seals may be open in sessions of every core. The
//! core that is asked tells every core, itself too. Each one remembers the revocation, so that no session
//! of it opens such a seal later, ends the handles of these seals, cancels their requests that have not
//! begun, and answers when the requests of the volume have ended that its engine had begun. When all cores
//! have answered, the client is answered. The control side has no part in it: files are truncated and
//! removed by the thousand.
//!
//! Invariant: when a revocation is answered, no request that the seals allowed is under way, and none
//! begins.

use std::collections::HashMap;

use nearflash_direct::Status;
use nearflash_direct::serving::{Revocation, RevokeDemand, Revoked, TargetSession};
use nearflash_direct::wire::SALT_LEN;
use nearflash_engine::{CoreId, Older};

use crate::connection::Phase;
use crate::connections::Key;
use crate::message::Message;
use crate::shard::Shard;
use crate::world::World;

/// Marks the waits of this module among those of the engine. The control side's numbers are smaller.
const OWN_WAIT: u64 = 1 << 63;

/// A revocation that a core asks of every core.
#[derive(Clone, Debug)]
pub struct RevokeOrder {
    /// Which seals.
    pub revocation: Revocation,
    /// The core that waits for the answer.
    pub from: CoreId,
    /// Its number there.
    pub number: u64,
}

/// The seals that are void on a core, and the revocations under way.
#[derive(Debug)]
pub(crate) struct Seals {
    revoked: Revoked,
    /// The revocations that clients of this core have requested, by number.
    asked: HashMap<u64, Asked>,
    /// Whom this core answers when a wait is over, by the wait's number.
    waits: HashMap<u64, (CoreId, u64)>,
    /// The next number of either.
    next: u64,
}

#[derive(Debug)]
struct Asked {
    key: Key,
    /// The session's number for it.
    number: u32,
    /// The cores that have not answered.
    left: u16,
}

impl Seals {
    pub(crate) fn new(salt: [u8; SALT_LEN]) -> Self {
        let revoked = Revoked::new(salt);
        Self { revoked, asked: HashMap::new(), waits: HashMap::new(), next: 0 }
    }

    fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Shard {
    /// A session has a message about seals.
    pub(crate) fn tell_seals<W: World>(&mut self, key: Key, world: &mut W) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Some(session) = connection.session.direct_mut() else { return };
        let told = session.handle_seals(&mut self.seals.revoked, world.now());
        self.mark_dirty(key);
        if let Err(error) = told {
            self.peer_error(key, error.into(), world);
        }
    }

    /// A client revokes seals.
    pub(crate) fn ask_to_revoke<W: World>(
        &mut self,
        key: Key,
        demand: RevokeDemand,
        world: &mut W,
    ) {
        let RevokeDemand { number: asked_as, revocation } = demand;
        if !self.seals.revoked.has_room(&revocation) {
            return self.answer_revocation(key, asked_as, Err(Status::BUSY));
        }
        let (from, left) = (self.config.core, self.config.core_count);
        let number = self.seals.next_number();
        self.seals.asked.insert(number, Asked { key, number: asked_as, left });
        for core in (0..left).map(CoreId) {
            let order = RevokeOrder { revocation: revocation.clone(), from, number };
            self.tell(core, Message::Revoke(Box::new(order)), world);
        }
    }

    /// Seals are void on this core from now on.
    pub(crate) fn revoke<W: World>(&mut self, order: RevokeOrder, world: &mut W) {
        let RevokeOrder { revocation, from, number } = order;
        self.seals.revoked.revoke(&revocation, world.now());
        let has_seals = TargetSession::has_seals;
        for key in self.connections.keys(|it| it.session.direct().is_some_and(has_seals)) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            let Some(session) = connection.session.direct_mut() else { continue };
            if session.revoke(&revocation) {
                self.cancel_disallowed(key, world);
                self.mark_dirty(key);
            }
        }
        let wait = self.seals.next_number() | OWN_WAIT;
        self.seals.waits.insert(wait, (from, number));
        let older = Older { begun: [revocation.volume()].into(), came: Box::default() };
        self.engine.await_older(wait, older);
    }

    /// A wait of the engine is over. Returns whether it was for a revocation.
    pub(crate) fn is_over_for_seals<W: World>(&mut self, wait: u64, world: &mut W) -> bool {
        let Some((core, number)) = self.seals.waits.remove(&wait) else { return false };
        self.tell(core, Message::Revoked(number), world);
        true
    }

    /// A core has answered a revocation of this one.
    pub(crate) fn revoked(&mut self, number: u64) {
        let Some(asked) = self.seals.asked.get_mut(&number) else { return };
        asked.left -= 1;
        if asked.left == 0
            && let Some(Asked { key, number, .. }) = self.seals.asked.remove(&number)
        {
            self.answer_revocation(key, number, Ok(()));
        }
    }

    fn answer_revocation(&mut self, key: Key, number: u32, result: Result<(), Status>) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.phase == Phase::Dead {
            return;
        }
        let Some(session) = connection.session.direct_mut() else { return };
        session.handle_revoked(number, result);
        self.mark_dirty(key);
    }
}
