//! The doors as the cores have them: listeners, and TLS.

use std::sync::Arc;

use nearflash_nvme::hosts::HostTable;
use nearflash_nvme::tls::DoorTls;
use nearflash_reactor::{Listener, Tls};
use nearflash_shard::Door;

use crate::config::{Admits, Protocol};
use crate::runtime_face::{DoorSocket, OpenDoor, StartError};

/// TLS with the PSKs of these hosts, if a door has it.
pub(super) fn tls_of(
    doors: &[OpenDoor],
    hosts: &HostTable,
) -> Result<Option<Arc<Tls>>, StartError> {
    if doors.iter().all(|door| door.tls == DoorTls::Off) {
        return Ok(None);
    }
    Ok(Some(Arc::new(Tls::new(hosts.tls()).map_err(StartError::new)?)))
}

/// The listener of a door.
pub(super) fn listener(open: OpenDoor) -> Listener {
    let anonymous = open.admits == Admits::Unproven;
    let local = matches!(open.socket, DoorSocket::Local(_));
    let door = match open.protocol {
        Protocol::NvmeTcp => Door::NvmeTcp { anonymous },
        Protocol::Direct => Door::Direct { anonymous, local },
        Protocol::Iscsi => Door::Iscsi { anonymous },
    };
    let socket = match open.socket {
        DoorSocket::Tcp { listener, .. } => listener.into(),
        DoorSocket::Local(listener) => listener.into(),
    };
    Listener { door, tls: open.tls, socket }
}
