//! The environment of a measurement: cores, a disk, and a node that is started on demand.

use std::path::PathBuf;

use nearflash_bench::BenchError;
use nearflash_bench::engine::{FILE_BATCH, FileOptions};
use nearflash_bench::job::Spin;
use nearflash_bench::placement::{CoreId, allowed_cores};
use nearflash_bench::subject::Target;
use nearflash_bench::workload::Pattern;
use nearflash_units::{ByteLen, ByteOffset, KIB, MIB, Nanos};

use super::drive::{Lane, Manner, drive};
use super::error::PointError;
use super::mounted::Mounted;
use super::node::{NULL_LEN, OwnNode, volume, volume_len};
use super::peers::Served;
use super::space::{SPACE_VOLUME_LEN, Space, soon, volume as volume_of};
use super::stand_spec::StandSpec;
use super::ways::{Place, Way};
use crate::energy::EnergyCounter;
use crate::error::StudyError;
use crate::local::Raw;
use crate::plan::{Door, FileWay, Layout, Load, Medium, Peer, SessionOptions, Spread, Subject};

/// Length of the operations that fill a volume.
const FILL_OP_LEN: ByteLen = ByteLen(128 * KIB);
/// Queue depth of the operations that fill a volume.
const FILL_DEPTH: u32 = 8;

/// The environment of a measurement. Its node is stopped on drop.
#[derive(Debug)]
pub struct Stand {
    pub(super) spec: StandSpec,
    pub(super) cores: Vec<CoreId>,
    /// The volume of files that is mounted. It is unmounted before its node stops.
    mounted: Option<Mounted>,
    node: Option<OwnNode>,
    space: Option<Space>,
    /// The number of spaces that were started: each has a folder of its own.
    spaces: u32,
    /// The peer that is running, and the medium that it serves.
    pub(super) served: Option<((Peer, Medium), Served)>,
    pub(super) energy: Option<EnergyCounter>,
    /// Files and devices whose ranges have been filled.
    filled: Vec<PathBuf>,
    /// Holds the node's catalog and socket. Its path is short, because `sun_path` is. The last field,
    /// so that it is dropped, and the folder removed, after the node has stopped.
    dir: tempfile::TempDir,
}

/// A subject that is ready to be measured.
pub(super) struct Reached {
    pub(super) places: Vec<Place>,
    /// The processes that serve the subject, whose processor time is counted.
    pub(super) process_ids: Vec<u32>,
    /// The node's cores; the client has the others.
    pub(super) node_core_count: usize,
}

impl Stand {
    /// A stand on all cores that this process may use.
    ///
    /// # Errors
    /// When there is no folder for temporary files.
    pub fn new(spec: StandSpec) -> Result<Self, StudyError> {
        let dir =
            tempfile::Builder::new().prefix("nearflash-study-").tempdir().map_err(|source| {
                StudyError::Io { action: "make a folder in", path: std::env::temp_dir(), source }
            })?;
        let cores = allowed_cores();
        let energy = EnergyCounter::open();
        Ok(Self {
            spec,
            cores,
            dir,
            mounted: None,
            node: None,
            space: None,
            spaces: 0,
            served: None,
            energy,
            filled: Vec::new(),
        })
    }

    /// The other side's core and the client's first; the same core if there is only one.
    pub(super) fn ends(&self, node_core_count: usize) -> (CoreId, CoreId) {
        let first = self.cores.first().copied().unwrap_or(CoreId(0));
        (first, self.client_cores(node_core_count).first().copied().unwrap_or(first))
    }

    /// The client's cores: those that the node does not use.
    pub(super) fn client_cores(&self, node_core_count: usize) -> &[CoreId] {
        match self.cores.len() {
            0 | 1 => &self.cores,
            len => &self.cores[node_core_count.min(len)..],
        }
    }

    /// Prepares a subject: starts the node or peer that it needs, and fills its volumes.
    pub(super) fn reach(&mut self, subject: &Subject) -> Result<Reached, PointError> {
        if !matches!(subject, Subject::Space { .. }) {
            self.space = None;
        }
        let of_files = subject.medium_of_files();
        if self.mounted.as_ref().is_some_and(|mounted| of_files != Some(mounted.medium)) {
            self.mounted = None;
        }
        match subject {
            Subject::Wire(_) | Subject::Model(_) => {
                Ok(Reached { places: Vec::new(), process_ids: Vec::new(), node_core_count: 1 })
            }
            Subject::Local(medium) => self.reach_local(*medium),
            Subject::Node { door, media, session } => self.reach_node(*door, media, *session),
            Subject::Space { door, nodes, spread } => self.reach_space(*door, *nodes, *spread),
            Subject::File { way: FileWay::Kernel, medium } => self.reach_local(*medium),
            Subject::File { medium, .. } => self.reach_files(*medium),
            Subject::Url(target) => {
                let len = Some(self.spec.disk.volume_len());
                let place = Place { target: target.clone(), offset: ByteOffset(0), len };
                Ok(Reached { places: vec![place], process_ids: Vec::new(), node_core_count: 1 })
            }
            Subject::Peer { peer: Peer::Fio, medium } => self.reach_local(*medium),
            Subject::Peer { peer, medium } => self.reach_peer(*peer, *medium),
        }
    }

