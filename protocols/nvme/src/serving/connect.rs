//! Connect: checks which host may connect which queue to which controller. NVMe Base 2.0, 3.3.2.2
//! and 6.3.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use nearflash_request::{Identity, Nexus};
use nearflash_session::Origin;
use nearflash_units::Nanos;

use super::Target;
use super::config::HostAccess;
use super::controller::Controller;
use super::errors::ErrorLog;
use super::events::Events;
use super::features::keep_alive_from_ms;
use super::places::Newcomer;
use super::refusal::Refusal;
use super::reservations::nexus_of;
use super::state::{ControllerKind, Features, Notifications};
use crate::address::TransportAddress;
use crate::auth::Names;
use crate::fabrics::{Connect, ConnectData};
use crate::property::{Configuration, ControllerStatus};
use crate::tls::{Demand, PskIdentity};
use crate::{
    Command, CommandId, CompletionEntry, ControllerId, HostName, NamespaceTable, Nqn, QueueId,
    Status,
};

/// The result of a successful Connect: the connection is now a queue.
#[derive(Clone, Debug)]
pub struct Connected {
    /// The queue's controller.
    pub controller: ControllerId,
    /// The queue's number.
    pub queue: QueueId,
    /// The entries: one more than the commands in flight, unless flow control is disabled.
    pub sq_entries: u32,
    /// The host disables SQ flow control: SQHD is FFFFh in the completion, and then unused.
    pub disable_sq_flow_control: bool,
    /// The kind of queue.
    pub kind: QueueKind,
    /// The namespaces that I/O on the queue can access; empty on a discovery controller.
    pub namespaces: Arc<NamespaceTable>,
    /// The host's identity for reservations.
    pub nexus: Nexus,
    /// The same identity in NVMe's identifiers.
    pub identity: Identity,
    /// The names with which the queue must authenticate before any other command; `None` if it need not.
    pub authentication: Option<Names>,
}

/// How a host has come to the node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Arrival {
    /// The node's address to which the host connected.
    pub local: TransportAddress,
    /// The address from which the host came.
    pub origin: Origin,
    /// Hosts without keys may connect there.
    pub anonymous: bool,
    /// The PSK identity that the host has proved by TLS; `None` without TLS.
    pub tls: Option<PskIdentity>,
}

/// The kind of commands on a queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QueueKind {
    /// Admin commands of an I/O controller.
    Admin,
    /// I/O commands.
    Io,
    /// Admin commands of a discovery controller.
    Discovery,
}

impl Connected {
    /// AUTHREQ.ATR in dword 0 of the completion: the host must authenticate with Authentication Send and
    /// Receive.
    pub const AUTHENTICATION_REQUIRED: u32 = 1 << 17;

    /// The completion of the Connect. NVMe Base 2.0, 6.3.
    pub fn completion(&self, cid: CommandId) -> CompletionEntry {
        let required = self.authentication.is_some();
        let required = if required { Self::AUTHENTICATION_REQUIRED } else { 0 };
        let result = u32::from(self.controller.0) | required;
        let completion = CompletionEntry::with_result(cid, Status::SUCCESS, result);
        let sq_head = if self.disable_sq_flow_control { 0xFFFF } else { 0 };
        CompletionEntry { sq_head: sq_head.into(), ..completion }
    }
}

/// A Connect whose names are valid.
struct Wanted<'a> {
    now: Nanos,
    connect: Connect,
    data: &'a ConnectData,
    subsystem: Nqn,
    host: HostName,
    arrival: Arrival,
    /// The host has keys, and must authenticate here.
    authenticates: bool,
}

impl Wanted<'_> {
    fn newcomer(&self, kind: ControllerKind) -> Newcomer<'_> {
        let is_open = !self.authenticates && self.arrival.tls.is_none();
        Newcomer { kind, host: &self.host, origin: self.arrival.origin, is_open }
    }

    fn names(&self) -> Option<Names> {
        match &self.host {
            HostName::Named(host) if self.authenticates => {
                Some(Names { host: host.clone(), subsystem: self.subsystem.clone() })
            }
            HostName::Named(_) | HostName::Unnamed => None,
        }
    }
}

