//! What is wrong with a configuration. Every message is one line that names where it stands, what
//! is wrong, and the remedy; nothing has been opened when one is reported.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use nearflash_access::{
    ParseChapSecretError, ParseChapUserError, ParseGrantRangeError, ParseRightsError,
};
use nearflash_api::socket::NoDataDir;
use nearflash_media::ParseDeviceSpecError;
use nearflash_nvme::NqnError;
use nearflash_space::{Name, ParseNameError, ParseProvisioningError};
use nearflash_units::{OneLine, ParseDurationError, ParseSizeError};

/// Where a value was written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Origin {
    /// On the command line.
    Flag,
    /// In a file.
    File(PathBuf),
}

/// A key, as the user finds it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Key {
    /// Where it stands.
    pub origin: Origin,
    /// Its name, without dashes.
    pub name: &'static str,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Flag => write!(f, "--{}", self.name),
            Origin::File(path) => write!(f, "{}: {}", path.display(), self.name),
        }
    }
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("--config {}: {source}: correct the path or its permissions", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is no TOML, or has a key that there is not.
    #[error("{}, line {line}: {message}", path.display())]
    Toml {
        /// Which file.
        path: PathBuf,
        /// Where in it.
        line: usize,
        /// What the reader said.
        message: Box<str>,
    },
    /// A value is not what the key wants. What is wrong quotes it.
    #[error("{key}: {}", OneLine(source))]
    Value {
        /// Of which key.
        key: Key,
        /// What is wrong with it.
        source: ValueError,
    },
    /// Two devices or volumes of one name.
    #[error("{key}: '{name}' is named twice: give each its own name")]
    Twice {
        /// Of which key.
        key: Key,
        /// Which name.
        name: Name,
    },
    /// A volume on a device that is not configured.
    #[error("{key}: volume '{volume}' is to lie on '{device}': add --device {device}=…")]
    NoSuchDevice {
        /// Of which key.
        key: Key,
        /// Which volume.
        volume: Name,
        /// Which device.
        device: Name,
    },
    /// No device at all.
    #[error("no device: add --device NAME=file:PATH,size=SIZE (or block:, ram:, null:)")]
    NoDevice,
    /// An address that other machines can reach, and nobody said who may.
    #[error(
        "{key}: {address} can be reached from other machines: say which hosts may connect with \
         --host NQN (repeatable), or --host any"
    )]
    OpenDoor {
        /// Of which key.
        key: Key,
        /// Which address.
        address: SocketAddr,
    },
    /// A processor that the process may not use.
    #[error("{key}: processor {core} is not to be had: this process may use {allowed}")]
    NoSuchCore {
        /// Of which key.
        key: Key,
        /// Which processor.
        core: usize,
        /// Those it may use, as they are written.
        allowed: Box<str>,
    },
    /// Neither flag nor environment says where the data are.
    #[error(transparent)]
    NoDataDir(NoDataDir),
}

/// What is wrong with one value.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ValueError {
    /// No device.
    #[error(transparent)]
    Device(#[from] ParseDeviceSpecError),
    /// No name.
    #[error(transparent)]
    Name(#[from] ParseNameError),
    /// No size.
    #[error(transparent)]
    Size(#[from] ParseSizeError),
    /// No volume.
    #[error(
        "'{0}' is not a volume: write NAME=SIZE@DEVICE[,block-size=512|4096][,subsystem=NAME]\
         [,provisioning=thin|thick]"
    )]
    Volume(Box<str>),
    /// A block size that volumes cannot have.
    #[error("'{0}' is not a block size: volumes have blocks of 512 or 4096 bytes")]
    BlockSize(Box<str>),
    /// No provisioning.
    #[error(transparent)]
    Provisioning(#[from] ParseProvisioningError),
    /// No address.
    #[error("'{text}' is not an address: write IP:PORT, as 127.0.0.1:{port} or [::1]:{port}")]
    Address {
        /// What was written.
        text: Box<str>,
        /// The usual port.
        port: u16,
    },
    /// No NQN.
    #[error("'{text}' is not a host's NQN: {source}: write nqn.…, or any")]
    Host {
        /// What was written.
        text: Box<str>,
        /// What is wrong with it.
        source: NqnError,
    },
    /// No name of a host, nor of an initiator.
    #[error(
        "'{text}' is not a host: write an NVMe host's NQN (nqn.…), an iSCSI initiator's name (iqn.…, \
         eui.… or naa.…), or any"
    )]
    Initiator {
        /// What was written.
        text: Box<str>,
    },
    /// No CHAP user.
    #[error(transparent)]
    ChapUser(#[from] ParseChapUserError),
    /// No CHAP secret.
    #[error(transparent)]
    ChapSecret(#[from] ParseChapSecretError),
    /// `any` beside names.
    #[error(
        "'any' lets in every host, so naming others means nothing: write the one or the others"
    )]
    AnyAndOthers,
    /// No range.
    #[error(transparent)]
    Range(#[from] ParseGrantRangeError),
    /// No rights.
    #[error(transparent)]
    Rights(#[from] ParseRightsError),
    /// No list of processors.
    #[error("'{0}' is not a list of processors: write 0, 0-3 or 0,2")]
    Cores(Box<str>),
    /// A pool too small or too large.
    #[error("'{0}' is not a pool: it has 4MiB to 64GiB")]
    Pool(Box<str>),
    /// A time that is written wrongly.
    #[error(transparent)]
    Duration(#[from] ParseDurationError),
    /// A time to log in that is too short or too long.
    #[error("'{0}' is not a login time-out: it is 1s to 5m")]
    LoginTimeout(Box<str>),
    /// No log level.
    #[error("'{0}' is not a log level: write error, warn, info, debug or trace")]
    Log(Box<str>),
}
