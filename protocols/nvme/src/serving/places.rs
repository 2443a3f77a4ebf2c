//! The places of controllers, which are fewer than the hosts that may want one.
//!
//! - Discovery needs no key on an open door, so discovery controllers have places of their own. A new one takes
//!   the place of the oldest one of the address that has the most, once all are taken.
//! - A controller whose host has still to prove its name has a place that nobody else wants: the oldest such one
//!   ends when all places are taken.
//! - No host has more than its share. Only controllers whose host has proved its name count, so nobody takes the
//!   share of another host by its name. Names that need no proof are free, so the hosts of one address that prove
//!   nothing share as well, and leave places to those that do.

use nearflash_session::{Origin, PlacesUsed, crowded_out};

use super::controller::Controller;
use super::refusal::Refusal;
use super::state::ControllerKind;
use super::{DisconnectReason, Target};
use crate::{ControllerId, HostName, Status};

/// A host that wants a controller.
pub(super) struct Newcomer<'a> {
    pub(super) kind: ControllerKind,
    pub(super) host: &'a HostName,
    pub(super) origin: Origin,
    /// It enters without a proof of its name.
    pub(super) is_open: bool,
}

impl Target {
    /// Makes sure that there is a place for a controller.
    ///
    /// # Errors
    /// The refusal, if there is none for this host.
    pub(super) fn find_place(&mut self, newcomer: &Newcomer<'_>) -> Result<(), Refusal> {
        let is_full = self.of_kind(newcomer.kind).count() >= self.places_of(newcomer.kind);
        let has_share = newcomer.kind == ControllerKind::Discovery || self.has_share(newcomer);
        let gives_way =
            |it: &&Controller| newcomer.kind == ControllerKind::Discovery || it.is_unproved();
        let oldest = || {
            let those = self.of_kind(newcomer.kind).filter(gives_way);
            crowded_out(those.map(|it| (it.origin, it.heard_at, it.id)))
        };
        let busy = Refusal::for_now(Status::CONNECT_CONTROLLER_BUSY);
        match (has_share, is_full) {
            (false, _) => Err(busy),
            (true, false) => Ok(()),
            (true, true) => {
                let id = oldest().ok_or(busy)?;
                self.end(id, DisconnectReason::PlaceTaken);
                Ok(())
            }
        }
    }

    fn of_kind(&self, kind: ControllerKind) -> impl Iterator<Item = &Controller> {
        self.controllers.values().filter(move |it| it.kind == kind)
    }

    fn places_of(&self, kind: ControllerKind) -> usize {
        let limits = &self.config.limits;
        // Every controller has a number, and a node of a large cluster has few.
        let ids = self.config.controller_ids.len();
        let discovery = usize::from(limits.discovery_controllers_max).min(ids.div_ceil(4));
        match kind {
            ControllerKind::Io => usize::from(limits.controllers_max).min(ids - discovery),
            ControllerKind::Discovery => discovery,
        }
    }

    /// The I/O controllers that one host may have: a quarter, or half of them if there are few.
    fn host_share(&self) -> usize {
        let places = self.places_of(ControllerKind::Io);
        places.div_ceil(4).max(places.min(32).div_ceil(2))
    }

    fn has_share(&self, newcomer: &Newcomer<'_>) -> bool {
        let places = self.places_of(ControllerKind::Io);
        if matches!(newcomer.host, HostName::Named(_)) {
            let its = |it: &&Controller| !it.is_unproved() && it.host == *newcomer.host;
            if self.of_kind(ControllerKind::Io).filter(its).count() >= self.host_share() {
                return false;
            }
        }
        let open = || self.of_kind(ControllerKind::Io).filter(|it| it.is_open());
        let of_origin = || open().filter(|it| it.origin == newcomer.origin).count();
        let open_max = if self.keyed_hosts.is_empty() { places } else { places - places / 4 };
        !newcomer.is_open || of_origin() < places.div_ceil(2) && open().count() < open_max
    }

    /// Whether the first command after its authentication makes a controller one more than its host may have.
    pub(super) fn has_proved_too_many(&self, controller: ControllerId) -> bool {
        let Some(controller) = self.controllers.get(&controller) else { return false };
        let is_io = controller.kind == ControllerKind::Io;
        let its = |it: &&Controller| !it.is_unproved() && it.host == controller.host;
        let count = || self.of_kind(ControllerKind::Io).filter(its).count();
        is_io && controller.is_unproved() && count() >= self.host_share()
    }

    /// Whether a host, and its address if it proves nothing, may have one more I/O queue.
    pub(super) fn has_queue_left(&self, newcomer: &Newcomer<'_>) -> bool {
        let queues = |is_meant: &dyn Fn(&Controller) -> bool| -> usize {
            let those = self.of_kind(ControllerKind::Io).filter(|it| is_meant(it));
            those.map(|it| it.open_queues().count()).sum()
        };
        let max = self.config.limits.host_queues_max;
        let of_host = queues(&|it| it.host == *newcomer.host);
        let of_origin = || queues(&|it| it.is_open() && it.origin == newcomer.origin);
        of_host < max && (!newcomer.is_open || of_origin() < 2 * max)
    }

    /// The use of the places of controllers of a kind, by the names of hosts.
    pub fn places(&self, kind: ControllerKind) -> PlacesUsed {
        PlacesUsed::count(self.places_of(kind), self.of_kind(kind).map(|it| &it.host))
    }
}
