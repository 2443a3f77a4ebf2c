//! Changes of what all sessions of a volume share: registrations, reservations, modes, resets. One
//! at a time: made on a copy, recorded when it is to outlive this run, shown to the cores, told to
//! the sessions that it concerns, and only then answered. So whatever an older state allowed is over
//! when the answer says that it is.

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
use crate::Asked;
use crate::config::ValueError;
use crate::error::NodeError;
use crate::exports::iscsi_access;
use crate::records::Records;

/// The thread that makes the changes which sessions ask for. It ends when the cores have.
pub(crate) struct Changes(JoinHandle<()>);

impl Changes {
    pub(crate) fn start(node: Arc<Node>, asked: Receiver<Asked>) -> io::Result<Self> {
        let make = move || asked.into_iter().for_each(|asked| node.handle_asked(asked));
        Ok(Self(Builder::new().name("changes".to_owned()).spawn(make)?))
    }

    /// Waits for its end. The cores have ended.
    pub(crate) fn join(self) {
        if self.0.join().is_err() {
            tracing::error!("the thread that makes changes had panicked");
        }
    }
}

impl Node {
    fn handle_asked(&self, asked: Asked) {
        match asked {
            Asked::Change { by, change } => {
                let result = self.make_change(&change);
                self.runtime.answer(by, result);
            }
            Asked::SessionOver { nexus, identity } => self.session_over(nexus, &identity),
        }
    }

    /// A session is over: what it held as long as it was there, it holds no more.
    fn session_over(&self, nexus: Nexus, identity: &Identity) {
        let is_held = |volume: &&Volume| volume.reservations.legacy_holder() == Some(nexus);
        let held: Vec<VolumeId> = {
            let served = self.served();
            served.recorded.space.volumes().filter(is_held).map(|volume| volume.id).collect()
        };
        for volume in held {
            let (identity, kind) = (identity.clone(), ChangeKind::NexusLost);
            self.make_change(&Change { volume, nexus, identity, kind });
        }
    }

    fn make_change(&self, change: &Change) -> ChangeResult {
        let _one = self.one_change();
        let mut fresh = self.copy();
        let (result, raised) = apply(&mut fresh.space, change);
        match self.take_over(fresh, raised, must_wait(change.kind)) {
            Ok(()) => result,
            Err(error) => {
                tracing::error!("a change of reservations is refused: {error}");
                ChangeResult::Refused(Refusal::NotRecorded)
            }
        }
    }

    /// Records what is to outlive this run, and shows the cores what they go by. `waits`: every
    /// request that was under way before is to be over, also when nothing else has changed. Sessions are
    /// told before that, since they give up commands because of it: what of these was with a device by
    /// then is waited for.
    fn take_over(
        &self,
        mut fresh: Records,
        raised: Vec<Raised>,
        waits: bool,
    ) -> Result<(), NodeError> {
        let served = self.served().recorded.clone();
        // Nothing is written if all of it ends with this run.
        self.record(&mut fresh)?;
        let differs = |what: &dyn Fn(&Volume, &Volume) -> bool| {
            let both = served.space.volumes().zip(fresh.space.volumes());
            both.into_iter().any(|(old, new)| what(old, new))
        };
        if differs(&|old, new| old.reservations.restriction() != new.reservations.restriction()) {
            self.runtime.publish_volumes(Arc::new(fresh.space.table()));
        }
        if differs(&|old, new| old.reservations.modes() != new.reservations.modes()) {
            self.runtime.publish_iscsi(Arc::new(iscsi_access(&fresh, &self.devices)));
        }
        let volumes = waits.then(|| Arc::new(fresh.space.table()));
        self.served().recorded = fresh;
        if !raised.is_empty() {
            self.runtime.raise(raised);
        }
        if let Some(volumes) = volumes {
            self.runtime.publish_volumes(volumes);
        }
        Ok(())
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
        let _one = self.one_change();
        let mut fresh = self.copy();
        let found = fresh.space.volume(&name);
        let before = found.map(reservation_info);
        let raised = fresh.space.clear_reservations(&name)?;
        self.take_over(fresh, raised, true)?;
        tracing::warn!(volume = name.as_str(), "reservations cleared by the operator");
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

/// A reset of a target is one of each of its volumes.
fn apply(space: &mut Space, change: &Change) -> (ChangeResult, Vec<Raised>) {
    let ChangeKind::Reset(ResetScope::Target | ResetScope::TargetAndSessions) = change.kind else {
        return space.apply(change);
    };
    let Some(meant) = space.volumes().find(|volume| volume.id == change.volume) else {
        return (ChangeResult::Refused(Refusal::VolumeGone), Vec::new());
    };
    let subsystem = meant.subsystem.clone();
    let of_target = space.volumes().filter(|volume| volume.subsystem == subsystem);
    let of_target: Vec<VolumeId> = of_target.map(|volume| volume.id).collect();
    let mut raised = Vec::new();
    for volume in of_target {
        raised.extend(space.apply(&Change { volume, ..change.clone() }).1);
    }
    (ChangeResult::Done, raised)
}

/// Whether everything that was under way before is over when this is answered.
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