    /// Starts a peer for a medium. Only one runs at a time, since it has a core to itself.
    fn reach_peer(&mut self, peer: Peer, medium: Medium) -> Result<Reached, PointError> {
        if let Medium::File(_) = medium {
            // Creates and fills the file or range that the peer serves.
            self.reach_local(medium)?;
        }
        if self.served.as_ref().is_none_or(|(key, _)| *key != (peer, medium)) {
            self.served = None;
            let core = self.cores.first().copied().unwrap_or(CoreId(0));
            let served = Served::start(peer, medium, &self.spec.disk, self.dir.path(), core)?;
            self.served = Some(((peer, medium), served));
        }
        let (_, served) = self.served.as_ref().expect("it was just started");
        let places = match served {
            Served::Tgt(tgt) => {
                let target = Target::Iscsi(tgt.target());
                vec![Place {
                    target,
                    offset: ByteOffset(0),
                    len: Some(self.spec.disk.volume_len()),
                }]
            }
            Served::Nbdkit(_) => Vec::new(),
        };
        Ok(Reached { places, process_ids: vec![served.process_id()], node_core_count: 1 })
    }

    /// The range of a medium that fio can access without a server.
    pub(super) fn fio_raw(&self, medium: Medium) -> Option<Raw> {
        match medium {
            Medium::File(index) => Some(self.spec.disk.raw(index)),
            Medium::Null { .. } | Medium::Memory(_) => None,
        }
    }

    fn reach_local(&mut self, medium: Medium) -> Result<Reached, PointError> {
        let index = match medium {
            Medium::File(index) => index,
            Medium::Null { read_delay: Nanos(0), write_delay: Nanos(0) } => {
                let target = Target::Null(NULL_LEN);
                let place = Place { target, offset: ByteOffset(0), len: None };
                return Ok(Reached {
                    places: vec![place],
                    process_ids: Vec::new(),
                    node_core_count: 1,
                });
            }
            Medium::Null { .. } | Medium::Memory(_) => return Err(PointError::NodeOnly),
        };
        if self.spec.disk.is_exclusive() {
            self.node = None;
        }
        let raw = self.spec.disk.raw(index);
        let place = Place {
            target: Target::File(raw.path.clone()),
            offset: raw.offset,
            len: Some(raw.len),
        };
        let key = raw.path.join(index.to_string());
        if !self.filled.contains(&key) {
            if raw.offset == ByteOffset(0) {
                let options = FileOptions {
                    path: raw.path,
                    direct: true,
                    writes: false,
                    len_min: Some(raw.len),
                    batch: FILE_BATCH,
                };
                options.prepare().map_err(BenchError::from)?;
            } else {
                self.fill(&place, raw.len)?;
            }
            self.filled.push(key);
        }
        Ok(Reached { places: vec![place], process_ids: Vec::new(), node_core_count: 1 })
    }

    fn reach_node(
        &mut self,
        door: Door,
        media: &[Medium],
        session: SessionOptions,
    ) -> Result<Reached, PointError> {
        let core_count = usize::from(session.node_cores.max(1));
        self.start_node(core_count)?;
        for medium in media {
            self.fill_volume(*medium)?;
        }
        let node = self.node.as_ref().expect("it was just started");
        let place = |medium: &Medium| {
            let target = node.target(door, *medium, session)?;
            let len = Some(volume_len(*medium, &self.spec.disk));
            Ok::<_, PointError>(Place { target, offset: ByteOffset(0), len })
        };
        let places = media.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        let process_ids = vec![node.process_id()];
        Ok(Reached { places, process_ids, node_core_count: core_count })
    }

    /// Starts a node on so many cores, unless it runs.
    fn start_node(&mut self, core_count: usize) -> Result<(), PointError> {
        let there = self.cores.len();
        if core_count >= there.max(2) {
            return Err(PointError::Cores { needed: core_count + 1, there });
        }
        let is_there = self.node.as_ref().is_some_and(|node| node.core_count == core_count);
        if !is_there {
            // The previous node must release its devices first.
            self.node = None;
            let cores = &self.cores[..core_count];
            self.node = Some(OwnNode::start(self.dir.path(), &self.spec, cores)?);
        }
        Ok(())
    }

