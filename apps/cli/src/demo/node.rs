//! Measures a node on a temporary file, compared with its disk and the wire.

use std::path::Path;

use nearflash_bench::compare::{self, Arena, DemoTargets, Node, NodeSpec, Timing};
use nearflash_bench::floor::FloorCores;
use nearflash_units::{ByteLen, Nanos};

use super::{DemoError, own_program};

/// Length of the range of the file and of the volume that is read and written.
const RANGE_LEN: ByteLen = ByteLen(256 << 20);

/// Number of rounds; each figure is their median.
const ROUNDS: u32 = 3;

/// Starts a node with its files in the folder, measures it, and returns the table and a note on how a host
/// connects.
pub(super) fn measure(folder: &Path, cores: FloorCores) -> Result<String, DemoError> {
    let device = folder.join("device.img");
    let node_args = [
        format!("--device=flash=file:{},size=1GiB", device.display()),
        "--device=nothing=null:1GiB".to_owned(),
        "--volume=data=512MiB@flash".to_owned(),
        "--volume=null=512MiB@nothing".to_owned(),
        format!("--cores={}", cores.server.0),
    ];
    let data_dir = folder.join("node");
    let node =
        Node::start(&NodeSpec { binary: own_program(), args: node_args.to_vec(), data_dir })?;
    let timing =
        Timing { ramp: Nanos::from_millis(100), span: Nanos::from_millis(500), rounds: ROUNDS };
    let arena = Arena { node: &node, cores, range_len: RANGE_LEN, timing };
    let targets = DemoTargets {
        null: node.nvme_tcp_target("null"),
        file: node.nvme_tcp_target("data"),
        local: folder.join("local.img"),
    };
    let table = compare::demo(&arena, &targets)?;
    Ok(format!("{table}\n\n{HOW_TO_CONNECT}"))
}

/// A note on how to start a permanent node and connect to it, since the node of the demonstration
/// has ended.
const HOW_TO_CONNECT: &str = "\
To serve a file permanently:
  nearflash serve --device flash=file:flash.img,size=16GiB --volume data=8GiB@flash
and to connect the Linux kernel to it, as root:
  nvme connect -t tcp -a 127.0.0.1 -s 4420 -n nqn.2026-11.io.nearflash:data";
