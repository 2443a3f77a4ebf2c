//! The doors as the cores have them: listeners, and TLS.

use std::sync::Arc;

use nearflash_nvme::tls::TlsHosts;
use nearflash_publish::Served;
use nearflash_reactor::{Listener, Records, Tls};
use nearflash_session::DoorTls;
use nearflash_shard::{DirectConfig, Door};

use super::config::CoresError;
use crate::doors::{DoorSocket, OpenDoor};
use nearflash_config::{Admits, Protocol};

/// TLS with the PSKs of the hosts, and with those of the keys of direct clients, if a door has it.
pub(super) fn tls_of(
    (doors, ktls): (&[OpenDoor], bool),
    hosts: TlsHosts,
    (served, direct): (&Served, &DirectConfig),
) -> Result<Option<Arc<Tls>>, CoresError> {
    if doors.iter().all(|door| door.tls == DoorTls::Off) {
        return Ok(None);
    }
    let records = if ktls { Records::Kernel } else { Records::UserSpace }.where_possible();
    let tls = Tls::new(hosts, Arc::clone(&served.direct), direct.salt, records);
    let tls = tls.map_err(CoresError::new)?;
    tracing::info!(in_kernel = records == Records::Kernel, "records of TLS");
    Ok(Some(Arc::new(tls)))
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
