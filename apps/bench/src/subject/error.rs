//! The errors of targets.

use nearflash::url::UrlError;
use nearflash_units::ParseSizeError;

/// The reason why a target is not valid.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum TargetError {
    /// The scheme is unknown.
    #[error(
        "'{text}' is not a valid target: write file:PATH, null:SIZE, nvme-tcp://HOST:PORT/NAME, \
         iscsi://HOST:PORT/NAME, direct://HOST:PORT/VOLUME, direct+tls://HOST:PORT/VOLUME, \
         direct+local:PATH.sock/VOLUME or floor://"
    )]
    Scheme { text: String },
    /// Not a valid URL.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// Not a valid floor.
    #[error(
        "'{text}' is not a valid floor: write floor:// or floor://?headers=REQUEST,ANSWER in bytes"
    )]
    Floor { text: String },
    /// `file:` without a path.
    #[error("'file:' names no file: write file:PATH, for example file:/tmp/test.img")]
    NoPath,
    /// `null:` without a valid size.
    #[error("null: {0}")]
    Size(#[from] ParseSizeError),
    /// The name of the subsystem, target or volume is missing.
    #[error("'{text}' names no volume: append /NAME, a volume's name{or}")]
    NoName { text: String, or: &'static str },
    /// The LUN is not a valid number.
    #[error(
        "'{text}' is not a valid LUN: write a number from 0 to 16383 after the name, for example \
         /data/0"
    )]
    Lun { text: String },
    /// An option that needs another one, such as a user without a secret.
    #[error("'{text}' names {named} without {missing}: append &{missing}=")]
    Half { text: String, named: &'static str, missing: &'static str },
}
