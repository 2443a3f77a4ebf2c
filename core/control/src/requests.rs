//! Changes of the state that all sessions of a volume share: registrations, reservations, modes,
//! resets.
//!
//! - **Order.** Changes of one volume are made one after the other, in the order of their requests:
//!   the next begins when the previous one is answered. Changes of other volumes proceed meanwhile,
//!   even if a device hangs.
//! - **Sessions.** The end of a session ends its SPC-2 reservations. It waits for the changes of
//!   this session that are in front of it, and the changes of the next session of the same nexus
//!   wait for it: it must not end what they take.
//! - **Steps.** A change is decided on a copy of the state. The driver then carries out its
//!   [`Steps`], in their order, and reports the end. The answer leaves after the last step.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use nearflash_request::{
    Change, ChangeKind, ChangeResult, Identity, Nexus, Raised, Refusal, ResetScope, VolumeId,
};
use nearflash_space::{Changed, Name, Reservations, Space, Volume, VolumeError};

/// The volumes of a node, with the state that their sessions share.
pub trait Volumes {
    /// The volumes of the target to which this volume belongs; empty if there is no such volume.
    fn of_target(&self, volume: VolumeId) -> Vec<VolumeId>;
    /// The volumes whose SPC-2 reservation (RESERVE) this session holds.
    fn held_by(&self, nexus: Nexus) -> Vec<VolumeId>;
    /// The shared state of a volume.
    fn reservations(&self, volume: VolumeId) -> Option<&Reservations>;
    /// Changes the shared state of a volume.
    fn apply(&mut self, change: &Change) -> Changed;
}

impl Volumes for Space {
    fn of_target(&self, volume: VolumeId) -> Vec<VolumeId> {
        let meant = self.volumes().find(|it| it.id == volume);
        let same = |meant: &Volume| {
            let of_target = self.volumes().filter(|it| it.subsystem == meant.subsystem);
            of_target.map(|it| it.id).collect()
        };
        meant.map(same).unwrap_or_default()
    }

    fn held_by(&self, nexus: Nexus) -> Vec<VolumeId> {
        let is_held = |volume: &&Volume| volume.reservations.legacy_holder() == Some(nexus);
        self.volumes().filter(is_held).map(|volume| volume.id).collect()
    }

    fn reservations(&self, volume: VolumeId) -> Option<&Reservations> {
        self.volumes().find(|it| it.id == volume).map(|it| &it.reservations)
    }

    fn apply(&mut self, change: &Change) -> Changed {
        Self::apply(self, change)
    }
}

/// The consequences of a change, in the order in which the driver carries them out.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Steps {
    /// Record: a part of the change outlives this run. It must be durable before the next step.
    pub is_recorded: bool,
    /// Publish: the cores refuse other requests than before.
    pub restricts: bool,
    /// Publish: iSCSI sessions report other modes than before.
    pub changes_modes: bool,
    /// Tell: the notices for sessions. A core tells its sessions before it adopts anything else,
    /// since they abort commands in response.
    pub raised: Vec<Raised>,
    /// Await: every earlier request on these volumes has ended, even if nothing else has changed.
    pub quiesce: Vec<VolumeId>,
}

impl Steps {
    /// Whether the cores must learn of the change. If not, it is over once it is recorded.
    pub fn concern_cores(&self) -> bool {
        let publishes = self.restricts || self.changes_modes;
        publishes || !self.raised.is_empty() || !self.quiesce.is_empty()
    }

    /// Makes a change, and adds what follows from it.
    fn make(&mut self, volumes: &mut impl Volumes, change: &Change) -> ChangeResult {
        let before = volumes.reservations(change.volume).cloned();
        let (result, raised) = volumes.apply(change);
        if let (Some(before), Some(after)) = (before, volumes.reservations(change.volume)) {
            self.compare(&before, after);
        }
        self.raised.extend(raised);
        result
    }

    fn compare(&mut self, before: &Reservations, after: &Reservations) {
        self.is_recorded |= before.persistent() != after.persistent();
        self.restricts |= before.restriction() != after.restriction();
        self.changes_modes |= before.modes() != after.modes();
    }
}

/// The changes that sessions have requested and that are not answered. `By` says whom to answer.
#[derive(Debug)]
pub struct Requests<By> {
    /// In the order of the requests.
    waiting: VecDeque<Request<By>>,
    under_way: Vec<UnderWay<By>>,
    answers: VecDeque<(By, ChangeResult)>,
    /// The number of the request that began last.
    last: u64,
}

#[derive(Debug)]
enum Request<By> {
    /// The result is the one that is answered after the last step.
    Change { by: By, change: Box<Change>, result: ChangeResult },
    /// The session and all of its requests have ended.
    SessionOver { nexus: Nexus, identity: Identity },
}

impl<By> Request<By> {
    /// Its session, and whether this is the session's end.
    fn nexus(&self) -> (Nexus, bool) {
        match self {
            Self::Change { change, .. } => (change.nexus, false),
            Self::SessionOver { nexus, .. } => (*nexus, true),
        }
    }
}

/// A request that has begun.
#[derive(Debug)]
struct UnderWay<By> {
    number: u64,
    volumes: Vec<VolumeId>,
    request: Request<By>,
}

impl<By> Default for Requests<By> {
    fn default() -> Self {
        let (waiting, answers) = (VecDeque::new(), VecDeque::new());
        Self { waiting, under_way: Vec::new(), answers, last: 0 }
    }
}

impl<By> Requests<By> {
    /// A session requests a change.
    pub fn handle_change(&mut self, by: By, change: Box<Change>) {
        let result = ChangeResult::Done;
        self.waiting.push_back(Request::Change { by, change, result });
    }

