//! The JSON documents that programs read: the ready line, and the requests and answers of the
//! control socket. Each says its schema; fields are only ever added.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use zeroize::Zeroize;

/// What every document says of itself.
pub const SCHEMA: u32 = 1;

/// A document, with its schema number first.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Document<T> {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What it says.
    #[serde(flatten)]
    pub body: T,
}

impl<T: Serialize> Document<T> {
    /// A document that says that.
    pub fn new(body: T) -> Self {
        Self { schema: SCHEMA, body }
    }

    /// As one line, without the line's end.
    ///
    /// # Panics
    /// Never: documents are plain data.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("documents are plain data")
    }
}

/// The node serves. Printed on stdout once hosts can connect.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Ready {
    /// `ready`.
    pub event: String,
    /// The addresses that NVMe/TCP hosts connect to, as bound.
    pub nvme_tcp: Vec<SocketAddr>,
    /// The addresses that direct clients connect to, as bound.
    #[serde(default)]
    pub direct: Vec<SocketAddr>,
    /// The socket that direct clients of this machine connect to.
    #[serde(default)]
    pub direct_local: Option<PathBuf>,
    /// The addresses that iSCSI initiators connect to, as bound.
    #[serde(default)]
    pub iscsi: Vec<SocketAddr>,
    /// The control socket.
    pub control: PathBuf,
    /// Every volume.
    pub volumes: Vec<VolumeInfo>,
    /// The process.
    pub pid: u32,
}

/// A volume.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct VolumeInfo {
    /// What it is called.
    pub name: String,
    /// The subsystem it is exported in.
    pub nqn: String,
    /// Its namespace's number there.
    pub nsid: u32,
    /// Its identity.
    pub uuid: Uuid,
    /// Its size.
    pub bytes: u64,
    /// The size of its blocks.
    pub block_size: u32,
    /// The device it lies on.
    pub device: String,
    /// `thin`, if deallocated blocks are released where the device can do that, or `thick`.
    #[serde(default = "thin")]
    pub provisioning: String,
}

/// What all volumes of nodes that do not say it are.
fn thin() -> String {
    "thin".to_owned()
}

/// A device.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DeviceInfo {
    /// What it is called.
    pub name: String,
    /// `file`, `block`, `ram` or `null`.
    pub kind: String,
    /// Its identity.
    pub uuid: Uuid,
    /// Its size.
    pub bytes: u64,
    /// How much of it volumes may have.
    pub data_bytes: u64,
    /// How much of that no volume has.
    pub free_bytes: u64,
    /// The smallest unit that it writes whole.
    pub block_size: u32,
    /// Completed writes may be lost with power until a flush.
    pub volatile_cache: bool,
}

/// A core's counters since the start.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct CoreInfo {
    /// The processor.
    pub core: usize,
    /// TCP connections now.
    pub connections: u64,
    /// Requests in flight now.
    pub in_flight: u64,
    /// Reads answered.
    pub reads: u64,
    /// Writes answered.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// The pool's bytes not taken.
    pub pool_free_bytes: u64,
    /// Direct clients now.
    #[serde(default)]
    pub clients: u64,
}

/// A host's association with a subsystem.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct HostInfo {
    /// The host's NQN.
    pub host: String,
    /// What it is connected to.
    pub nqn: String,
    /// Where it comes from.
    pub address: SocketAddr,
    /// How many I/O queues it has.
    pub io_queues: u32,
}

/// A direct client's connection.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ClientInfo {
    /// Its address, or its process on this machine.
    pub from: String,
    /// The credential that it came in by; absent when it is anonymous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// It has been let in.
    pub is_in: bool,
    /// The processor that serves it.
    pub core: usize,
    /// Its requests in flight now.
    pub in_flight: u64,
}

