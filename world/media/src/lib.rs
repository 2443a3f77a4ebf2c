//! Media: the devices that hold blocks. Opens them, finds out what they are, refuses what is not
//! ours to take, and puts our label on what is.
//!
//! Submitting to a device is the reactor's work: it takes a [`Device`]'s [`Kind`]. Knows nothing
//! of volumes, of the catalog or of protocols.
//!
//! A device is taken in two steps, so that a start that is refused has written to none of them:
//! [`open`] looks and refuses, [`Candidate::take`] writes the label.
#![allow(unsafe_code)] // mmap and ioctls; every block says why it is sound

mod aligned;
pub mod check;
mod device;
mod error;
mod file;
mod open;
mod probe;
mod ram;
mod spec;

pub use device::{Device, Kind, NullDelays, UringDevice};
pub use error::OpenError;
pub use file::Storage;
pub use open::{Candidate, Claim, KnownDevice, open, open_after};
pub use ram::RamRegion;
pub use spec::{Backing, DeviceSpec, ParseDeviceSpecError};
