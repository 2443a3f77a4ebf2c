//! The call `trace` of a node, with cores that only record their messages: values of any caller, and volumes.
#![allow(clippy::unwrap_used)] // a failed test says where

mod common;

use std::sync::Arc;

use common::Recorder;
use nearflash_api::client::{ControlError, ask};
use nearflash_api::{ApiError, ErrorCode, Trace, TraceRun};
use nearflash_node::config::{Config, ServeArgs};
use nearflash_node::{Running, TraceSpec};
use nearflash_request::VolumeId;

struct Place(tempfile::TempDir);

impl Place {
    fn start(&self) -> (Running, Arc<Recorder>) {
        let config = Config::resolve(ServeArgs {
            devices: vec!["r=ram:16MiB".to_owned()],
            volumes: vec!["data=4MiB@r".to_owned()],
            data_dir: Some(self.0.path().to_owned()),
            ..ServeArgs::default()
        });
        Recorder::start(&config.unwrap()).unwrap()
    }

    fn ask(&self, call: TraceRun) -> Result<Trace, ApiError> {
        ask(self.0.path(), call).map_err(|error| match error {
            ControlError::Refused(error) => error,
            other => panic!("{other}"),
        })
    }
}

#[test]
fn only_values_in_range_reach_the_cores_and_a_core_that_is_silent_is_named() {
    let place = Place(tempfile::tempdir().unwrap());
    let (running, cores) = place.start();
    let call = TraceRun::default;
    let code = |call: TraceRun| place.ask(call).unwrap_err().code;
    for hostile in [
        TraceRun { seconds: 0, ..call() },
        TraceRun { seconds: u64::MAX, ..call() },
        TraceRun { every: 0, ..call() },
        TraceRun { records: 0, ..call() },
        TraceRun { records: u32::MAX, ..call() },
        TraceRun { volume: Some("no name".to_owned()), ..call() },
    ] {
        assert_eq!(code(hostile.clone()), ErrorCode::InvalidValue, "{hostile:?}");
    }
    let unknown = TraceRun { volume: Some("other".to_owned()), ..call() };
    assert_eq!(code(unknown), ErrorCode::VolumeNotFound);
    assert!(cores.traced.lock().unwrap().is_empty(), "no core was asked");

    let widest =
        TraceRun { seconds: 60, every: u32::MAX, records: 10_000, volume: Some("data".to_owned()) };
    // Such cores have all their records at once.
    let trace = place.ask(widest).unwrap();
    assert_eq!((trace.requests.len(), trace.silent), (0, vec![3]));
    let [TraceSpec { every, volume, records_max }] = cores.traced.lock().unwrap()[..] else {
        panic!("one trace")
    };
    assert_eq!((every, volume), (u32::MAX, Some(VolumeId(0))));
    assert!(records_max <= 10_000);
    running.stop().unwrap();
}
