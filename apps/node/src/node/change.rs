//! Changes of the state that all sessions of a volume share: registrations, reservations, modes,
//! resets. Each is made on a copy, recorded if it must outlive this run, published to the cores,
//! reported to the sessions that it concerns, and answered when the older requests of its volumes
//! have ended.
//!
//! Changes of one volume are made one after the other, in the order of their requests: the next
//! begins when the previous one is answered. Changes of other volumes proceed meanwhile, even if a
//! device hangs.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::{Builder, JoinHandle};

use nearflash_api::{RegistrantInfo, ReservationInfo};
use nearflash_request::{
    Change, ChangeKind, ChangeResult, Identity, Nexus, Raised, Refusal, ResetScope, VolumeId,
};
use nearflash_space::{Name, Space, Volume, VolumeError};

use super::Node;
use crate::error::NodeError;
use crate::exports::iscsi_access;
use crate::records::Records;
use crate::runtime_face::Event;
use crate::{Asked, AskedBy, Asker, Ticket, Update};
use nearflash_config::ValueError;

/// The thread that makes the changes which sessions request.
pub(crate) struct Changes {
    asker: Asker,
    thread: JoinHandle<()>,
}

impl Changes {
    pub(crate) fn start(node: Arc<Node>, events: Receiver<Event>) -> io::Result<Self> {
        let asker = node.asker.clone();
        let make = move || Desk::new(node).serve(&events);
        Ok(Self { asker, thread: Builder::new().name("changes".to_owned()).spawn(make)? })
    }

    /// Stops the thread, after the cores have ended.
    pub(crate) fn join(self) {
        self.asker.tell(Event::End);
        if self.thread.join().is_err() {
            tracing::error!("the thread that makes changes has panicked");
        }
    }
}

/// A change that every core has adopted, while older requests are still under way.
struct UnderWay {
    number: u64,
    volumes: Vec<VolumeId>,
    /// The session that waits for the change, and the result.
    answer: Option<(AskedBy, ChangeResult)>,
}

/// The changes that sessions have requested.
struct Desk {
    node: Arc<Node>,
    /// In the order of the requests.
    waiting: VecDeque<Asked>,
    under_way: Vec<UnderWay>,
    next_number: u64,
}

impl Desk {
    fn new(node: Arc<Node>) -> Self {
        Self { node, waiting: VecDeque::new(), under_way: Vec::new(), next_number: 0 }
    }

    fn serve(mut self, events: &Receiver<Event>) {
        for event in events {
            match event {
                Event::Asked(asked) => self.waiting.push_back(asked),
                Event::Over(number) => self.end(number),
                Event::Freed(number) => self.node.give_back(number),
                Event::Suspect => self.node.record_suspects(),
                Event::RemoteResized { device, bytes } => self.node.follow(device, bytes),
                Event::End => return,
            }
            self.begin_all();
        }
    }

    /// Begins every request that does not wait for an earlier change of its volumes.
    fn begin_all(&mut self) {
        let mut busy: Vec<VolumeId> =
            self.under_way.iter().flat_map(|it| it.volumes.iter().copied()).collect();
        let mut index = 0;
        while let Some(asked) = self.waiting.get(index) {
            let volumes = self.volumes_of(asked, index);
            if volumes.iter().any(|volume| busy.contains(volume)) {
                busy.extend(volumes);
                index += 1;
                continue;
            }
            if let Some(asked) = self.waiting.remove(index)
                && self.begin(asked, volumes.clone())
            {
                busy.extend(volumes);
            }
        }
    }

    /// The volumes that a request concerns. For a session that has ended, these are the volumes
    /// whose reservations it holds and the volumes of its own changes that wait in front.
    fn volumes_of(&self, asked: &Asked, index: usize) -> Vec<VolumeId> {
        let served = self.node.served();
        let space = &served.recorded.space;
        match asked {
            Asked::Change { change, .. } => volumes_of(space, change),
            Asked::SessionOver { nexus, .. } => {
                let mut volumes = held_by(space, *nexus);
                for earlier in self.waiting.range(..index) {
                    if let Asked::Change { change, .. } = earlier
                        && change.nexus == *nexus
                    {
                        volumes.push(change.volume);
                    }
                }
                volumes
            }
        }
    }

