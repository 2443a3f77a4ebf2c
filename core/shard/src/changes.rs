//! What is no I/O and all sessions of a volume share (registrations, reservations, modes): every
//! session asks for it here, whatever its door, and is answered here.
//!
//! The control side makes one change at a time. It answers the core that asked once every core goes
//! by the change, and tells every core whom else it concerns before.

use nearflash_engine::Owner;
use nearflash_nvme::CommandId;
use nearflash_request::{Change, ChangeResult, Raised, Tag};

use crate::connection::{Phase, Role};
use crate::connections::Key;
use crate::notice::Notice;
use crate::session::Session;
use crate::shard::Shard;
use crate::world::World;

impl Shard {
    /// A session asks the control side for a change.
    pub(crate) fn ask_for_change<W: World>(
        &mut self,
        key: Key,
        tag: Tag,
        change: Box<Change>,
        world: &mut W,
    ) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.changes += 1;
        let (core, owner) = (self.config.engine.core, key.to_owner());
        world.notice(Notice::Change { core, owner, tag, change });
    }

    /// The control side's answer.
    pub(crate) fn changed<W: World>(
        &mut self,
        owner: Owner,
        tag: Tag,
        result: &ChangeResult,
        world: &mut W,
    ) {
        let key = Key::from_owner(owner);
        // Its connection may be gone.
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.changes -= 1;
        if connection.phase == Phase::Dead {
            return;
        }
        match (connection.role, &mut connection.session) {
            // It was a controller that asked for it, for its host.
            (Role::Admin(controller), _) => {
                let controllers = self.controllers.as_mut();
                let controllers = controllers.expect("admin queues are the first core's");
                controllers.target_mut().handle_change(controller, command_of(tag), result);
                self.act(world);
            }
            (_, Session::NvmeTcp(session)) => session.handle_change(tag, result),
            (_, Session::Iscsi(session)) => session.handle_change(tag, result),
            (_, Session::Direct(_)) => unreachable!("direct clients ask for no changes"),
        }
        self.take_demands(key, world);
        self.stir(key, world);
        self.mark_dirty(key);
    }

    /// Something happened that sessions are to be told of.
    pub(crate) fn raise<W: World>(&mut self, raised: &[Raised], world: &mut W) {
        self.raise_to_initiators(raised, world);
        let Some(controllers) = &mut self.controllers else { return };
        for raised in raised {
            controllers.target_mut().raise(raised);
        }
        self.act(world);
    }
}

/// The tag of a change that a controller asks for on behalf of its host.
pub(crate) fn tag_of(command: CommandId) -> Tag {
    Tag(u32::from(command.0))
}

fn command_of(tag: Tag) -> CommandId {
    CommandId(u16::try_from(tag.0).expect("it was made of a command's identifier"))
}
