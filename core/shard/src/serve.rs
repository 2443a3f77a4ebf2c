//! Adoption of a publication: within one turn, everything that a core serves becomes the new state.
//!
//! The order matters. A volume lies on devices that the core knows; exports name volumes that it has.
//! On the first core, the controllers of a host that loses its keys end before its list of volumes
//! is gone, so it sees no other volumes meanwhile; and a host that gets rights gets no new namespace
//! before them. Sessions are told last.
//!
//! A core answers a publication twice: with [`Notice::Shown`] in the same turn, and with
//! [`Notice::Quiesced`] when these have ended:
//!
//! - requests that began under an older entry of their volume, or under older rights on it;
//! - everything that came earlier on the volumes of [`Publication::quiesce`];
//! - on the first core, the sessions of initiators whose account is gone.

use std::sync::Arc;

use nearflash_engine::Older;
use nearflash_publish::{Devices, Publication, Served};

use crate::notice::Notice;
use crate::shard::Shard;
use crate::world::World;

/// Serves by this publication from now on.
pub(crate) fn serve<W: World>(shard: &mut Shard, publication: &Publication, world: &mut W) {
    let Publication { number, served, raised, quiesce } = publication;
    let before = std::mem::replace(&mut shard.served, Arc::clone(served));
    if differ(&served.devices, &before.devices) {
        set_devices(shard, &served.devices, world);
    }
    let mut changed = Vec::new();
    if differ(&served.volumes, &before.volumes) {
        changed.extend(shard.engine.set_volumes(Arc::clone(&served.volumes)));
    }
    if differ(&served.direct, &before.direct) {
        changed.extend(shard.set_direct_exports(Arc::clone(&served.direct), world));
    }
    if differ(&served.iscsi, &before.iscsi) {
        shard.set_iscsi_exports(*number, Arc::clone(&served.iscsi), world);
    }
    serve_hosts(shard, &before, served, world);
    if !raised.is_empty() {
        shard.raise(raised, world);
    }
    let older = Older { begun: changed.into(), came: quiesce.as_ref().into() };
    shard.engine.await_older(*number, older);
    world.notice(Notice::Shown(shard.config.core, *number));
}

/// The requests that a publication waits for have ended; so have its sessions, or they report
/// later.
pub(crate) fn requests_over<W: World>(shard: &mut Shard, number: u64, world: &mut W) {
    if !shard.initiators.awaits_sessions(number) {
        world.notice(Notice::Quiesced(shard.config.core, number));
    }
}

/// Serves hosts by the new state. Only the first core has controllers.
fn serve_hosts<W: World>(shard: &mut Shard, before: &Served, served: &Served, world: &mut W) {
    if differ(&served.keyed, &before.keyed) {
        shard.set_keyed_hosts(Arc::clone(&served.keyed), world);
    }
    let Some(controllers) = &mut shard.controllers else { return };
    if differ(&served.rights, &before.rights) {
        controllers.target_mut().set_rights(Arc::clone(&served.rights));
    }
    if differ(&served.namespaces, &before.namespaces) {
        let published = controllers.target_mut().publish(Arc::clone(&served.namespaces));
        published.expect("the control side gives each namespace a number of its own");
    }
    if differ(&served.elsewhere, &before.elsewhere) {
        controllers.target_mut().set_elsewhere(Arc::clone(&served.elsewhere));
    }
    shard.act(world);
}

fn set_devices<W: World>(shard: &mut Shard, devices: &Devices, world: &mut W) {
    let Devices { properties, health, kinds, peers } = devices;
    shard.peers.set(peers, kinds);
    let (kinds, properties) = (Arc::clone(kinds), Arc::clone(properties));
    shard.mirroring.set_devices(kinds, Arc::clone(health), Arc::clone(&properties));
    shard.engine.set_devices(properties, Arc::clone(health));
    shard.reserve_for_faces(world.pool());
}

fn differ<T: ?Sized>(new: &Arc<T>, old: &Arc<T>) -> bool {
    !Arc::ptr_eq(new, old)
}
