//! Media: the devices that hold blocks. This crate opens and probes them, refuses those that hold
//! foreign data, and writes the label on the others.
//!
//! The reactor submits operations: it takes a [`Device`]'s [`Kind`]. This crate knows nothing about
//! volumes, the catalog or protocols.
//!
//! A device is taken in two steps, so that a start that fails has written to no device: [`open`]
//! inspects and refuses, [`Candidate::take`] writes the label. The same applies to slices of a cluster:
//! [`open_slice`] and [`SliceCandidate::take`]. The second step may also come later, while the node runs:
//! [`SliceCandidate::hold`] and [`HeldSlice::begin`].
#![allow(unsafe_code)] // mmap and ioctls; every block says why it is sound

mod aligned;
mod boot;
pub mod check;
mod device;
mod error;
mod file;
mod holder;
mod model;
mod open;
mod probe;
mod ram;
mod same;
mod slice;
mod slice_notes;
mod spec;

pub use boot::boot;
pub use device::{Device, FileRoom, Kind, UringDevice};
pub use error::OpenError;
pub use file::Storage;
pub use model::ModelDevice;
pub use nearflash_flash::model::{FlashWear, PcmWear, Wear};
pub use open::{Candidate, Claim, KnownDevice, open, open_after};
pub use probe::{FILES, PROBE_LEN, recognised, what_it_holds};
pub use ram::RamRegion;
pub use same::check_distinct;
pub use slice::{HeldSlice, Slice, SliceCandidate, open_slice};
pub use slice_notes::SliceNotes;
pub use spec::{Backing, DeviceSpec, ModelConfig, ModelSpec, NullDelays, ParseDeviceSpecError};
