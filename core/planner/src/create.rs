//! Which store a new volume has: that of this node, or that of its cluster. This is the only place that decides it.

use std::collections::BTreeSet;

use nearflash_records::ClusterState;
use nearflash_records::record::Placement;
use nearflash_space::{Name, NameList, Provisioning, Space, VolumeRequest};
use nearflash_units::{BlockSize, Blocks, ByteLen};
use uuid::Uuid;

use crate::{Begin, Refusal, STRIPE_UNIT, VolumeSpec};

/// The block size of every volume of a cluster: no device has larger blocks, so no block of a device
/// holds blocks of two mirrors.
const BLOCK_SIZE: BlockSize = BlockSize::B4096;

/// A new volume, as a caller asks for it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Asked<'a> {
    /// Its identity in a cluster.
    pub uuid: Uuid,
    /// Its name.
    pub name: Name,
    /// Its size.
    pub len: ByteLen,
    /// The device of this node that holds it.
    pub device: Option<Name>,
    /// The size of its logical blocks.
    pub block_size: Option<BlockSize>,
    /// The subsystem; by default one with the volume's name.
    pub subsystem: Option<Name>,
    /// Whether it releases the storage of blocks that hosts deallocate.
    pub provisioning: Provisioning,
    /// The number of nodes that have each byte.
    pub replicas: Option<u8>,
    /// The length on one mirror before the next one follows.
    pub stripe_unit: Option<ByteLen>,
    /// The number of mirrors of a row.
    pub width: Option<u32>,
    /// `spread`, `local:NODE` or `central:NODE`.
    pub placement: Option<&'a str>,
}

/// The store of a new volume, and what is to be made there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Store {
    /// That of this node: the volume lies on one of its devices.
    Node(VolumeRequest),
    /// That of the cluster: the volume lies on slices.
    Cluster {
        /// The volume.
        spec: VolumeSpec,
        /// Why it has so many replicas, if the caller has not said how many.
        note: Option<&'static str>,
    },
}

/// Why the parts of a new volume do not go together. The message names the remedy.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Misfit {
    /// The node has no device for it.
    #[error(
        "the node has no device for volumes: start it with --device, or as a node of a cluster"
    )]
    NoDevice,
    /// The node has several devices.
    #[error("no device is named, and the node has several: {0}")]
    NameADevice(NameList),
    /// Several replicas on one device.
    #[error(
        "{replicas} replicas do not lie on one device: for a volume of the cluster, leave out the device \
         '{device}', and otherwise the replicas"
    )]
    ReplicasOnOneDevice { device: Name, replicas: u8 },
    /// A property of the volumes of a cluster, and a device.
    #[error(
        "only volumes of a cluster have a {property}: leave it out, or leave out the device '{device}' for a volume \
         of the cluster"
    )]
    OnlyInCluster { device: Name, property: &'static str },
    /// A block size that no volume of a cluster has.
    #[error(
        "the volumes of a cluster have blocks of 4096 bytes: leave out the block size, or name a device of this \
         node"
    )]
    BlocksOfCluster,
    /// Not a rule by which slices are chosen.
    #[error("'{0}' is not a placement: write spread, local:NODE or central:NODE")]
    Placement(Box<str>),
}

const SEVERAL_NODES: &str = "2 replicas were chosen, because several nodes have slices";
const ONE_NODE: &str =
    "1 replica was chosen, because only one node has slices: what is on it is lost with it";
const CENTRAL: &str =
    "1 replica was chosen, because placement central keeps everything on one node";

