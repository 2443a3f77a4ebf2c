//! Volumes whose blocks take long to zero: hosts see them when that is done, other changes proceed
//! meanwhile, and a job that a restart interrupts starts again.
#![allow(clippy::unwrap_used)] // a failed test says where

use crate::common;

use std::path::PathBuf;
use std::sync::Arc;

use common::Recorder;
use nearflash_api::client::ask;
use nearflash_api::{
    ErrorCode, JobCancel, JobInfo, JobList, JobShow, JobState, JobWait, OneVolume, VolumeCreate,
    VolumeInfo, VolumeList, VolumeRemove, VolumeResize,
};
use nearflash_config::{Config, ServeArgs};
use nearflash_node::Running;

const MIB: u64 = 1 << 20;

/// A device whose zeroing outlasts every test.
const SLOW: &str = "slow=null:1GiB,write-delay=1000000s";

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn start(&self, device: &str) -> (Running, Arc<Recorder>) {
        let args = ServeArgs {
            devices: vec![device.to_owned(), "r=ram:16MiB".to_owned()],
            nvme_tcp: vec!["127.0.0.1:0".to_owned()],
            data_dir: Some(self.data_dir()),
            ..ServeArgs::default()
        };
        Recorder::start(&Config::resolve(args).unwrap()).unwrap()
    }

    fn create(&self, name: &str, device: &str) -> OneVolume {
        let call = VolumeCreate {
            name: name.to_owned(),
            bytes: 4 * MIB,
            device: Some(device.to_owned()),
            block_size: Some(4096),
            ..VolumeCreate::default()
        };
        ask(&self.data_dir(), call).unwrap()
    }

    fn grow(&self, name: &str) -> OneVolume {
        let call =
            VolumeResize { name: name.to_owned(), bytes: 8 * MIB, shrink: false, force: false };
        ask(&self.data_dir(), call).unwrap()
    }

    fn volumes(&self) -> Vec<VolumeInfo> {
        ask(&self.data_dir(), VolumeList {}).unwrap().volumes
    }

    fn jobs(&self) -> Vec<JobInfo> {
        ask(&self.data_dir(), JobList {}).unwrap().jobs
    }

    fn cancel(&self, id: u64) -> JobInfo {
        ask(&self.data_dir(), JobCancel { id }).unwrap();
        self.wait(id)
    }

    /// Waits until the job has ended.
    fn wait(&self, id: u64) -> JobInfo {
        loop {
            let job = ask(&self.data_dir(), JobWait { id, seconds: 60 }).unwrap().job;
            if job.state.is_over() {
                return job;
            }
        }
    }
}

#[test]
fn other_changes_go_on_while_a_device_zeroes_a_volume() {
    let bench = Bench::new();
    let (running, cores) = bench.start(SLOW);
    let OneVolume { volume, job, .. } = bench.create("slow", "slow");
    let job = job.unwrap();
    assert_eq!((&*job.kind, &*job.volume, job.state), ("volume-create", "slow", JobState::Running));
    assert_eq!((job.done_bytes, job.total_bytes), (0, 4 * MIB));
    assert_eq!((volume.job, volume.bytes), (Some(job.id), 4 * MIB));
    let quick = bench.create("quick", "r");
    assert_eq!((quick.job, quick.volume.job), (None, None));
    let names = |shown: std::sync::Arc<nearflash_publish::Served>| -> Vec<u32> {
        shown.namespaces.iter().map(|namespace| namespace.namespace.0).collect()
    };
    assert_eq!(names(cores.last()), [1], "hosts see the one that is ready");
    let remove = VolumeRemove { name: "slow".to_owned(), force: true };
    let refused = ask(&bench.data_dir(), remove).unwrap_err().to_string();
    assert!(refused.contains(&format!("is being prepared by job {}", job.id)), "{refused}");
    assert_eq!(bench.jobs().len(), 2);
    assert_eq!(bench.cancel(job.id).state, JobState::Cancelled);
    let over = ask(&bench.data_dir(), JobCancel { id: job.id }).unwrap_err().to_string();
    assert_eq!(over, format!("job {} has already ended: there is nothing to cancel", job.id));
    let left: Vec<String> = bench.volumes().into_iter().map(|volume| volume.name).collect();
    assert_eq!(left, ["quick"]);
    running.stop().unwrap();
}

#[test]
fn a_volume_keeps_its_size_until_what_it_grows_by_is_zeroed() {
    let bench = Bench::new();
    let (running, cores) = bench.start("slow=null:1GiB");
    assert_eq!(bench.create("data", "slow").job, None);
    running.stop().unwrap();
    drop(cores);
    let (running, cores) = bench.start(SLOW);
    let OneVolume { volume, job, .. } = bench.grow("data");
    let job = job.unwrap();
    assert_eq!((&*job.kind, volume.bytes, job.total_bytes), ("volume-resize", 4 * MIB, 4 * MIB));
    assert_eq!(cores.last().namespaces[0].blocks.0, 1024);
    assert_eq!(bench.cancel(job.id).state, JobState::Cancelled);
    assert_eq!((bench.volumes()[0].bytes, bench.volumes()[0].job), (4 * MIB, None));
    bench.grow("data");
    running.stop().unwrap();
    // The next run starts the job again, on a fast device.
    let (running, cores) = bench.start("slow=null:1GiB");
    let job = bench.jobs()[0].id;
    assert_eq!(bench.wait(job).state, JobState::Done);
    assert_eq!(bench.volumes()[0].bytes, 8 * MIB);
    assert_eq!(cores.last().namespaces[0].blocks.0, 2048);
    let again = bench.create("more", "slow").volume;
    assert_eq!(again.job, None);
    let last = bench.jobs().last().unwrap().id;
    assert!(last > job, "no number is used twice");
    let none = ask(&bench.data_dir(), JobShow { id: 999 }).unwrap_err();
    let code = match none {
        nearflash_api::client::ControlError::Refused(error) => error.code,
        other => panic!("{other}"),
    };
    assert_eq!(code, ErrorCode::JobNotFound);
    running.stop().unwrap();
}