/// An iSCSI session.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct InitiatorInfo {
    /// What the initiator calls itself.
    pub initiator: String,
    /// What it is logged in to; absent when it only asks what there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The CHAP user that it came in by; absent when it needed none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Where its first connection comes from.
    pub address: SocketAddr,
    /// How many it has.
    pub connections: u32,
    /// The processor that serves it.
    pub core: usize,
}

/// How a node is.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Status {
    /// Of the program.
    pub version: String,
    /// The installation.
    pub node: Uuid,
    /// The process.
    pub pid: u32,
    /// How long it has been serving.
    pub uptime_seconds: u64,
    /// The addresses that NVMe/TCP hosts connect to.
    pub nvme_tcp: Vec<SocketAddr>,
    /// The addresses that direct clients connect to.
    #[serde(default)]
    pub direct: Vec<SocketAddr>,
    /// The socket that direct clients of this machine connect to.
    #[serde(default)]
    pub direct_local: Option<PathBuf>,
    /// The addresses that iSCSI initiators connect to.
    #[serde(default)]
    pub iscsi: Vec<SocketAddr>,
    /// Every device.
    pub devices: Vec<DeviceInfo>,
    /// Every volume.
    pub volumes: Vec<VolumeInfo>,
    /// Every core.
    pub cores: Vec<CoreInfo>,
    /// Every connected host.
    pub hosts: Vec<HostInfo>,
    /// Direct clients: the first thousand of each core.
    #[serde(default)]
    pub clients: Vec<ClientInfo>,
    /// iSCSI sessions.
    #[serde(default)]
    pub initiators: Vec<InitiatorInfo>,
}

/// A CHAP user; never its secrets.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ChapInfo {
    /// What the initiator calls itself.
    pub user: String,
    /// What the node calls itself to it; absent when it does not prove itself in return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_user: Option<String>,
}

/// What a volume is reserved for, and who has registered.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ReservationInfo {
    /// The volume.
    pub volume: String,
    /// What is reserved; absent when nothing is. `exclusive-by-session` is the older reservation of
    /// SCSI, which ends with the session that took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// It outlives a restart.
    pub persists: bool,
    /// Everyone registered.
    pub registrants: Vec<RegistrantInfo>,
}

/// Someone registered with a volume.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RegistrantInfo {
    /// An initiator's name and part of the session, or a host's identifier.
    pub who: String,
    /// Its key, in hexadecimal.
    pub key: String,
    /// It holds the reservation.
    pub holds: bool,
}

/// What the node is to prove itself with in return.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ChapMutual {
    /// What it calls itself.
    pub user: String,
    /// Its secret; drawn, and answered this once, unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretText>,
}

/// A credential; never its secret.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct CredentialInfo {
    /// Its key id.
    pub id: String,
    /// When it ends, in seconds since 1970; never, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// It has ended.
    pub expired: bool,
    /// How many grants it has.
    pub grants: usize,
}

/// A grant.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct GrantInfo {
    /// Which; never given twice.
    pub number: u64,
    /// Whose.
    pub credential: String,
    /// On which volume.
    pub volume: String,
    /// The first byte that is meant.
    pub start: u64,
    /// The first byte that is not; absent, the range goes to the volume's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// `r` or `rw`.
    pub rights: String,
    /// When it ends, in seconds since 1970; never, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// It has ended.
    pub expired: bool,
}

/// A secret, as text. Shown in the one document that hands it out, and by no `Debug`.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct SecretText(pub String);

impl Drop for SecretText {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}

