//! Messages of direct clients for the owner of the files of a volume, which is a part of the control side.
//!
//! A session bounds the messages that are not answered. The owner learns when a connection that has sent
//! one is gone, so that it ends what the client has open.

use nearflash_direct::Status;
use nearflash_direct::serving::FilesDemand;
use nearflash_engine::Owner;

use crate::connection::Phase;
use crate::connections::Key;
use crate::message::ClientPlace;
use crate::notice::Notice;
use crate::shard::Shard;
use crate::world::World;

impl Shard {
    /// A client has a message.
    pub(crate) fn ask_owner_of_files<W: World>(
        &mut self,
        key: Key,
        demand: FilesDemand,
        world: &mut W,
    ) {
        let place = ClientPlace { core: self.config.core, owner: key.to_owner() };
        world.notice(Notice::Files { place, demand: Box::new(demand) });
    }

    /// The owner has answered.
    pub(crate) fn files_answered(
        &mut self,
        owner: Owner,
        (number, result): (u32, Result<Box<[u8]>, Status>),
    ) {
        let key = Key::from_owner(owner);
        // Its connection may be gone.
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.phase == Phase::Dead {
            return;
        }
        let Some(session) = connection.session.direct_mut() else { return };
        session.handle_files(number, result.as_deref().map_err(|status| *status));
        self.mark_dirty(key);
    }
}
