//! Volumes, parts and replicas of the cluster that this node serves no more, while requests on them may be
//! under way.
//!
//! Their space is not served as anything else before these requests have ended. A request that hangs, on a
//! device that does not answer, holds up nothing else.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nearflash_api::WithdrawalInfo;
use nearflash_device::DeviceId;
use nearflash_space::{Extent, Home, Name, Volume};
use uuid::Uuid;

use crate::Ticket;

/// The age from which on the status shows a wait.
const SHOWN_AFTER: Duration = Duration::from_secs(3);

/// Things that were withdrawn together.
#[derive(Debug)]
pub(super) struct Withdrawn {
    uuids: BTreeSet<Uuid>,
    /// For people: volumes if there are any, and otherwise the parts of them.
    names: BTreeSet<String>,
    places: Vec<Extent>,
    ticket: Ticket,
    since: Instant,
}

impl Withdrawn {
    /// Volumes and parts on this space, whose requests end with this ticket.
    pub(super) fn new(gone: &[Volume], places: Vec<Extent>, ticket: Ticket) -> Self {
        let named = |volumes: Vec<&Volume>| volumes.iter().map(|it| it.name.to_string()).collect();
        let volumes: Vec<&Volume> = gone.iter().filter(|it| it.home == Home::Cluster).collect();
        let names = named(if volumes.is_empty() { gone.iter().collect() } else { volumes });
        let uuids = gone.iter().map(|volume| volume.uuid).collect();
        Self { uuids, names, places, ticket, since: Instant::now() }
    }

    /// The replica of this node of a mirror that goes on without it.
    pub(super) fn replica(mirror: Name, place: Extent, ticket: Ticket) -> Self {
        let (uuids, names) = (BTreeSet::new(), BTreeSet::from([mirror.to_string()]));
        Self { uuids, names, places: vec![place], ticket, since: Instant::now() }
    }

    /// A place that this node zeroes.
    pub(super) fn zeroed(place: Extent, ticket: Ticket) -> Self {
        let (uuids, names) = (BTreeSet::new(), BTreeSet::new());
        Self { uuids, names, places: vec![place], ticket, since: Instant::now() }
    }

    pub(super) fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    fn devices(&self) -> BTreeSet<DeviceId> {
        self.places.iter().map(|place| place.device).collect()
    }
}

/// Everything that was withdrawn and may still be in use.
#[derive(Debug, Default)]
pub(super) struct Withdrawals(Vec<Withdrawn>);

impl Withdrawals {
    pub(super) fn add(&mut self, withdrawn: Withdrawn) {
        self.0.push(withdrawn);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets that on which no request is under way any more.
    pub(super) fn forget_over(&mut self) {
        self.0.retain(|withdrawn| !withdrawn.ticket.is_over());
    }

    /// Whether a volume on this space may be served.
    pub(super) fn allow(&self, volume: &Volume, places: &[Extent]) -> bool {
        !self.0.iter().any(|it| it.uuids.contains(&volume.uuid)) && self.are_free(places)
    }

    /// Whether nothing is under way on this space any more.
    pub(super) fn are_free(&self, places: &[Extent]) -> bool {
        let mut held = self.0.iter().flat_map(|it| &it.places);
        !held.any(|held| places.iter().any(|place| overlap(held, place)))
    }

    /// The withdrawals that have waited for long, with the names of devices. Places that are being zeroed are left out.
    pub(super) fn shown(&self, name: impl Fn(DeviceId) -> Option<String>) -> Vec<WithdrawalInfo> {
        let is_late = |it: &&Withdrawn| {
            !it.names.is_empty() && !it.ticket.is_over() && it.since.elapsed() >= SHOWN_AFTER
        };
        let info = |it: &Withdrawn| WithdrawalInfo {
            volumes: it.names.iter().cloned().collect(),
            devices: it.devices().into_iter().filter_map(&name).collect(),
            seconds: it.since.elapsed().as_secs(),
        };
        self.0.iter().filter(is_late).map(info).collect()
    }
}

fn overlap(one: &Extent, other: &Extent) -> bool {
    let end = |it: &Extent| it.start.0.saturating_add(it.len.0);
    one.device == other.device && one.start.0 < end(other) && other.start.0 < end(one)
}

#[cfg(test)]
mod tests {
    use nearflash_request::VolumeId;
    use nearflash_space::{Epoch, Provisioning, Reservations, Stripes};
    use nearflash_units::{BlockSize, Blocks, ByteLen, ByteOffset};

