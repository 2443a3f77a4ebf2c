//! The errors of a configuration. Every message is one line that names the flag or key, the fault
//! and the remedy. An error is reported before anything is opened.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use nearflash_access::{
    ParseChapSecretError, ParseChapUserError, ParseGrantPathError, ParseGrantRangeError,
    ParseHostNameError, ParseRightsError,
};
use nearflash_api::socket::NoDataDir;
use nearflash_media::ParseDeviceSpecError;
use nearflash_nvme::NqnError;
use nearflash_nvme::auth::{HostKeysError, KeyError, ParseDhGroupError, ParseHashError};
use nearflash_nvme::tls::{ParseDemandError, ParseDerivationError, PskError};
use nearflash_space::{Name, ParseNameError, ParseProvisioningError};
use nearflash_units::{ByteLen, OneLine, ParseDurationError, ParseSizeError};

/// The source of a value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Origin {
    /// The command line.
    Flag,
    /// A configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// The line of the value, from 1.
        line: usize,
    },
}

/// A flag or a key of a file, as messages name it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Key {
    /// Its source.
    pub origin: Origin,
    /// Its name, without dashes.
    pub name: &'static str,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Flag => write!(f, "--{}", self.name),
            Origin::File { path, line } => {
                write!(f, "{}, line {line}: {}", path.display(), self.name)
            }
        }
    }
}

fn file_remedy(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::InvalidData => "save it as UTF-8",
        io::ErrorKind::FileTooLarge => "split it, or name the right file",
        _ => "correct the path or its permissions",
    }
}

/// An error of the configuration.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}: {}", path.display(), file_remedy(source.kind()))]
    Unreadable { path: PathBuf, source: io::Error },
    /// The file is not valid TOML, or has an unknown key.
    #[error("{}, line {line}: {message}", path.display())]
    Toml {
        path: PathBuf,
        /// The line of the error, from 1.
        line: usize,
        message: Box<str>,
    },
    /// A value is not valid for its key. The source quotes the value.
    #[error("{key}: {}", OneLine(source))]
    Value { key: Key, source: ValueError },
    /// Two devices or two volumes have the same name.
    #[error("{key}: the name '{name}' is used twice: give each its own name")]
    Twice { key: Key, name: Name },
    /// A volume names a device that is not configured.
    #[error("{key}: volume '{volume}' needs device '{device}': add --device {device}=…")]
    NoSuchDevice { key: Key, volume: Name, device: Name },
    /// A volume without a device, at a node without a cluster.
    #[error(
        "{key}: volume '{volume}' has no device, and the node serves no cluster: add the key 'device' to its table"
    )]
    VolumeWithoutDevice { key: Key, volume: Name },
    /// No device is configured.
    #[error("no device: add --device NAME=file:PATH,size=SIZE (or block:, ram:, null:)")]
    NoDevice,
    /// A slice without a cluster.
    #[error("{key}: a slice is a part of a cluster's space: add --cluster")]
    SliceWithoutCluster { key: Key },
    /// A slice that keeps no data.
    #[error(
        "{key}: slice '{name}' would lose what is written to it, and be another slice after each start: use file: or \
         block:, or ram: for tests"
    )]
    SliceKeepsNothing { key: Key, name: Name },
    /// A node of a cluster without a direct door.
    #[error(
        "--cluster: the other nodes reach this one over the direct protocol: add --direct ADDR:PORT"
    )]
    ClusterNeedsDirect,
    /// A node of a cluster whose direct doors all require TLS.
    #[error(
        "--cluster: the other nodes reach this one without TLS: write ,tls=allowed behind an address of \
         --direct, or add another address"
    )]
    ClusterNeedsPlainDirect,
    /// The pool of a node of a cluster has no room for the requests of other nodes.
    #[error(
        "--cluster: a pool of {pool_len} has too little memory for the requests of other nodes: use --pool {least} or more"
    )]
    ClusterPool { pool_len: ByteLen, least: ByteLen },
    /// The process may not run on this processor.
    #[error("{key}: processor {core} is not available: this process may use {allowed}")]
    NoSuchCore {
        key: Key,
        core: usize,
        /// The processors that the process may run on, as a list.
        allowed: Box<str>,
    },
    /// HTTP on the network without a certificate.
    #[error(
        "--http {address}: HTTP on the network needs TLS, also on a loopback address: add \
         --http-cert FILE and --http-key FILE"
    )]
    HttpWithoutTls { address: SocketAddr },
    /// A certificate without HTTP on the network.
    #[error("--http-cert and --http-key: they are for HTTP on the network: add --http ADDR:PORT")]
    TlsWithoutHttp,
    /// Neither a flag nor the environment names the data directory.
    #[error(transparent)]
    NoDataDir(NoDataDir),
}

