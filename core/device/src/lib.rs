//! The vocabulary of devices: ids, operations, results, and the properties that the layers above
//! depend on. Pure.
//!
//! This crate has no notion of volumes beyond their UUIDs, of requests, or of how a device is opened.

mod believed;
mod cause;
mod device;
mod failures;
mod health;
mod mirror_key;
mod on_disk;
mod unflushed;

pub use believed::Believed;
pub use cause::{Cause, Owner};
pub use device::{
    DeviceId, DeviceOperation, DeviceProperties, DeviceRequest, DeviceResult, OperationId, RUN_UNIT,
};
pub use health::{DOUBT_MAX, Health, Promise, Success};
pub use mirror_key::MirrorKey;
pub use on_disk::{OnDisk, OnDiskError, choose_copy};
