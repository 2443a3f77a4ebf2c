//! A modelled store for tests, and the changes that a cluster goes through.
//!
//! Everything here panics when a test is wrong.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};

use nearflash_records::Key;
use nearflash_records::model::ModelStore;
use nearflash_records::record::{
    AliveRecord, ClusterRecord, Door, FEATURE_LEVEL, Placement, Record as _, Schema, Worker,
    version_with_level,
};
use nearflash_space::{Name, Provisioning};
use nearflash_units::{BlockSize, Blocks, ByteLen};
use uuid::Uuid;

use crate::Refusal;
use crate::change::{Begin, Change, NodeSpec, STRIPE_UNIT, SliceSpec, Step, VolumeSpec};

pub use nearflash_records::model::CLUSTER;

/// Bytes of a gibibyte.
pub const GIB: u64 = 1 << 30;

/// A modelled store, with the changes of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Model(ModelStore);

impl Deref for Model {
    type Target = ModelStore;

    fn deref(&self) -> &ModelStore {
        &self.0
    }
}

impl DerefMut for Model {
    fn deref_mut(&mut self) -> &mut ModelStore {
        &mut self.0
    }
}

impl Model {
    /// Carries the job of a volume to its end, as if its places were zeroed at once.
    ///
    /// # Errors
    /// When a change is refused.
    pub fn finish(&mut self, volume: Uuid) -> Result<(), Refusal> {
        while self.state().volumes().get(&volume).is_some_and(|it| it.job.is_some()) {
            self.zero_all()?;
            self.carry_out(&self.carry_on(volume))?;
        }
        Ok(())
    }

    /// The next step of a volume's job.
    ///
    /// # Panics
    /// When it has none.
    pub fn carry_on(&self, volume: Uuid) -> Change {
        let state = self.state();
        let job = state.volumes()[&volume].job.unwrap();
        Change::CarryOn { job, by: Begin { worker: state.jobs()[&job].worker, now: 2 } }
    }

    /// Removes a volume, to the end of its job.
    ///
    /// # Errors
    /// When a change is refused.
    pub fn remove(&mut self, volume: Uuid) -> Result<(), Refusal> {
        self.carry_out(&remove(volume))?;
        self.finish(volume)
    }

    /// Notes all places as zeroed for which a job waits.
    ///
    /// # Errors
    /// When the change is refused.
    pub fn zero_all(&mut self) -> Result<(), Refusal> {
        let places = self.state().places_to_zero().collect();
        self.carry_out(&Change::NoteZeroed { places })
    }

    /// The cluster has this feature level.
    pub fn set_level(&mut self, feature_level: u32) {
        let record = self.state().cluster().unwrap().clone();
        let record = ClusterRecord { feature_level, ..record };
        self.write(vec![(Key::Cluster.path(CLUSTER), Some(record.encode()))]);
    }

    /// Notes that a node runs, or that it does not.
    pub fn set_alive(&mut self, number: u16, is_alive: bool) {
        let record = AliveRecord { schema: Schema, run: number.into(), access: None };
        let value = is_alive.then(|| record.encode());
        self.write(vec![(Key::Alive(node(number)).path(CLUSTER), value)]);
    }

    /// Carries a change through.
    ///
    /// # Errors
    /// When the change is refused.
    pub fn carry_out(&mut self, change: &Change) -> Result<(), Refusal> {
        let mut begun = false;
        while let Step::Submit(txn) = change.plan(&self.state(), begun)? {
            assert!(self.txn(&txn), "nobody else changes the store");
            begun = true;
        }
        Ok(())
    }
}

/// A cluster of nodes that run, with a slice of this length each.
pub fn cluster_of(nodes: u16, slice_len: ByteLen) -> Model {
    let mut model = Model::default();
    model.carry_out(&create_cluster()).unwrap();
    for number in 1..=nodes {
        model.carry_out(&register(number)).unwrap();
        model.set_alive(number, true);
        model.carry_out(&open_slice(number, slice_len, 1)).unwrap();
    }
    model
}

/// Creates [`CLUSTER`].
pub fn create_cluster() -> Change {
    Change::CreateCluster(ClusterRecord {
        schema: Schema,
        name: "flash".parse().unwrap(),
        uuid: CLUSTER,
        feature_level: FEATURE_LEVEL,
        created: 0,
    })
}

/// The UUID of a node.
pub fn node(number: u16) -> Uuid {
    Uuid::from_u128(0x100 + u128::from(number))
}

