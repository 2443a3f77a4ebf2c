//! Clients with rings in shared memory.

use nearflash_direct::Status;
use nearflash_direct::target::Demand;

use crate::connections::Key;
use crate::shard::Shard;
use crate::world::World;

impl Shard {
    /// What a session with rings, or one that wants them, asks for.
    pub(crate) fn ring_demand<W: World>(&mut self, key: Key, demand: Demand, world: &mut W) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Some(session) = connection.session.direct_mut() else { return };
        match demand {
            Demand::Request(request) => self.submit(key, request, world),
            Demand::Attach(_) => session.handle_attached(Err(Status::UNSUPPORTED)),
            Demand::Lend(_) | Demand::CopyIn(_) => {
                unreachable!("only sessions with rings ask for this, and there are none")
            }
        }
    }
}