    /// Mounts a volume of files, with one file of three quarters of its length.
    fn reach_files(&mut self, medium: Medium) -> Result<Reached, PointError> {
        let session = SessionOptions::default();
        self.start_node(1)?;
        let node = self.node.as_mut().expect("it was just started");
        let len = ByteLen(volume_len(medium, &self.spec.disk).0 / 4 * 3 / MIB * MIB);
        if self.mounted.is_none() {
            let program = self.spec.node.clone();
            let program = program.expect("a run with points of a node has its program");
            let volume_of = node.target(Door::DirectLocal, medium, session)?;
            // The volume does not hold the bytes any more that other points read.
            node.filled.remove(&volume(medium));
            let dir = self.dir.path().join("mnt");
            let mounted = Mounted::start(&program, &volume_of, dir, medium)?;
            let file = FileOptions {
                path: mounted.file(),
                direct: true,
                writes: false,
                len_min: Some(len),
                batch: FILE_BATCH,
            };
            file.prepare().map_err(BenchError::from)?;
            self.mounted = Some(mounted);
        }
        let mounted = self.mounted.as_ref().expect("it was just mounted");
        let target = Target::File(mounted.file());
        let place = Place { target, offset: ByteOffset(0), len: Some(len) };
        let process_ids = vec![node.process_id(), mounted.process_id()];
        Ok(Reached { places: vec![place], process_ids, node_core_count: 1 })
    }

    /// Starts a space. Its nodes have cores of their own if there are enough, and otherwise share half of
    /// them.
    fn reach_space(
        &mut self,
        door: Door,
        nodes: u8,
        spread: Spread,
    ) -> Result<Reached, PointError> {
        let count = usize::from(nodes);
        if self.space.as_ref().is_none_or(|space| space.node_count() != count) {
            (self.node, self.space) = (None, None);
            self.spaces += 1;
            let there = self.cores.len();
            let own = if there > count { count } else { (there / 2).max(1) };
            let binary = self.spec.node.clone();
            let binary = binary.expect("a run with points of a node has its program");
            let dir = self.dir.path().join(format!("s{}", self.spaces));
            self.space = Some(Space::start((&dir, &binary), nodes, &self.cores[..own])?);
        }
        let space = self.space.as_ref().expect("it was just started");
        let len = Some(SPACE_VOLUME_LEN);
        let places: Vec<Place> = space
            .targets(door, spread)?
            .into_iter()
            .map(|target| Place { target, offset: ByteOffset(0), len })
            .collect();
        if !space.filled.contains(volume_of(spread)) {
            for place in &places {
                let load = fill_load();
                soon(|| Way::connect(&place.target, &load, 1).map(drop))?;
            }
            self.fill(&places[0], SPACE_VOLUME_LEN)?;
        }
        let space = self.space.as_mut().expect("it was just started");
        space.filled.insert(volume_of(spread));
        let process_ids = space.process_ids();
        Ok(Reached { places, process_ids, node_core_count: space.core_count })
    }

    /// Fills a volume, so that reads return written data.
    fn fill_volume(&mut self, medium: Medium) -> Result<(), PointError> {
        let name = volume(medium);
        let node = self.node.as_ref().expect("it was just started");
        let is_null = matches!(medium, Medium::Null { .. });
        if is_null || node.filled.contains(&name) {
            return Ok(());
        }
        let target = node.target(Door::DirectLocal, medium, SessionOptions::default())?;
        let len = volume_len(medium, &self.spec.disk);
        self.fill(&Place { target, offset: ByteOffset(0), len: Some(len) }, len)?;
        self.node.as_mut().expect("it was just started").filled.insert(name);
        Ok(())
    }

    fn fill(&self, place: &Place, len: ByteLen) -> Result<(), PointError> {
        let load = fill_load();
        let (way, _) = Way::connect(&place.target, &load, 1)?;
        let lane = Lane { load: &load, ways: vec![way], offset: place.offset, len };
        let manner = Manner {
            ramp: Nanos(0),
            counted: None,
            cores: Vec::new(),
            spin: Spin::Adaptive,
            end_fsync: true,
        };
        drive(&[lane], &manner)?;
        Ok(())
    }
}

/// The load that fills a volume.
fn fill_load() -> Load {
    Load {
        pattern: Pattern::Write,
        read_percent: 0,
        op_len: FILL_OP_LEN,
        depth: FILL_DEPTH,
        clients: 1,
        layout: Layout::Shared,
        rate_iops: None,
    }
}