/// The UUID of a node's slice.
pub fn slice(number: u16) -> Uuid {
    Uuid::from_u128(0x200 + u128::from(number))
}

/// Registers a node.
pub fn register(number: u16) -> Change {
    let name = format!("n{number}").parse().unwrap();
    let address = format!("192.0.2.{number}:4421").parse().unwrap();
    let addresses = [(Door::Direct, vec![address])].into();
    let version = version_with_level("0.1.0");
    let machine = format!("m{number}");
    let (uuid, tls) = (node(number), BTreeMap::new());
    Change::RegisterNode(NodeSpec { uuid, name, addresses, tls, version, machine })
}

/// A node opens its slice.
pub fn open_slice(number: u16, len: ByteLen, incarnation: u64) -> Change {
    let name = "flash".parse().unwrap();
    Change::OpenSlice(SliceSpec { uuid: slice(number), node: node(number), name, len, incarnation })
}

/// A volume with one replica.
pub fn volume(number: u16, len: ByteLen) -> VolumeSpec {
    VolumeSpec {
        uuid: Uuid::from_u128(0x300 + u128::from(number)),
        name: format!("v{number}").parse().unwrap(),
        block_size: BlockSize::B4096,
        blocks: Blocks(len.0 / 4096),
        stripe_unit: STRIPE_UNIT,
        width: None,
        replicas: 1,
        placement: Placement::Spread,
        subsystem: "shared".parse().unwrap(),
        nsid: None,
        provisioning: Provisioning::Thin,
        begin: begin(1),
    }
}

/// A node begins a job.
pub fn begin(number: u16) -> Begin {
    Begin { worker: Worker { node: node(number), run: number.into() }, now: 1 }
}

/// A volume is made longer.
pub fn grow(volume: Uuid, blocks: Blocks) -> Change {
    Change::GrowVolume { volume, blocks, begin: begin(1) }
}

/// A volume is removed.
pub fn remove(volume: Uuid) -> Change {
    Change::RemoveVolume { volume, begin: begin(1) }
}

/// No mirrors share space, each volume's mirrors exist, and nothing is left of removed volumes.
pub fn check_store(model: &Model) {
    let state = model.state();
    assert_eq!(state.damaged().count(), 0);
    let mut taken: Vec<(Uuid, u64, u64)> = Vec::new();
    for view in state.mirrors().unwrap() {
        assert!(state.volumes().contains_key(&view.key.volume), "{} has no volume", view.key);
        for replica in &view.replicas.replicas {
            let (start, end) = (replica.start.0, replica.start.0 + view.mirror.len.0);
            assert!(end <= state.slices()[&replica.slice].len.0);
            taken.push((replica.slice, start, end));
        }
    }
    taken.sort_unstable();
    for pair in taken.windows(2) {
        assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "{pair:?} overlap");
    }
    let names: BTreeSet<&Name> = state.volumes().values().map(|it| &it.name).collect();
    assert_eq!(names.len(), state.volumes().len(), "names are unique");
    let nsids: BTreeSet<(&Name, u32)> =
        state.volumes().values().map(|it| (&it.subsystem, it.nsid)).collect();
    assert_eq!(nsids.len(), state.volumes().len(), "namespace ids are unique");
    let ordinals: BTreeSet<u16> = state.nodes().values().map(|it| it.ordinal).collect();
    assert_eq!(ordinals.len(), state.nodes().len(), "ordinals are unique");
    let rows = state.volumes().iter().map(|(uuid, it)| (it, state.rows(*uuid, it).unwrap()));
    let (mut mirrors, mut replicas) = (0, 0);
    for (volume, view) in
        rows.flat_map(|(it, rows)| rows.into_iter().flatten().map(move |row| (it, row)))
    {
        let places = &view.replicas.replicas;
        let nodes: BTreeSet<Uuid> =
            places.iter().map(|it| state.slices()[&it.slice].node).collect();
        let most = usize::from(volume.replicas) + usize::from(view.replicas.moving.is_some());
        assert!((1..=most).contains(&places.len()), "{}", view.key);
        assert_eq!(places.len(), nodes.len(), "{} has two replicas on a node", view.key);
        for replica in places {
            assert!(state.revision(&Key::On(replica.slice, view.key)).0 != 0, "{}", view.key);
        }
        (mirrors, replicas) = (mirrors + 1, replicas + places.len());
    }
    let on = model.records.keys().filter(|key| key.contains("/on/")).count();
    assert_eq!((state.mirrors().unwrap().len(), on), (mirrors, replicas));
}