    use super::*;

    fn extent(device: u32, start: u64) -> Extent {
        Extent { device: DeviceId(device), start: ByteOffset(start), len: ByteLen(4096) }
    }

    fn volume(number: u128, home: Home, extents: Vec<Extent>) -> Volume {
        let name: Name = format!("v{number}").parse().unwrap();
        Volume {
            id: VolumeId(0),
            uuid: Uuid::from_u128(number),
            subsystem: name.clone(),
            name,
            block_size: BlockSize::B4096,
            blocks: Blocks(1),
            preparing: None,
            nsid: 1,
            epoch: Epoch(1),
            extents,
            provisioning: Provisioning::Thin,
            reservations: Reservations::default(),
            home,
            stripes: Stripes::NONE,
        }
    }

    #[test]
    fn a_request_that_hangs_holds_up_only_the_space_of_its_own_volume() {
        let (hung, other) = (Ticket::waiting(1), Ticket::waiting(1));
        let mut withdrawals = Withdrawals::default();
        let places = vec![extent(0, 0), extent(1, 8192)];
        let gone = volume(1, Home::Cluster, places.clone());
        withdrawals.add(Withdrawn::new(std::slice::from_ref(&gone), places.clone(), hung.clone()));
        let replica = Withdrawn::replica("data.0".parse().unwrap(), extent(0, 4096), other.clone());
        withdrawals.add(replica);
        let is_allowed = |withdrawals: &Withdrawals, device, start| {
            let places = vec![extent(device, start)];
            withdrawals.allow(&volume(2, Home::Part, places.clone()), &places)
        };
        let all = [(0, 0), (0, 4096), (0, 8192), (1, 0), (1, 4097), (1, 8192), (2, 0)];
        let allowed = |withdrawals: &Withdrawals| {
            all.map(|(device, start)| is_allowed(withdrawals, device, start))
        };
        assert_eq!(allowed(&withdrawals), [false, false, true, true, false, false, true]);
        assert!(!withdrawals.allow(&gone, &[extent(7, 0)]), "it does not come back elsewhere");
        other.settle();
        withdrawals.forget_over();
        assert_eq!(allowed(&withdrawals), [false, true, true, true, false, false, true]);
        hung.settle();
        withdrawals.forget_over();
        assert!(withdrawals.is_empty() && allowed(&withdrawals).iter().all(|it| *it));
    }

    #[test]
    fn a_wait_of_seconds_is_shown_with_the_volume_and_its_devices() {
        let mut withdrawals = Withdrawals::default();
        let gone =
            [volume(1, Home::Cluster, vec![]), volume(2, Home::ReplicaFace, vec![extent(3, 0)])];
        let mut withdrawn = Withdrawn::new(&gone, vec![extent(3, 0)], Ticket::waiting(1));
        withdrawn.since -= Duration::from_secs(60);
        withdrawals.add(withdrawn);
        withdrawals.add(Withdrawn::new(&gone, vec![], Ticket::waiting(1)));
        let shown = withdrawals.shown(|device| Some(format!("d{}", device.0)));
        assert_eq!(shown.len(), 1, "the other one is new");
        assert_eq!(
            (&shown[0].volumes[..], &shown[0].devices[..]),
            (&["v1".into()][..], &["d3".into()][..])
        );
        assert!(shown[0].seconds >= 60);
    }
}