    /// A session and all of its requests have ended. Nobody is answered.
    pub fn handle_session_over(&mut self, nexus: Nexus, identity: Identity) {
        self.waiting.push_back(Request::SessionOver { nexus, identity });
    }

    /// The steps of this request have been carried out, and the older requests have ended.
    ///
    /// # Panics
    /// When no request with this number is under way.
    pub fn handle_over(&mut self, number: u64) {
        let place = self.under_way.iter().position(|it| it.number == number);
        let place = place.expect("a request is over once");
        if let Request::Change { by, result, .. } = self.under_way.remove(place).request {
            self.answers.push_back((by, result));
        }
    }

    /// The change of this request could not be recorded, so it was not made.
    ///
    /// # Panics
    /// When no request with this number is under way.
    pub fn handle_not_recorded(&mut self, number: u64) {
        if let Request::Change { result, .. } = &mut self.of(number).request {
            *result = ChangeResult::Refused(Refusal::NotRecorded);
        }
        self.handle_over(number);
    }

    /// Begins the next request that waits for no earlier one. The driver calls [`Self::decide`]
    /// with this number.
    pub fn poll_request(&mut self, volumes: &impl Volumes) -> Option<u64> {
        let under_way = self.under_way.iter().flat_map(|it| it.volumes.iter().copied());
        let mut busy: Vec<VolumeId> = under_way.collect();
        let mut ending: Vec<Nexus> = Vec::new();
        for index in 0..self.waiting.len() {
            let concerned = self.concerned(index, volumes);
            let (nexus, is_end) = self.waiting[index].nexus();
            if ending.contains(&nexus) || concerned.iter().any(|volume| busy.contains(volume)) {
                busy.extend(concerned);
                ending.extend(is_end.then_some(nexus));
                continue;
            }
            let request = self.waiting.remove(index)?;
            self.last += 1;
            self.under_way.push(UnderWay { number: self.last, volumes: concerned, request });
            return Some(self.last);
        }
        None
    }

    /// Makes the change of a request that has begun in this copy of the state, and returns what
    /// follows from it. If its record fails, the copy is dropped.
    ///
    /// # Panics
    /// When no request with this number is under way.
    pub fn decide(&mut self, number: u64, volumes: &mut impl Volumes) -> Steps {
        let mut steps = Steps::default();
        match &mut self.of(number).request {
            Request::Change { change, result, .. } => {
                let concerned = volumes_of(volumes, change);
                for volume in &concerned {
                    let part = Change { volume: *volume, ..(**change).clone() };
                    *result = steps.make(volumes, &part);
                }
                if must_wait(change.kind) {
                    steps.quiesce = concerned;
                }
            }
            Request::SessionOver { nexus, identity } => {
                let (nexus, kind) = (*nexus, ChangeKind::NexusLost);
                for volume in volumes.held_by(nexus) {
                    let identity = identity.clone();
                    steps.make(volumes, &Change { volume, nexus, identity, kind });
                }
            }
        }
        steps
    }

    /// The next answer to a session.
    pub fn poll_answer(&mut self) -> Option<(By, ChangeResult)> {
        self.answers.pop_front()
    }

    /// The change of a request that has begun; `None` for the end of a session.
    pub fn change(&self, number: u64) -> Option<&Change> {
        match &self.under_way.iter().find(|it| it.number == number)?.request {
            Request::Change { change, .. } => Some(change),
            Request::SessionOver { .. } => None,
        }
    }

    /// The number of requests that are not over.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.under_way.len()
    }

    /// Whether every request is over.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn of(&mut self, number: u64) -> &mut UnderWay<By> {
        let found = self.under_way.iter_mut().find(|it| it.number == number);
        found.expect("the request has begun, and is not over")
    }

    /// The volumes that a waiting request concerns. For a session that has ended, these are the
    /// volumes that it holds and the volumes of its own changes that wait in front.
    fn concerned(&self, index: usize, volumes: &impl Volumes) -> Vec<VolumeId> {
        match &self.waiting[index] {
            Request::Change { change, .. } => volumes_of(volumes, change),
            Request::SessionOver { nexus, .. } => {
                let own = |earlier: &Request<By>| match earlier {
                    Request::Change { change, .. } if change.nexus == *nexus => Some(change.volume),
                    _ => None,
                };
                let in_front = self.waiting.range(..index).filter_map(own);
                volumes.held_by(*nexus).into_iter().chain(in_front).collect()
            }
        }
    }
}

/// Ends every registration and reservation of a volume, at the operator's request.
///
/// # Errors
/// When no volume has this name, or this node does not have its record.
pub fn clear_reservations(space: &mut Space, name: &Name) -> Result<Steps, VolumeError> {
    let before = space.volume(name).map(|volume| volume.reservations.clone());
    let raised = space.clear_reservations(name)?;
    let mut steps = Steps { raised, ..Steps::default() };
    if let (Some(before), Some(volume)) = (before, space.volume(name)) {
        steps.compare(&before, &volume.reservations);
        steps.quiesce.push(volume.id);
    }
    Ok(steps)
}

/// The volumes that a change concerns: a reset of a target concerns each of its volumes.
fn volumes_of(volumes: &impl Volumes, change: &Change) -> Vec<VolumeId> {
    let is_of_target = matches!(
        change.kind,
        ChangeKind::Reset(ResetScope::Target | ResetScope::TargetAndSessions)
    );
    let of_target = if is_of_target { volumes.of_target(change.volume) } else { Vec::new() };
    if of_target.is_empty() { vec![change.volume] } else { of_target }
}

/// Whether the answer to this change waits until every older request of the volumes has ended.
fn must_wait(kind: ChangeKind) -> bool {
    matches!(
        kind,
        ChangeKind::Reset(_) | ChangeKind::EndTasks(_) | ChangeKind::Preempt { abort: true, .. }
    )
}