    /// Makes a change, and answers it if no older request is under way. Returns whether it waits
    /// for older requests.
    fn begin(&mut self, asked: Asked, volumes: Vec<VolumeId>) -> bool {
        let (answer, ticket) = match asked {
            Asked::Change { by, change } => {
                let (result, ticket) = self.node.make_change(&change);
                (Some((by, result)), ticket)
            }
            Asked::SessionOver { nexus, identity } => {
                (None, self.node.session_over(nexus, &identity))
            }
        };
        let number = self.next_number;
        self.next_number += 1;
        self.under_way.push(UnderWay { number, volumes, answer });
        if ticket.is_over() {
            self.end(number);
            return false;
        }
        let asker = self.node.asker.clone();
        ticket.when_over(move || asker.tell(Event::Over(number)));
        true
    }

    fn end(&mut self, number: u64) {
        let place = self.under_way.iter().position(|it| it.number == number);
        let place = place.expect("a ticket is over once");
        if let Some((by, result)) = self.under_way.remove(place).answer {
            self.node.runtime.answer(by, result);
        }
    }
}

/// The volumes that a change concerns: a reset of a target concerns each of its volumes.
fn volumes_of(space: &Space, change: &Change) -> Vec<VolumeId> {
    let meant = space.volumes().find(|volume| volume.id == change.volume);
    match (change.kind, meant) {
        (ChangeKind::Reset(ResetScope::Target | ResetScope::TargetAndSessions), Some(meant)) => {
            let of_target = space.volumes().filter(|volume| volume.subsystem == meant.subsystem);
            of_target.map(|volume| volume.id).collect()
        }
        _ => vec![change.volume],
    }
}

/// The volumes whose SPC-2 reservation (RESERVE) this session holds.
fn held_by(space: &Space, nexus: Nexus) -> Vec<VolumeId> {
    let is_held = |volume: &&Volume| volume.reservations.legacy_holder() == Some(nexus);
    space.volumes().filter(is_held).map(|volume| volume.id).collect()
}

impl Node {
    /// Ends the reservations that do not outlive the session.
    fn session_over(&self, nexus: Nexus, identity: &Identity) -> Ticket {
        let held = held_by(&self.served().recorded.space, nexus);
        Ticket::all(held.into_iter().map(|volume| {
            let (identity, kind) = (identity.clone(), ChangeKind::NexusLost);
            self.make_change(&Change { volume, nexus, identity, kind }).1
        }))
    }

    fn make_change(&self, change: &Change) -> (ChangeResult, Ticket) {
        let _one = self.one_change();
        let mut fresh = self.copy();
        let waits =
            if must_wait(change.kind) { volumes_of(&fresh.space, change) } else { Vec::new() };
        let (result, raised) = apply(&mut fresh.space, change);
        match self.take_over(fresh, raised, &waits) {
            Ok(ticket) => (result, ticket),
            Err(error) => {
                tracing::error!("refused a change of reservations: {error}");
                (ChangeResult::Refused(Refusal::NotRecorded), Ticket::over())
            }
        }
    }

    /// Records the state that must outlive this run, and publishes the new state to the cores. The
    /// ticket covers every earlier request on the volumes `waits`, even if nothing else has
    /// changed. A core tells its sessions first, since they abort commands in response.
    fn take_over(
        &self,
        mut fresh: Records,
        raised: Vec<Raised>,
        waits: &[VolumeId],
    ) -> Result<Ticket, NodeError> {
        let served = self.served().recorded.clone();
        // The transaction is empty, and not written, if the whole change ends with this run.
        self.record(&mut fresh)?;
        let differs = |what: &dyn Fn(&Volume, &Volume) -> bool| {
            let both = served.space.volumes().zip(fresh.space.volumes());
            both.into_iter().any(|(old, new)| what(old, new))
        };
        let restricts =
            differs(&|old, new| old.reservations.restriction() != new.reservations.restriction());
        let has_modes = differs(&|old, new| old.reservations.modes() != new.reservations.modes());
        let concerns_cores = restricts || has_modes || !raised.is_empty() || !waits.is_empty();
        let update = Update {
            volumes: restricts.then(|| Arc::new(fresh.space.table())),
            iscsi: has_modes.then(|| Arc::new(iscsi_access(&fresh, &self.devices()))),
            raised,
            quiesce: waits.to_vec(),
            ..Update::default()
        };
        self.adopt(fresh);
        Ok(if concerns_cores { self.runtime.serve(update) } else { Ticket::over() })
    }