impl ConfigError {
    /// The line of the error, if it is at a line of a file.
    pub fn line(&self) -> Option<usize> {
        let key = match self {
            Self::Toml { line, .. } => return Some(*line),
            Self::Value { key, .. }
            | Self::Twice { key, .. }
            | Self::NoSuchDevice { key, .. }
            | Self::VolumeWithoutDevice { key, .. }
            | Self::SliceWithoutCluster { key }
            | Self::SliceKeepsNothing { key, .. }
            | Self::NoSuchCore { key, .. } => key,
            Self::Unreadable { .. }
            | Self::NoDevice
            | Self::ClusterNeedsDirect
            | Self::ClusterNeedsPlainDirect
            | Self::ClusterPool { .. }
            | Self::HttpWithoutTls { .. }
            | Self::TlsWithoutHttp
            | Self::NoDataDir(_) => return None,
        };
        match key.origin {
            Origin::Flag => None,
            Origin::File { line, .. } => Some(line),
        }
    }
}

/// The error of one value.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum ValueError {
    /// Not a device.
    #[error(transparent)]
    Device(#[from] ParseDeviceSpecError),
    /// Not a name.
    #[error(transparent)]
    Name(#[from] ParseNameError),
    /// Not an address for pulses.
    #[error(
        "'{0}' is not an address: write IP:PORT, an address that the cluster's other nodes reach"
    )]
    Pulse(Box<str>),
    /// Not whether the end of a pulse is a proof.
    #[error("'{0}' is not 'on' or 'off'")]
    PulseProof(Box<str>),
    /// Not a size.
    #[error(transparent)]
    Size(#[from] ParseSizeError),
    /// Not a volume.
    #[error(
        "'{0}' is not a valid volume: write \
         NAME=SIZE@DEVICE[,block-size=512|4096][,subsystem=NAME][,provisioning=thin|thick]"
    )]
    Volume(Box<str>),
    /// Not a volume of another node.
    #[error("'{0}' is not a volume of another node: write NAME=direct://HOST:PORT/VOLUME")]
    Remote(Box<str>),
    /// Not a placement of a volume of the cluster.
    #[error("'{0}' is not a placement: write spread, local:NODE or central:NODE")]
    Placement(Box<str>),
    /// Not a URL.
    #[error(transparent)]
    Url(#[from] nearflash::direct::UrlError),
    /// Not a block size of a volume.
    #[error("'{0}' is not a valid block size: use 512 or 4096")]
    BlockSize(Box<str>),
    /// Not a kind of provisioning.
    #[error(transparent)]
    Provisioning(#[from] ParseProvisioningError),
    /// Not an address.
    #[error(
        "'{text}' is not a valid address: write IP:PORT, for example 127.0.0.1:{port} or \
         [::1]:{port}"
    )]
    Address { text: Box<str>, port: u16 },
    /// Not an address for HTTP.
    #[error("'{0}' is not a valid address: write IP:PORT, for example 127.0.0.1:4423, or none")]
    Http(Box<str>),
    /// Not an NQN.
    #[error("'{text}' is not a valid host NQN: {source}: write nqn.…, or any")]
    Host { text: Box<str>, source: NqnError },
    /// Not an NQN, where only an NQN is possible.
    #[error("'{text}' is not a valid host NQN: {source}: write nqn.…")]
    HostNqn { text: Box<str>, source: NqnError },
    /// Neither an NQN nor an iSCSI name.
    #[error(transparent)]
    HostName(#[from] ParseHostNameError),
    /// Not an iSCSI name, where only an iSCSI name is possible.
    #[error(
        "'{0}' is not a valid initiator: write its iSCSI name, which begins with iqn., eui. or naa., and has no \
         other characters than letters, digits, '.', '-' and ':'"
    )]
    InitiatorName(Box<str>),
    /// Neither all nor none.
    #[error("'{0}' is not a set of volumes: write all or none")]
    UnlistedHosts(Box<str>),
    /// Not a protocol that stays open.
    #[error(
        "'{0}' is not a protocol that admits peers without keys again: write direct, iscsi or \
         direct,iscsi; NVMe hosts are admitted by --host"
    )]
    Anonymous(Box<str>),
    /// A socket that no URL can name.
    #[error("clients write '{0}' in a URL, and the path ends with .sock there: use {0}.sock")]
    Socket(Box<str>),
    /// Neither on nor off.
    #[error("'{0}' is not on or off")]
    Ktls(Box<str>),
    /// Not a key of DH-HMAC-CHAP.
    #[error(transparent)]
    HostKey(#[from] KeyError),
    /// Both keys of a host are the same.
    #[error(transparent)]
    HostKeys(#[from] HostKeysError),
    /// Not a hash of DH-HMAC-CHAP.
    #[error(transparent)]
    Hash(#[from] ParseHashError),
    /// Not a Diffie-Hellman group.
    #[error(transparent)]
    Group(#[from] ParseDhGroupError),
    /// Not a PSK.
    #[error(transparent)]
    Psk(#[from] PskError),
    /// Not a derivation of TLS PSKs.
    #[error(transparent)]
    Derivation(#[from] ParseDerivationError),
    /// Neither `required` nor `allowed`.
    #[error(transparent)]
    TlsDemand(#[from] ParseDemandError),
    /// An option that needs a PSK.
    #[error("'{0}' is for the PSK of a host: add --psk-file FILE")]
    NeedsPsk(&'static str),
    /// An option that needs a key for DH-HMAC-CHAP.
    #[error("'{0}' is for DH-HMAC-CHAP, and the host has only a PSK: add --dhchap-key FILE")]
    NeedsDhchapKey(&'static str),
    /// A key of a table that needs another one.
    #[error("the key '{key}' needs the key '{other}': add it, or remove '{key}'")]
    NeedsKey { key: &'static str, other: &'static str },
    /// A key of volumes of a cluster for a volume on a device.
    #[error(
        "the key '{0}' is for a volume of a cluster, and this one has a device: remove '{0}', or remove 'device'"
    )]
    KeyOfCluster(&'static str),
    /// Not a whole number, or too large.
    #[error("'{0}' is not a whole number, or too large: write for example 2")]
    Number(Box<str>),
    /// A table for a host that says nothing about it.
    #[error("the host has nothing but its name: add dhchap-key, psk-file or volumes")]
    HostOfNothing,
    /// Not an option of an address.
    #[error(
        "'{0}' is not an option of an NVMe/TCP address: write ADDR:PORT, and behind it ,auth=required, \
         ,tls=required or ,tls=allowed"
    )]
    DoorOption(Box<str>),
    /// Not an option of an address for direct clients.
    #[error(
        "'{0}' is not an option of an address for direct clients: write ADDR:PORT, and behind it \
         ,tls=required or ,tls=allowed"
    )]
    DirectDoorOption(Box<str>),
    /// Neither the name of a host nor that of an initiator.
    #[error(
        "'{text}' is not a valid host: write an NVMe host's NQN (nqn.…), an iSCSI initiator's name \
         (iqn.…, eui.… or naa.…), or any"
    )]
    Initiator { text: Box<str> },
    /// Not the name of a CHAP account.
    #[error(transparent)]
    ChapUser(#[from] ParseChapUserError),
    /// Not a CHAP secret.
    #[error(transparent)]
    ChapSecret(#[from] ParseChapSecretError),
    /// `any` together with names.
    #[error("'any' admits every host, so other names have no effect: write only one of the two")]
    AnyAndOthers,
    /// Not a range.
    #[error(transparent)]
    Range(#[from] ParseGrantRangeError),
    /// Not the path of a grant.
    #[error(transparent)]
    Path(#[from] ParseGrantPathError),
    /// A path together with a range.
    #[error("a grant has a path or a range of bytes, not both: add two grants")]
    PathAndRange,
    /// A resource of a file twice.
    #[error("'{0}' is there twice: remove one of the two")]
    Twice(Box<str>),
    /// A user without a secret for mutual CHAP, or a secret without its user.
    #[error(
        "mutual CHAP needs a user and a secret: write both mutual-user and mutual-secret-file, or \
         neither"
    )]
    HalfMutual,
    /// Not a set of rights.
    #[error(transparent)]
    Rights(#[from] ParseRightsError),
    /// Not a list of processors.
    #[error("'{0}' is not a valid list of processors: write for example 0, 0-3 or 0,2")]
    Cores(Box<str>),
    /// A pool that is too small or too large.
    #[error("'{0}' is not a valid pool size: use 4MiB to 64GiB")]
    Pool(Box<str>),
    /// Not a duration.
    #[error(transparent)]
    Duration(#[from] ParseDurationError),
    /// A login time-out that is too short or too long.
    #[error("'{0}' is not a valid login time-out: use 1s to 5m")]
    LoginTimeout(Box<str>),
    /// A stall time-out that is too short or too long.
    #[error("'{0}' is not a valid stall time-out: use 1s to 5m")]
    StallTimeout(Box<str>),
    /// Not a time for which a core may spin.
    #[error("'{0}' is not a valid time to spin: use 0 to 200us")]
    Spin(Box<str>),
    /// Not a log level.
    #[error("'{0}' is not a valid log level: use error, warn, info, debug or trace")]
    Log(Box<str>),
}
