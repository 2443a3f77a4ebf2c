//! Changes of what all sessions of a volume share: registrations, reservations, modes, resets. Each is
//! made on a copy, recorded when it is to outlive this run, shown to the cores, told to the sessions
//! that it concerns, and answered when the older requests of its volumes have ended.
//!
//! Changes of one volume are made one after the other, in the order of asking: the next begins when the
//! last is answered. Changes of other volumes go on meanwhile, whatever a device does.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::{Builder, JoinHandle};

use nearflash_api::{RegistrantInfo, ReservationInfo};
use nearflash_request::{
    Attention, Change, ChangeKind, ChangeResult, Identity, Nexus, Raised, Refusal, ResetScope,
    VolumeId,
};
use nearflash_space::{Name, Space, Volume, VolumeError};

use super::Node;
use crate::config::ValueError;
use crate::error::NodeError;
use crate::exports::iscsi_access;
use crate::records::Records;
use crate::runtime_face::Event;
use crate::{Asked, AskedBy, Asker, Ticket};

/// The thread that makes the changes which sessions ask for.
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

    /// Ends it. The cores have ended.
    pub(crate) fn join(self) {
        self.asker.tell(Event::End);
        if self.thread.join().is_err() {
            tracing::error!("the thread that makes changes had panicked");
        }
    }
}

/// A change that every core goes by, and whose older requests have not all ended.
struct UnderWay {
    number: u64,
    volumes: Vec<VolumeId>,
    /// Who waits for it, and how it ended.
    answer: Option<(AskedBy, ChangeResult)>,
}

/// All that sessions have asked for.
struct Desk {
    node: Arc<Node>,
    /// In the order of asking.
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
                Event::End => return,
            }
            self.begin_all();
        }
    }

    /// Begins what waits for no earlier change of its volumes.
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

    /// The volumes that something is about: of a session that is over, those that it holds, and those of
    /// which its own changes wait in front of it.
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

    /// Makes a change, and answers it when it has nothing to wait for. Whether it has.
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

/// The volumes that a change is about: a reset of a target is one of each of its volumes.
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

/// The volumes that a session holds for as long as it is there.
fn held_by(space: &Space, nexus: Nexus) -> Vec<VolumeId> {
    let is_held = |volume: &&Volume| volume.reservations.legacy_holder() == Some(nexus);
    space.volumes().filter(is_held).map(|volume| volume.id).collect()
}

impl Node {
    /// A session is over: what it held as long as it was there, it holds no more.
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
                tracing::error!("a change of reservations is refused: {error}");
                (ChangeResult::Refused(Refusal::NotRecorded), Ticket::over())
            }
        }
    }

    /// Records what is to outlive this run, and shows the cores what they go by. Every request on the
    /// volumes `waits` that came before is to end, also when nothing else has changed. Sessions are told
    /// before that, since they give up commands because of it.
    fn take_over(
        &self,
        mut fresh: Records,
        raised: Vec<Raised>,
        waits: &[VolumeId],
    ) -> Result<Ticket, NodeError> {
        let served = self.served().recorded.clone();
        // Nothing is written if all of it ends with this run.
        self.record(&mut fresh)?;
        let differs = |what: &dyn Fn(&Volume, &Volume) -> bool| {
            let both = served.space.volumes().zip(fresh.space.volumes());
            both.into_iter().any(|(old, new)| what(old, new))
        };
        let mut tickets = Vec::new();
        if differs(&|old, new| old.reservations.restriction() != new.reservations.restriction()) {
            tickets.push(self.runtime.publish_volumes(Arc::new(fresh.space.table())));
        }
        if differs(&|old, new| old.reservations.modes() != new.reservations.modes()) {
            let access = Arc::new(iscsi_access(&fresh, &self.devices));
            tickets.push(self.runtime.publish_iscsi(access));
        }
        self.served().recorded = fresh;
        if !raised.is_empty() {
            self.runtime.raise(raised);
        }
        if !waits.is_empty() {
            tickets.push(self.runtime.quiesce(waits));
        }
        Ok(Ticket::all(tickets))
    }

    pub(super) fn reservation_list(
        &self,
        volume: Option<&str>,
    ) -> Result<Vec<ReservationInfo>, NodeError> {
        let volume =
            volume.map(|text| text.parse::<Name>().map_err(ValueError::from)).transpose()?;
        let space = &self.served().recorded.space;
        if let Some(name) = volume.as_ref().filter(|name| space.volume(name).is_none()) {
            return Err(VolumeError::NotFound { name: name.clone() }.into());
        }
        let is_meant = |held: &&Volume| match &volume {
            Some(name) => held.name == *name,
            None => !held.reservations.is_empty(),
        };
        Ok(space.volumes().filter(is_meant).map(reservation_info).collect())
    }

    /// Ends every registration and reservation of a volume, whoever holds them.
    pub(super) fn reservation_clear(&self, volume: &str) -> Result<ReservationInfo, NodeError> {
        let name: Name = volume.parse().map_err(ValueError::from)?;
        let one = self.one_change();
        let mut fresh = self.copy();
        let found = fresh.space.volume(&name);
        let (before, id) = (found.map(reservation_info), found.map(|volume| volume.id));
        let raised = fresh.space.clear_reservations(&name)?;
        let ticket = self.take_over(fresh, raised, id.as_slice())?;
        drop(one);
        tracing::warn!(volume = name.as_str(), "reservations cleared by the operator");
        self.wait_for(&ticket)?;
        Ok(before.ok_or(VolumeError::NotFound { name })?)
    }
}

/// What sessions are to be told when the volumes of a space have become others: new sizes, and
/// targets with other units.
pub(super) fn raised_by(old: &Space, new: &Space) -> Vec<Raised> {
    let mut raised = Vec::new();
    let tell = |volume: &Volume, attention| Raised {
        volume: Some(volume.id),
        to: nearflash_request::Addressees::All,
        attention,
    };
    for volume in new.served() {
        let before = old.volume(&volume.name);
        let before = before.filter(|before| before.id == volume.id && !before.is_empty());
        if before.is_some_and(|before| before.blocks != volume.blocks) {
            raised.push(tell(volume, Attention::CapacityChanged));
        }
        let units = |space: &Space| -> Vec<VolumeId> {
            let same = space.served().filter(|other| other.subsystem == volume.subsystem);
            same.map(|other| other.id).collect()
        };
        if before.is_some() && units(old) != units(new) {
            raised.push(tell(volume, Attention::UnitsChanged));
        }
    }
    raised
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

/// Whether every older request of the volumes has ended when this is answered.
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

/// Who it is, in one word.
fn identity_text(identity: &Identity) -> String {
    match identity {
        Identity::Iscsi { initiator, isid, .. } => {
            let isid: String = isid.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{initiator},i,0x{isid}")
        }
        Identity::Nvme { host_id, .. } => uuid::Uuid::from_bytes(*host_id).to_string(),
    }
}
