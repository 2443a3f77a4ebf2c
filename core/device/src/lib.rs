//! The vocabulary of devices: how a device is named, what is asked of it, how it answers, and the
//! properties that the layers above it depend on. Pure.
//!
//! Knows nothing of volumes, of requests, or of how a device is opened.

mod device;
mod health;

pub use device::{
    DeviceId, DeviceOperation, DeviceProperties, DeviceRequest, DeviceResult, OperationId, RUN_UNIT,
};
pub use health::{DOUBT_MAX, Health, Promise, Success};
