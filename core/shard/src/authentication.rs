//! Authentication of NVMe hosts: the control side has the keys, and computes where no core waits for it.
//!
//! A step of an authentication takes milliseconds. A session hands out one at a time and receives nothing
//! else that it accepts meanwhile, so that the control side has at most one step for each connection.

use nearflash_engine::Owner;
use nearflash_nvme::auth::Step;

use crate::connection::Phase;
use crate::connections::Key;
use crate::notice::Notice;
use crate::shard::Shard;
use crate::world::World;

impl Shard {
    /// A host has sent a message of its authentication.
    pub(crate) fn ask_for_authentication<W: World>(
        &mut self,
        key: Key,
        step: Box<Step>,
        world: &mut W,
    ) {
        let Some(connection) = self.connections.get(key) else { return };
        let (core, owner, peer) = (self.config.core, key.to_owner(), connection.peer);
        world.notice(Notice::Authentication { core, owner, peer, step });
    }

    /// The control side has handled it.
    pub(crate) fn authenticated<W: World>(&mut self, owner: Owner, step: Step, world: &mut W) {
        let key = Key::from_owner(owner);
        // Its connection may be gone.
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.phase == Phase::Dead {
            return;
        }
        let Some(session) = connection.session.nvme_tcp_mut() else { return };
        // The control side has reported a failure.
        connection.is_refused |= step.end.failure().is_some();
        session.handle_authentication(step);
        // Its input may have waited for the answer.
        self.take_demands(key, world);
        self.mark_dirty(key);
    }
}
