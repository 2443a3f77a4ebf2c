//! The status of a target: its subsystems and connected hosts.

use nearflash_units::Nanos;
use uuid::Uuid;

use super::Target;
use super::controller::Controller;
use super::state::ControllerKind;
use crate::{ControllerId, HostName, NamespaceId, Nqn, QueueId};

/// All subsystems and hosts of a node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TargetStatus {
    /// Sorted by name.
    pub subsystems: Vec<SubsystemStatus>,
    /// Sorted by controller number.
    pub hosts: Vec<HostStatus>,
}

/// A subsystem.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SubsystemStatus {
    /// Its name.
    pub nqn: Nqn,
    /// Its serial number.
    pub serial: String,
    /// Its namespaces.
    pub namespaces: Vec<NamespaceId>,
}

/// A host's association with a subsystem.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostStatus {
    /// The host's controller.
    pub controller: ControllerId,
    /// The kind of controller.
    pub kind: ControllerKind,
    /// The subsystem.
    pub subsystem: Nqn,
    /// The host's name.
    pub host: HostName,
    /// The host's identifier.
    pub host_id: Uuid,
    /// The host has enabled the controller.
    pub ready: bool,
    /// The keep-alive timeout; `None` if the timer is off.
    pub keep_alive: Option<Nanos>,
    /// Its I/O queues.
    pub queues: Vec<QueueId>,
}

impl Target {
    /// The subsystems and the connected hosts.
    pub fn status(&self) -> TargetStatus {
        let subsystems = self.subsystems.iter().map(|(nqn, subsystem)| SubsystemStatus {
            nqn: nqn.clone(),
            serial: subsystem.serial.text(),
            namespaces: subsystem.all.namespaces.keys().copied().collect(),
        });
        let hosts = self.controllers.values().map(host_status);
        TargetStatus { subsystems: subsystems.collect(), hosts: hosts.collect() }
    }
}

fn host_status(controller: &Controller) -> HostStatus {
    HostStatus {
        controller: controller.id,
        kind: controller.kind,
        subsystem: controller.subsystem.clone(),
        host: controller.host.clone(),
        host_id: Uuid::from_bytes(controller.host_id),
        ready: controller.status.is_ready(),
        keep_alive: controller.keep_alive,
        queues: controller.open_queues().collect(),
    }
}