/// Checks that the names of a Connect are those that the host has proved by TLS.
fn check_identity(proved: &PskIdentity, host: &HostName, subsystem: &Nqn) -> Result<(), Refusal> {
    if !matches!(host, HostName::Named(host) if *host == proved.host) {
        return Err(Refusal::host());
    }
    if proved.subsystem != *subsystem {
        return Err(Refusal::data(ConnectData::SUBSYSTEM_OFFSET));
    }
    Ok(())
}

impl Target {
    /// Handles the first command on a connection. It turns the connection into a queue and, for an
    /// admin queue, creates the controller.
    ///
    /// # Errors
    /// The refusal for the host, if it may not connect or a parameter is not valid.
    pub fn connect(
        &mut self,
        now: Nanos,
        command: &Command,
        data: &ConnectData,
        arrival: Arrival,
    ) -> Result<Connected, Refusal> {
        let wanted = self.check_parameters(now, command.as_connect(), data, arrival)?;
        if wanted.connect.queue.is_admin() {
            self.connect_admin(&wanted)
        } else {
            self.connect_io(&wanted)
        }
    }

    /// Checks the parameters that both kinds of queues share.
    fn check_parameters<'a>(
        &self,
        now: Nanos,
        connect: Connect,
        data: &'a ConnectData,
        arrival: Arrival,
    ) -> Result<Wanted<'a>, Refusal> {
        if connect.record_format != 0 {
            return Err(Refusal::finally(Status::CONNECT_INCOMPATIBLE_FORMAT));
        }
        let entries_max = u32::from(self.config.limits.queue_entries_max);
        if !(2..=entries_max).contains(&connect.queue_entries()) {
            return Err(Refusal::command(Connect::QUEUE_ENTRIES_OFFSET));
        }
        let subsystem = data.subsystem.get();
        let subsystem = subsystem.map_err(|_| Refusal::data(ConnectData::SUBSYSTEM_OFFSET))?;
        let host = data.host.host().map_err(|_| Refusal::data(ConnectData::HOST_OFFSET))?;
        if host == HostName::Unnamed && self.config.hosts != HostAccess::Any {
            return Err(Refusal::data(ConnectData::HOST_OFFSET));
        }
        let tls = self.keyed_hosts.tls(&host);
        if let Some(proved) = &arrival.tls {
            check_identity(proved, &host, &subsystem)?;
            // The PSK may be removed since the handshake.
            tls.ok_or(Refusal::host())?;
        }
        let is_keyed = self.keyed_hosts.authenticates(&host);
        let has_proof = is_keyed || arrival.tls.is_some();
        // Any host may connect for discovery. The log lists subsystems only for hosts that may
        // connect.
        let discovers = subsystem.is_discovery();
        let is_admitted = self.config.hosts.admits(&host) && !self.keyed_hosts.is_removed(&host);
        let needs_no_key = arrival.anonymous && (discovers || is_admitted);
        let must_use_tls = tls == Some(Demand::Required);
        let lacks_tls = must_use_tls && arrival.tls.is_none() && !(discovers && arrival.anonymous);
        if lacks_tls || !(has_proof || needs_no_key) {
            return Err(Refusal::host());
        }
        // A controller remains while its host loses volumes, and may have none for a while.
        let is_there = self.subsystems.contains_key(&subsystem);
        let sees_it = is_there && (!connect.queue.is_admin() || self.sees(&host, &subsystem));
        if !(discovers || sees_it) {
            // The same for a subsystem that does not exist: a host learns no names that are not in its list.
            return Err(Refusal::data(ConnectData::SUBSYSTEM_OFFSET));
        }
        if !discovers && self.host_ids.is_of_another(&data.host_id, &host) {
            return Err(Refusal::data(ConnectData::HOST_ID_OFFSET));
        }
        let authenticates = is_keyed && !(discovers && arrival.anonymous);
        Ok(Wanted { now, connect, data, subsystem, host, arrival, authenticates })
    }

    fn connect_admin(&mut self, wanted: &Wanted<'_>) -> Result<Connected, Refusal> {
        if wanted.data.controller_id() != ControllerId::DYNAMIC {
            return Err(Refusal::data(ConnectData::CONTROLLER_ID_OFFSET));
        }
        let discovery = wanted.subsystem.is_discovery();
        if !discovery && !wanted.authenticates && wanted.arrival.tls.is_some() {
            self.host_ids.take(&wanted.data.host_id, &wanted.host);
        }
        let kind = if discovery { ControllerKind::Discovery } else { ControllerKind::Io };
        self.find_place(&wanted.newcomer(kind))?;
        let id = self.free_controller_id();
        let id = id.ok_or(Refusal::for_now(Status::CONNECT_CONTROLLER_BUSY))?;
        let controller = Controller {
            id,
            kind,
            view: self.view_of(&wanted.subsystem, &wanted.host),
            subsystem: wanted.subsystem.clone(),
            host: wanted.host.clone(),
            host_id: wanted.data.host_id,
            nexus: nexus_of(&wanted.data.host_id, &wanted.subsystem),
            local: wanted.arrival.local,
            origin: wanted.arrival.origin,
            authenticates: wanted.authenticates,
            secured: wanted.arrival.tls.is_some(),
            awaits_authentication: wanted.authenticates,
            configuration: Configuration::default(),
            status: ControllerStatus::default(),
            keep_alive: keep_alive_from_ms(kind, wanted.connect.keep_alive_ms),
            heard_at: wanted.now,
            features: Features::new(kind, &self.config.limits),
            events: Events::default(),
            event_requests: VecDeque::new(),
            changed_namespaces: BTreeSet::new(),
            notifications: Notifications::default(),
            changing: Vec::new(),
            errors: ErrorLog::default(),
            queues: BTreeMap::new(),
        };
        self.controllers.insert(id, controller);
        let kind = if discovery { QueueKind::Discovery } else { QueueKind::Admin };
        Ok(self.connected(wanted, id, kind))
    }

    fn connect_io(&mut self, wanted: &Wanted<'_>) -> Result<Connected, Refusal> {
        let queue = wanted.connect.queue;
        let id = wanted.data.controller_id();
        let has_share = self.has_queue_left(&wanted.newcomer(ControllerKind::Io));
        let controller = self.controllers.get_mut(&id);
        let controller = controller.filter(|it| it.subsystem == wanted.subsystem);
        let controller = controller.ok_or(Refusal::data(ConnectData::CONTROLLER_ID_OFFSET))?;
        if controller.host != wanted.host {
            return Err(Refusal::data(ConnectData::HOST_OFFSET));
        }
        if controller.host_id != wanted.data.host_id {
            return Err(Refusal::data(ConnectData::HOST_ID_OFFSET));
        }
        if controller.secured != wanted.arrival.tls.is_some() {
            return Err(Refusal::host());
        }
        if controller.authenticates != wanted.authenticates {
            return Err(Refusal::for_now(Status::CONNECT_CONTROLLER_BUSY));
        }
        let has_queue = controller.kind == ControllerKind::Io
            && queue.0 <= controller.features.queues
            && controller.status.is_ready()
            && !controller.status.is_shutdown_complete();
        if !has_queue {
            return Err(Refusal::command(Connect::QUEUE_OFFSET));
        }
        if !has_share {
            return Err(Refusal::for_now(Status::CONNECT_CONTROLLER_BUSY));
        }
        let state = controller.queues.entry(queue).or_default();
        if state.open {
            // The connection may be lost without the target knowing it yet.
            return Err(Refusal::for_now(Status::COMMAND_SEQUENCE_ERROR));
        }
        state.open = true;
        Ok(self.connected(wanted, id, QueueKind::Io))
    }

    fn connected(&self, wanted: &Wanted<'_>, id: ControllerId, kind: QueueKind) -> Connected {
        let view = &self.controllers[&id].view;
        Connected {
            controller: id,
            queue: wanted.connect.queue,
            sq_entries: wanted.connect.queue_entries(),
            disable_sq_flow_control: wanted.connect.disables_sq_flow_control(),
            kind,
            namespaces: Arc::clone(&view.table),
            nexus: nexus_of(&wanted.data.host_id, &wanted.subsystem),
            identity: Identity::Nvme { host_id: wanted.data.host_id, controller: id.0 },
            authentication: wanted.names(),
        }
    }

    /// The next unused number. Numbers are reused as late as possible, so that a host that missed
    /// the end of its controller does not connect to another host's.
    fn free_controller_id(&mut self) -> Option<ControllerId> {
        let (first, last) =
            (*self.config.controller_ids.start(), *self.config.controller_ids.end());
        for _ in first..=last {
            let id = self.controller_next;
            self.controller_next = ControllerId(if id.0 >= last { first } else { id.0 + 1 });
            if !self.controllers.contains_key(&id) {
                return Some(id);
            }
        }
        None
    }
}