/// Decides which store a new volume has. A device that is named is one of this node. Without one, a node of a cluster
/// puts the volume into the space of the cluster, and any other node puts it on its only device.
///
/// # Errors
/// When the parts of the volume do not go together, or no device is named and the node has several.
pub fn store_of(
    asked: Asked<'_>,
    space: &Space,
    cluster: Option<(&ClusterState, Begin)>,
) -> Result<Store, Refusal> {
    let placed = match (&asked.device, cluster) {
        (Some(device), _) => match asked.misfit_on(device) {
            None => Ok(device.clone()),
            Some(misfit) => Err(misfit),
        },
        (None, Some((state, begin))) => return asked.in_cluster(state, begin),
        (None, None) if asked.replicas.is_some() || asked.property_of_cluster().is_some() => {
            return Err(Refusal::OutsideCluster);
        }
        (None, None) => only_device(space),
    };
    match placed {
        Ok(device) => Ok(Store::Node(asked.on_device(device))),
        Err(misfit) => Err(Refusal::NewVolume { name: asked.name, misfit }),
    }
}

impl Asked<'_> {
    /// A property that only volumes of a cluster have, besides replicas.
    fn property_of_cluster(&self) -> Option<&'static str> {
        let given = [
            ("stripe unit", self.stripe_unit.is_some()),
            ("width", self.width.is_some()),
            ("placement", self.placement.is_some()),
        ];
        given.iter().find(|(_, is_given)| *is_given).map(|(property, _)| *property)
    }

    fn misfit_on(&self, device: &Name) -> Option<Misfit> {
        let device = device.clone();
        match (self.replicas, self.property_of_cluster()) {
            (None | Some(1), None) => None,
            (None | Some(1), Some(property)) => Some(Misfit::OnlyInCluster { device, property }),
            (Some(replicas), _) => Some(Misfit::ReplicasOnOneDevice { device, replicas }),
        }
    }

    fn on_device(self, device: Name) -> VolumeRequest {
        let Self { name, len, block_size, subsystem, provisioning, .. } = self;
        VolumeRequest { name, len, device, block_size, subsystem, provisioning }
    }

    fn in_cluster(self, state: &ClusterState, begin: Begin) -> Result<Store, Refusal> {
        if self.block_size.is_some_and(|size| size != BLOCK_SIZE) {
            return Err(Refusal::NewVolume { name: self.name, misfit: Misfit::BlocksOfCluster });
        }
        let placement = self.placement_in(state)?;
        let (replicas, note) = self.replicas_in(state, placement);
        let Self { uuid, name, len, subsystem, provisioning, stripe_unit, width, .. } = self;
        let spec = VolumeSpec {
            uuid,
            blocks: whole_blocks(&name, len)?,
            block_size: BLOCK_SIZE,
            stripe_unit: stripe_unit.unwrap_or(STRIPE_UNIT),
            width,
            replicas,
            placement,
            subsystem: subsystem.unwrap_or_else(|| name.clone()),
            nsid: None,
            provisioning,
            name,
            begin,
        };
        Ok(Store::Cluster { spec, note })
    }

    /// The placement, which has the name of a node where the record has its UUID.
    fn placement_in(&self, state: &ClusterState) -> Result<Placement, Refusal> {
        let node =
            |name: &str| state.node_named(name).ok_or_else(|| Refusal::NoNodeNamed(name.into()));
        let text = self.placement.unwrap_or("spread");
        match text.split_once(':') {
            None if text == "spread" => Ok(Placement::Spread),
            Some(("local", name)) => Ok(Placement::Local(node(name)?)),
            Some(("central", name)) => Ok(Placement::Central(node(name)?)),
            _ => {
                let misfit = Misfit::Placement(text.into());
                Err(Refusal::NewVolume { name: self.name.clone(), misfit })
            }
        }
    }

    /// The number of replicas, and why there are so many if the caller does not say how many.
    fn replicas_in(
        &self,
        state: &ClusterState,
        placement: Placement,
    ) -> (u8, Option<&'static str>) {
        let nodes: BTreeSet<Uuid> = state.slices().values().map(|slice| slice.node).collect();
        match (self.replicas, placement, nodes.len()) {
            (Some(replicas), ..) => (replicas, None),
            (None, Placement::Central(_), _) => (1, Some(CENTRAL)),
            (None, _, 1) => (1, Some(ONE_NODE)),
            // Without any slice, the change is refused. While the records are not known yet, two are asked for, so that no
            // volume has fewer replicas than it could have.
            (None, ..) => (2, Some(SEVERAL_NODES)),
        }
    }
}

