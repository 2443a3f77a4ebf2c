//! The thread that makes the changes which sessions request, and those of the operator.
//!
//! [`Requests`] decides on their order and on the steps of each. This thread records a change if it
//! must outlive this run, publishes it to the cores, and answers when the older requests of its
//! volumes have ended.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::{Builder, JoinHandle};

use nearflash_api::{RegistrantInfo, ReservationInfo};
use nearflash_control::{Requests, Steps, clear_reservations};
use nearflash_publish::Records;
use nearflash_request::Identity;
use nearflash_shard::Message;
use nearflash_space::{Name, Volume, VolumeError};

use super::Node;
use crate::Ticket;
use crate::asker::{AskedBy, Asker, Event};
use crate::error::NodeError;
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

/// The requests of sessions, and the node that carries out their steps.
struct Desk {
    node: Arc<Node>,
    requests: Requests<AskedBy>,
}

impl Desk {
    fn new(node: Arc<Node>) -> Self {
        Self { node, requests: Requests::default() }
    }

    fn serve(mut self, events: &Receiver<Event>) {
        for event in events {
            match event {
                Event::Change { by, change } => self.requests.handle_change(by, change),
                Event::SessionOver { nexus, identity } => {
                    self.requests.handle_session_over(nexus, identity);
                }
                Event::Over(number) => self.requests.handle_over(number),
                Event::Freed(number) => self.node.give_back(number),
                Event::Suspect => self.node.record_suspects(),
                Event::RemoteResized { device, bytes } => self.node.follow(device, bytes),
                Event::End => return,
            }
            self.answer();
            while let Some(number) = self.next() {
                self.carry_out(number);
                self.answer();
            }
        }
    }

    fn next(&mut self) -> Option<u64> {
        self.requests.poll_request(&self.node.served().recorded.space)
    }

    /// Carries out the steps of a request.
    fn carry_out(&mut self, number: u64) {
        let one = self.node.one_change();
        let mut fresh = self.node.copy();
        let steps = self.requests.decide(number, &mut fresh.space);
        let ticket = self.node.take_over(fresh, steps);
        drop(one);
        match ticket {
            Ok(ticket) if ticket.is_over() => self.requests.handle_over(number),
            Ok(ticket) => {
                let asker = self.node.asker.clone();
                ticket.when_over(move || asker.tell(Event::Over(number)));
            }
            Err(error) => {
                tracing::error!("refused a change of reservations: {error}");
                self.requests.handle_not_recorded(number);
            }
        }
    }

    fn answer(&mut self) {
        while let Some((by, result)) = self.requests.poll_answer() {
            let AskedBy { core, owner, volume, tag } = by;
            self.node.cores.tell(core, Message::Changed(owner, (volume, tag), result));
        }
    }
}

impl Node {
    /// Carries out the steps of a change of reservations, which was made on a copy. The ticket is
    /// over when the older requests have ended.
    fn take_over(&self, mut fresh: Records, steps: Steps) -> Result<Ticket, NodeError> {
        if steps.is_recorded {
            self.record(&mut fresh)?;
        }
        let concern_cores = steps.concern_cores();
        let Steps { restricts, changes_modes, raised, quiesce, .. } = steps;
        let mut next = self.next();
        if restricts {
            next.volumes = Arc::new(fresh.space.table());
        }
        if changes_modes {
            next.follow_initiators(&fresh);
        }
        self.adopt(fresh);
        Ok(if concern_cores { self.cores.serve(next, raised, quiesce) } else { Ticket::over() })
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
        let before = fresh.space.volume(&name).map(reservation_info);
        let steps = clear_reservations(&mut fresh.space, &name)?;
        let ticket = self.take_over(fresh, steps)?;
        drop(one);
        tracing::warn!(volume = name.as_str(), "reservations cleared by the operator");
        self.wait_for(&ticket)?;
        Ok(before.ok_or(VolumeError::NotFound(name))?)
    }
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
