//! Changes of the state that all sessions of a volume share (registrations, reservations, modes).
//! Sessions of every protocol send their changes, and get the answers, through this module.
//!
//! The control side first tells every core which other sessions the change concerns. It answers the
//! asking core when every core uses the new state and the older requests of the volume have ended.
//! Changes of one volume are made one after the other. A device that hangs can hold them up, so
//! that each core asks for a bounded number of them.

use nearflash_engine::Owner;
use nearflash_nvme::CommandId;
use nearflash_request::{Change, ChangeResult, Raised, Refusal, Tag, VolumeId};

use crate::connection::{Phase, Role};
use crate::connections::Key;
use crate::notice::Notice;
use crate::session::Session;
use crate::shard::Shard;
use crate::world::World;

/// The maximum number of changes of one volume that a core requests at a time; a further one is
/// answered as busy.
pub const CHANGES_PER_VOLUME_MAX: usize = 64;

impl Shard {
    /// Passes a session's change to the control side.
    pub(crate) fn ask_for_change<W: World>(
        &mut self,
        key: Key,
        tag: Tag,
        change: Box<Change>,
        world: &mut W,
    ) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let asked = self.changes_asked.entry(change.volume).or_default();
        if *asked >= CHANGES_PER_VOLUME_MAX {
            return self.hand_back(key, tag, &ChangeResult::Refused(Refusal::Busy), world);
        }
        *asked += 1;
        connection.changes += 1;
        let (core, owner) = (self.config.core, key.to_owner());
        world.notice(Notice::Change { core, owner, tag, change });
    }

    pub(crate) fn changed<W: World>(
        &mut self,
        owner: Owner,
        (volume, tag): (VolumeId, Tag),
        result: &ChangeResult,
        world: &mut W,
    ) {
        let asked = self.changes_asked.get_mut(&volume).expect("an answer follows a question");
        *asked -= 1;
        if *asked == 0 {
            self.changes_asked.remove(&volume);
        }
        let key = Key::from_owner(owner);
        // Its connection may be gone.
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.changes -= 1;
        if connection.phase != Phase::Dead {
            self.hand_back(key, tag, result, world);
            self.take_demands(key, world);
            self.notify_siblings(key, world);
            self.mark_dirty(key);
        }
    }

    /// Tells a session how its change ended.
    fn hand_back<W: World>(&mut self, key: Key, tag: Tag, result: &ChangeResult, world: &mut W) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        match (connection.role, &mut connection.session) {
            // A controller requested the change for its host.
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
    }

    /// Reports raised conditions to sessions.
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