/// The blocks of a volume of a cluster.
///
/// # Errors
/// When the length is not a whole number of them.
pub fn whole_blocks(name: &Name, len: ByteLen) -> Result<Blocks, Refusal> {
    if len.0 == 0 || !BLOCK_SIZE.divides(len) {
        return Err(Refusal::ClusterVolumeSize { name: name.clone(), len });
    }
    Ok(BLOCK_SIZE.blocks_in(len))
}

fn only_device(space: &Space) -> Result<Name, Misfit> {
    let names: Vec<Name> = space.own_devices().map(|(_, device)| device.name.clone()).collect();
    match &names[..] {
        [] => Err(Misfit::NoDevice),
        [device] => Ok(device.clone()),
        _ => Err(Misfit::NameADevice(NameList(names))),
    }
}

#[cfg(test)]
mod tests {
    use nearflash_device::DeviceId;
    use nearflash_space::empty_device;
    use nearflash_units::ByteOffset;

    use super::*;
    use crate::model::{GIB, begin, cluster_of};

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn asked() -> Asked<'static> {
        Asked {
            uuid: Uuid::from_u128(7),
            name: name("data"),
            len: ByteLen(GIB),
            device: None,
            block_size: None,
            subsystem: None,
            provisioning: Provisioning::Thin,
            replicas: None,
            stripe_unit: None,
            width: None,
            placement: None,
        }
    }

    fn on(device: &str) -> Asked<'static> {
        Asked { device: Some(name(device)), ..asked() }
    }

    /// Devices with this much room: a slice, and a volume of another node, have none.
    fn space(devices: &[(&str, u64)]) -> Space {
        let device = |(id, (text, room)): (u32, &(&str, u64))| {
            let (id, uuid) = (DeviceId(id), Uuid::from_u128(u128::from(id) + 1));
            let area = (ByteOffset(0), ByteLen(*room));
            empty_device(id, name(text), uuid, BlockSize::B512, area)
        };
        Space::new((0..).zip(devices).map(device).collect())
    }

    fn alone(asked: Asked<'_>, devices: &[(&str, u64)]) -> Result<Store, Refusal> {
        store_of(asked, &space(devices), None)
    }

    /// The store in a cluster of so many nodes with slices, at a node that also has one device of its own.
    fn in_cluster(asked: Asked<'_>, nodes: u16) -> Result<Store, Refusal> {
        let state = cluster_of(nodes, ByteLen(64 * GIB)).state();
        store_of(asked, &space(&[("own", GIB), ("slice", 0)]), Some((&state, begin(1))))
    }

    fn at(device: &str) -> Result<Store, Refusal> {
        Ok(Store::Node(asked().on_device(name(device))))
    }

    fn refused(found: Result<Store, Refusal>) -> String {
        found.unwrap_err().to_string()
    }

    #[test]
    fn a_named_device_is_one_of_the_node_also_in_a_cluster() {
        assert_eq!(alone(on("b"), &[("a", GIB), ("b", GIB)]), at("b"));
        assert_eq!(in_cluster(on("own"), 2), at("own"));
        assert_eq!(in_cluster(Asked { replicas: Some(1), ..on("own") }, 2), at("own"));
        let small = Asked { block_size: Some(BlockSize::B512), ..on("own") };
        assert!(matches!(in_cluster(small, 2), Ok(Store::Node(_))));
        // The node refuses it by its name, with those that it has.
        assert_eq!(alone(on("none"), &[("a", GIB)]), at("none"));
    }

    #[test]
    fn without_a_device_a_node_of_a_cluster_uses_its_space_and_says_how_many_replicas_it_chose() {
        let chosen = |asked: Asked<'_>, nodes| match in_cluster(asked, nodes).unwrap() {
            Store::Cluster { spec, note } => (spec.replicas, note),
            store @ Store::Node(_) => panic!("{store:?}"),
        };
        assert_eq!(chosen(asked(), 1), (1, Some(ONE_NODE)));
        assert_eq!(chosen(asked(), 2), (2, Some(SEVERAL_NODES)));
        assert_eq!(chosen(asked(), 3), (2, Some(SEVERAL_NODES)));
        let local = Asked { placement: Some("local:n1"), ..asked() };
        assert_eq!(chosen(local, 2), (2, Some(SEVERAL_NODES)));
        let central = Asked { placement: Some("central:n1"), ..asked() };
        assert_eq!(chosen(central, 2), (1, Some(CENTRAL)));
        for replicas in [0, 1, 2, 3] {
            let said = Asked { replicas: Some(replicas), ..asked() };
            assert_eq!(chosen(said, 2), (replicas, None), "the change refuses what is too many");
        }
        let blocks = Asked { block_size: Some(BlockSize::B4096), ..asked() };
        assert_eq!(chosen(blocks, 2).0, 2);
    }

    #[test]
    fn without_a_device_and_a_cluster_the_only_device_is_used() {
        assert_eq!(alone(asked(), &[("a", GIB)]), at("a"));
        assert_eq!(alone(asked(), &[("far", 0), ("a", GIB)]), at("a"), "far has no room for it");
        let several = refused(alone(asked(), &[("a", GIB), ("b", GIB)]));
        assert_eq!(
            several,
            "volume 'data': no device is named, and the node has several: choose one of: a, b"
        );
        let none = refused(alone(asked(), &[("far", 0)]));
        assert!(none.contains("has no device for volumes: start it with --device"), "{none}");
    }

    #[test]
    fn a_property_that_its_store_does_not_have_is_refused_by_name_with_the_remedy() {
        let property = |asked: Asked<'_>| refused(in_cluster(asked, 2));
        let replicas = property(Asked { replicas: Some(2), ..on("own") });
        assert_eq!(
            replicas,
            "volume 'data': 2 replicas do not lie on one device: for a volume of the cluster, leave out the device \
             'own', and otherwise the replicas"
        );
        assert!(property(Asked { replicas: Some(0), ..on("own") }).contains("0 replicas"));
        let unit = property(Asked { stripe_unit: Some(ByteLen(4096)), ..on("own") });
        assert!(unit.contains("have a stripe unit: leave it out, or leave out the dev"), "{unit}");
        let width = property(Asked { width: Some(1), ..on("own") });
        assert!(width.contains("have a width: "), "{width}");
        let placement = property(Asked { placement: Some("spread"), ..on("own") });
        assert!(placement.contains("have a placement: "), "{placement}");
        let blocks = property(Asked { block_size: Some(BlockSize::B512), ..asked() });
        assert!(blocks.contains("blocks of 4096 bytes: leave out the block size"), "{blocks}");
        let rule = property(Asked { placement: Some("near:n1"), ..asked() });
        assert!(rule.contains("'near:n1' is not a placement: write spread"), "{rule}");
        let node = Asked { placement: Some("central:n7"), ..asked() };
        assert_eq!(in_cluster(node, 2), Err(Refusal::NoNodeNamed("n7".into())));
        let odd = Asked { len: ByteLen(1000), ..asked() };
        assert!(property(odd).contains("4096-byte blocks"));
    }

    #[test]
    fn a_property_of_the_volumes_of_a_cluster_needs_one() {
        let width = Asked { width: Some(1), ..asked() };
        let replicas = Asked { replicas: Some(1), ..asked() };
        for asked in [width, replicas] {
            assert_eq!(alone(asked, &[("a", GIB)]), Err(Refusal::OutsideCluster));
        }
    }
}
