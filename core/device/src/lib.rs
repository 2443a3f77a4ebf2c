//! The vocabulary of devices: ids, operations, results, and the properties that the layers above
//! depend on. Pure.
//!
//! This crate has no notion of volumes, of requests, or of how a device is opened.

mod device;
mod health;
mod unflushed;

pub use device::{
    DeviceId, DeviceOperation, DeviceProperties, DeviceRequest, DeviceResult, OperationId, RUN_UNIT,
};
pub use health::{DOUBT_MAX, Health, Promise, Success};