/// What is asked on the control socket.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Make a volume.
    VolumeCreate {
        /// What it is to be called.
        name: String,
        /// How large.
        bytes: u64,
        /// On which device.
        device: String,
        /// In blocks of this size; 4096 unless said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        block_size: Option<u32>,
        /// In which subsystem; one of its own unless said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subsystem: Option<String>,
        /// `thin` or `thick`; thin unless said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provisioning: Option<String>,
    },
    /// Name every volume.
    VolumeList,
    /// Make a volume longer or shorter.
    VolumeResize {
        /// Which.
        name: String,
        /// Its new size.
        bytes: u64,
        /// It may become shorter.
        #[serde(default)]
        shrink: bool,
    },
    /// Remove a volume and all that is in it.
    VolumeRemove {
        /// Which.
        name: String,
        /// Although hosts are connected to its subsystem.
        #[serde(default)]
        force: bool,
    },
    /// Make a credential. It may do nothing until it is granted something.
    CredentialCreate {
        /// Its key id.
        id: String,
        /// When it is to end, in seconds since 1970; never, unless said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<u64>,
    },
    /// Name every credential.
    CredentialList,
    /// Remove a credential and every grant of it.
    CredentialRemove {
        /// Which.
        id: String,
    },
    /// Let a credential do something.
    GrantAdd {
        /// Which.
        credential: String,
        /// On which volume.
        volume: String,
        /// From this byte on; from the first unless said.
        #[serde(default)]
        start: u64,
        /// Up to this byte, which is not meant itself; to the volume's end unless said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<u64>,
        /// `r` or `rw`.
        rights: String,
        /// When it is to end, in seconds since 1970; never, unless said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<u64>,
    },
    /// Name every grant.
    GrantList {
        /// Of this credential alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        credential: Option<String>,
    },
    /// Take a grant away.
    GrantRevoke {
        /// Which.
        number: u64,
    },
    /// Make a CHAP user.
    ChapAdd {
        /// What the initiator is to call itself.
        user: String,
        /// What it proves that it knows; drawn, and answered this once, unless said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<SecretText>,
        /// What the node proves itself with in return, if it is asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mutual: Option<ChapMutual>,
    },
    /// Name every CHAP user.
    ChapList,
    /// Remove a CHAP user, and end its sessions.
    ChapRemove {
        /// Which.
        user: String,
    },
    /// Say who has registered with volumes and reserved them.
    ReservationList {
        /// With this volume alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        volume: Option<String>,
    },
    /// End every registration and reservation of a volume.
    ReservationClear {
        /// Which.
        volume: String,
    },
    /// Say how the node is.
    Status,
}

/// What is answered.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// It was not done.
    Error {
        /// Why, in one line that names the thing and the remedy.
        error: String,
    },
    /// The volume as it is now; as it was, when it has been removed.
    Volume {
        /// Which.
        volume: VolumeInfo,
    },
    /// How the node is.
    Status(Box<Status>),
    /// Every volume. After [`Self::Status`], which has them too.
    Volumes {
        /// In the order of their names.
        volumes: Vec<VolumeInfo>,
    },
    /// A credential was made.
    CredentialMade {
        /// Which.
        credential: CredentialInfo,
        /// Its secret, this once.
        secret: SecretText,
    },
    /// The credential as it was. After [`Self::CredentialMade`], which has it too.
    Credential {
        /// Which.
        credential: CredentialInfo,
    },
    /// Every credential.
    Credentials {
        /// In the order of their key ids.
        credentials: Vec<CredentialInfo>,
    },
    /// The grant as it is now; as it was, when it has been revoked.
    Grant {
        /// Which.
        grant: GrantInfo,
    },
    /// The grants that were asked for.
    Grants {
        /// In the order of their numbers.
        grants: Vec<GrantInfo>,
    },
    /// The CHAP user as it is now; as it was, when it has been removed.
    Account {
        /// Which.
        account: ChapInfo,
        /// The secret that was drawn for it, this once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<SecretText>,
        /// The one that was drawn for the node, this once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mutual_secret: Option<SecretText>,
    },
    /// What is no more.
    Reservation {
        /// As it was.
        reservation: ReservationInfo,
    },
    /// The reservations that were asked for.
    Reservations {
        /// In the order of their volumes' names.
        reservations: Vec<ReservationInfo>,
    },
    /// Every CHAP user.
    Accounts {
        /// In the order of their names.
        accounts: Vec<ChapInfo>,
    },
}

#[cfg(test)]
mod tests;
