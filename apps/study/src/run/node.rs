//! A node with every protocol, started for the run.

use std::collections::BTreeSet;
use std::path::Path;

use nearflash_bench::BenchError;
use nearflash_bench::compare::{Node, NodeSpec};
use nearflash_bench::placement::CoreId;
use nearflash_bench::subject::{Target, TargetError};
use nearflash_units::{ByteLen, MIB};

use super::stand_spec::StandSpec;
use crate::local::Disk;
use crate::plan::{Door, Medium, SessionOptions};

/// Length of a null volume.
pub(super) const NULL_LEN: ByteLen = ByteLen(32 * 1024 * MIB);
/// Length of its device, which also holds the node's label.
const NULL_DEVICE_LEN: ByteLen = ByteLen(33 * 1024 * MIB);
/// Buffer memory per core: more than 256 operations of 1 MiB.
const POOL: &str = "320MiB";

/// Maximum length of a volume in memory, since there are several.
const MEMORY_LEN_MAX: ByteLen = ByteLen(256 * MIB);

/// A running node.
#[derive(Debug)]
pub(super) struct OwnNode {
    node: Node,
    /// The number of its cores.
    pub(super) core_count: usize,
    /// Names of the volumes that have been filled.
    pub(super) filled: BTreeSet<String>,
}

impl OwnNode {
    /// Starts a node on these cores, with a volume on each medium. `dir` holds its catalog and
    /// socket.
    pub(super) fn start(
        dir: &Path,
        spec: &StandSpec,
        cores: &[CoreId],
    ) -> Result<Self, BenchError> {
        let StandSpec { disk, media, node, .. } = spec;
        let binary = node.clone().expect("a run with points of a node has its program");
        let socket = dir.join("direct.sock");
        let list: Vec<String> = cores.iter().map(|core| core.0.to_string()).collect();
        let mut args = vec![
            format!("--cores={}", list.join(",")),
            format!("--pool={POOL}"),
            "--direct=127.0.0.1:0".to_owned(),
            "--iscsi=127.0.0.1:0".to_owned(),
            format!("--direct-local={}", socket.display()),
        ];
        let mut devices = BTreeSet::new();
        for medium in media {
            let (device, flag) = device(*medium, disk);
            let len = volume_len(*medium, disk);
            args.push(format!("--volume={}={len}@{device},block-size=512", volume(*medium)));
            devices.insert(format!("--device={flag}"));
        }
        args.extend(devices);
        let node = Node::start(&NodeSpec { binary, args, data_dir: dir.join("node") })?;
        Ok(Self { node, core_count: cores.len(), filled: BTreeSet::new() })
    }

    pub(super) fn process_id(&self) -> u32 {
        self.node.process_id()
    }

    /// The target of a medium's volume.
    pub(super) fn target(
        &self,
        door: Door,
        medium: Medium,
        session: SessionOptions,
    ) -> Result<Target, TargetError> {
        let place = match door {
            Door::Iscsi => self.node.iscsi_url(),
            Door::NvmeTcp => Some(self.node.nvme_tcp_url()),
            Door::Direct => self.node.direct_url(),
            Door::DirectLocal => self.node.direct_local_url(),
        };
        let place = place.expect("the node was started with all doors");
        format!("{place}/{}{}", volume(medium), options(door, session)).parse()
    }
}

/// The query of a target's URL.
pub(super) fn options(door: Door, session: SessionOptions) -> String {
    let mut options = Vec::new();
    let SessionOptions { connections, header_digest, data_digest, .. } = session;
    if connections > 1 {
        match door {
            Door::Iscsi => options.push(format!("connections={connections}")),
            Door::NvmeTcp => options.push(format!("queues={connections}")),
            // A direct client has one connection.
            Door::Direct | Door::DirectLocal => {}
        }
    }
    match (door, header_digest, data_digest) {
        (Door::Direct | Door::DirectLocal, _, true) | (_, false, true) => {
            options.push("digest=data".to_owned());
        }
        (Door::Direct | Door::DirectLocal, _, false) | (_, false, false) => {}
        (_, true, false) => options.push("digest=header".to_owned()),
        (_, true, true) => options.push("digest=header,data".to_owned()),
    }
    if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) }
}

/// The name of a medium's volume.
pub(super) fn volume(medium: Medium) -> String {
    match medium {
        Medium::Null { read_delay, write_delay } => {
            format!("null-{}-{}", read_delay.0, write_delay.0)
        }
        Medium::Memory(index) => format!("memory-{index}"),
        Medium::File(index) => format!("file-{index}"),
    }
}

pub(super) fn volume_len(medium: Medium, disk: &Disk) -> ByteLen {
    match medium {
        Medium::Null { .. } => NULL_LEN,
        Medium::Memory(_) => disk.volume_len().min(MEMORY_LEN_MAX),
        Medium::File(_) => disk.volume_len(),
    }
}

/// Name and `--device` argument of a medium's device.
fn device(medium: Medium, disk: &Disk) -> (String, String) {
    match medium {
        Medium::Null { read_delay, write_delay } => {
            let name = volume(medium);
            let delays = format!("read-delay={}ns,write-delay={}ns", read_delay.0, write_delay.0);
            let flag = format!("{name}=null:{NULL_DEVICE_LEN},{delays}");
            (name, flag)
        }
        Medium::Memory(_) => {
            let name = volume(medium);
            let len = ByteLen(volume_len(medium, disk).0 + 64 * MIB);
            let flag = format!("{name}=ram:{len}");
            (name, flag)
        }
        Medium::File(index) => disk.device(index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_units::Nanos;

    #[test]
    fn options_of_a_session_are_those_that_its_door_has() {
        let session = SessionOptions {
            connections: 4,
            header_digest: true,
            data_digest: true,
            node_cores: 1,
        };
        assert_eq!(options(Door::Iscsi, session), "?connections=4&digest=header,data");
        assert_eq!(options(Door::NvmeTcp, session), "?queues=4&digest=header,data");
        assert_eq!(options(Door::Direct, session), "?digest=data");
        assert_eq!(options(Door::DirectLocal, SessionOptions::default()), "");
        let header = SessionOptions { header_digest: true, ..SessionOptions::default() };
        assert_eq!(options(Door::Iscsi, header), "?digest=header");
    }

    #[test]
    fn every_delay_has_a_volume_of_its_own() {
        let null =
            |read, write| Medium::Null { read_delay: Nanos(read), write_delay: Nanos(write) };
        assert_eq!(volume(null(10_000, 0)), "null-10000-0");
        assert_ne!(volume(null(0, 1)), volume(null(1, 0)));
    }
}