    pub(super) fn reservation_list(
        &self,
        volume: Option<&str>,
    ) -> Result<Vec<ReservationInfo>, NodeError> {
        let volume =
            volume.map(|text| text.parse::<Name>().map_err(ValueError::from)).transpose()?;
        let space = &self.served().recorded.space;
        if let Some(name) = volume.as_ref().filter(|name| space.volume(name).is_none()) {
            return Err(VolumeError::NotFound(name.clone()).into());
        }
        let is_meant = |held: &&Volume| match &volume {
            Some(name) => held.name == *name,
            None => !held.reservations.is_empty(),
        };
        Ok(space.volumes().filter(is_meant).map(reservation_info).collect())
    }

    /// Ends every registration and reservation of a volume, regardless of the holder.
    pub(super) fn reservation_clear(&self, volume: &str) -> Result<ReservationInfo, NodeError> {
        let name: Name = volume.parse().map_err(ValueError::from)?;
        let one = self.one_change_of_a_caller()?;
        let mut fresh = self.copy();
        let found = fresh.space.volume(&name);
        let (before, id) = (found.map(reservation_info), found.map(|volume| volume.id));
        let raised = fresh.space.clear_reservations(&name)?;
        let ticket = self.take_over(fresh, raised, id.as_slice())?;
        drop(one);
        tracing::warn!(volume = name.as_str(), "reservations cleared by the operator");
        self.wait_for(&ticket)?;
        Ok(before.ok_or(VolumeError::NotFound(name))?)
    }
}

fn apply(space: &mut Space, change: &Change) -> (ChangeResult, Vec<Raised>) {
    if !matches!(change.kind, ChangeKind::Reset(_)) {
        return space.apply(change);
    }
    let mut result = ChangeResult::Done;
    let mut raised = Vec::new();
    for volume in volumes_of(space, change) {
        let (ended, told) = space.apply(&Change { volume, ..change.clone() });
        result = ended;
        raised.extend(told);
    }
    (result, raised)
}

/// Whether the answer to this change waits until every older request of the volumes has ended.
fn must_wait(kind: ChangeKind) -> bool {
    matches!(
        kind,
        ChangeKind::Reset(_) | ChangeKind::EndTasks(_) | ChangeKind::Preempt { abort: true, .. }
    )
}

fn reservation_info(volume: &Volume) -> ReservationInfo {
    let report = volume.reservations.report();
    let registrant = |registrant: nearflash_request::Registrant| RegistrantInfo {
        who: identity_text(&registrant.identity),
        key: format!("{:#018x}", registrant.key),
        holds: registrant.holds,
    };
    ReservationInfo {
        volume: volume.name.to_string(),
        kind: match (volume.reservations.legacy_holder(), report.reservation) {
            (Some(_), _) => Some("exclusive-by-session".to_owned()),
            (None, kind) => kind.map(|kind| kind.name().to_owned()),
        },
        persists: report.persists,
        registrants: report.registrants.into_iter().map(registrant).collect(),
    }
}

/// The identity of a registrant, as a word without spaces.
fn identity_text(identity: &Identity) -> String {
    match identity {
        Identity::Iscsi { initiator, isid, .. } => {
            let isid: String = isid.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{initiator},i,0x{isid}")
        }
        Identity::Nvme { host_id, .. } => uuid::Uuid::from_bytes(*host_id).to_string(),
    }
}
