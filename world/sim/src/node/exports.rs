//! The exports of the node: its volumes as the clients of every protocol see them.

use std::collections::HashMap;
use std::sync::Arc;

use nearflash_direct::serving as direct;
use nearflash_iscsi::serving as iscsi;
use nearflash_nvme::TransportAddress;
use nearflash_nvme::serving::{
    Deallocation, HostAccess, Life, Limits, NamespaceConfig, Port, Target, TargetConfig,
};
use nearflash_nvme::tls::DoorTls;
use nearflash_request::{Support, VolumeId};
use nearflash_scsi::{LogicalUnit, LogicalUnits};
use nearflash_space::{Reservations, Sharing, VolumeEntry, VolumeTable};
use uuid::Uuid;

use super::mirrored::Mirrored;
use super::{FAR_TARGET, Node, SimVolume, TARGET, name_of};
use crate::client::grants::owner_key;

impl Node {
    pub(super) fn target(&self) -> Target {
        let limits = Limits {
            in_capsule_len_max: self.config.session.in_capsule_len_max,
            ..Limits::default()
        };
        let listen = self.id.address(4420);
        Target::new(TargetConfig {
            controller_ids: nearflash_nvme::serving::ALL_CONTROLLER_IDS,
            serial_seed: 1,
            model: "simulated".to_owned(),
            firmware: "1".to_owned(),
            hosts: HostAccess::Any,
            ports: vec![Port {
                id: 1,
                listen: TransportAddress::tcp(listen),
                advertise: Vec::new(),
                tls: DoorTls::Off,
            }],
            limits,
            life: Life::default(),
        })
    }

    pub(super) fn table(&self) -> Arc<VolumeTable> {
        let block_size = self.config.block_size;
        let entry = |volume: &SimVolume| {
            let restriction = self.restriction(volume.id).map(Arc::new);
            let mirrored = self.mirrored.as_ref().and_then(|it| it.map(volume));
            let map = mirrored.unwrap_or_else(|| volume.map(block_size));
            let map = VolumeEntry::from(map);
            (VolumeId(volume.id), VolumeEntry { restriction, ..map })
        };
        let far = self.far_volumes().map(|volume| {
            let (id, map) = entry(volume);
            (id, VolumeEntry { sharing: self.far_sharing(), ..map })
        });
        let faces = self.mirrored.iter().flat_map(Mirrored::face_volumes);
        let faces = faces.map(|(id, entry, rules)| {
            let restriction = rules.and_then(|volume| self.restriction(volume)).map(Arc::new);
            (id, VolumeEntry { restriction, ..entry })
        });
        Arc::new(VolumeTable::new(self.volumes.iter().map(entry).chain(far).chain(faces)))
    }

    /// Which operations of the next node's volumes this node orders.
    fn far_sharing(&self) -> Sharing {
        if self.mirrored.is_some() { Sharing::Shared } else { Sharing::Forwarded }
    }

    pub(super) fn namespaces(&self) -> Vec<NamespaceConfig> {
        let config = |(volume, support): (&SimVolume, Support)| {
            Some(NamespaceConfig {
                subsystem: volume.subsystem.clone()?,
                namespace: volume.namespace,
                volume: VolumeId(volume.id),
                uuid: Uuid::from_u128(u128::from(volume.id) + 1),
                block_size: self.config.block_size,
                blocks: volume.blocks,
                device_block_size: self.config.device_block_size(),
                volatile_cache: self.config.volatile_cache,
                deallocation: Deallocation::Unspecified,
                on_every_node: false,
                support,
                write_protected: false,
            })
        };
        let own = self.volumes.iter().map(|volume| (volume, Support::ALL));
        let far = self.far_volumes().map(|volume| (volume, self.far_sharing().support()));
        own.chain(far).filter_map(config).collect()
    }

    /// The exports to direct clients.
    pub(super) fn direct_exports(&self) -> Arc<direct::Exports> {
        let block_size = self.config.block_size;
        let export = |volume: &SimVolume| {
            let grown = u32::try_from(volume.epoch.0).expect("few changes");
            let export = direct::Export {
                volume: VolumeId(volume.id),
                bytes: block_size.len(volume.blocks).expect("a small volume").0,
                block_size,
                epoch: if volume.id == self.id.shared_id() { self.grants.epoch } else { grown },
                uuid: Uuid::from_u128(u128::from(volume.id) + 1).into_bytes(),
                is_remote: self.is_mirrored(volume.id),
                is_public: true,
                face: None,
            };
            (name_of(volume.id).into(), export)
        };
        let volumes = self.volumes.iter().map(export);
        let keys = if self.config.keys { self.grants.credentials() } else { Vec::new() };
        let files = direct::Export {
            volume: VolumeId(self.id.files_id()),
            bytes: nearflash_space::GRANULE.0,
            block_size,
            epoch: 1,
            uuid: [0xF1; 16],
            is_remote: false,
            is_public: true,
            face: None,
        };
        let volumes = volumes.chain([("files".into(), files)]);
        let exports = match &self.mirrored {
            Some(mirrored) => mirrored.export(volumes.collect(), keys, self.boot),
            None => direct::Exports::new(volumes, keys),
        };
        let (key, secret) = owner_key();
        let access = HashMap::from([(files.volume, Arc::new(direct::Access::full()))]);
        let owner = direct::CredentialExport { secret, expired: false, access };
        Arc::new(exports.with_files_owner(&key, owner, [files.volume]))
    }

    /// The exports to initiators: the volumes that are checked.
    pub(super) fn iscsi_exports(&self) -> Arc<iscsi::Exports> {
        let unit = |(volume, support): (&SimVolume, Support)| {
            let own = self.reservations.get(&volume.id);
            let modes = own.map(Reservations::modes).unwrap_or_default();
            LogicalUnit {
                lun: u16::try_from(volume.namespace.0 - 1).expect("few namespaces"),
                volume: VolumeId(volume.id),
                uuid: Uuid::from_u128(u128::from(volume.id) + 1).into_bytes(),
                name: format!("volume-{}", volume.id),
                block_size: self.config.block_size,
                blocks: volume.blocks,
                volatile_cache: self.config.volatile_cache,
                provisioning: nearflash_scsi::Provisioning::Thin,
                support,
                on_every_node: false,
                write_protected: false,
                software_write_protected: modes.write_protected,
                descriptor_sense: modes.descriptor_sense,
                epoch: volume.epoch.0,
            }
        };
        let own = self.volumes.iter().filter(|volume| volume.is_checked());
        let units = own.map(|volume| unit((volume, Support::ALL)));
        let units = Arc::new(LogicalUnits::new(TARGET, iscsi::PORTAL_GROUP, units));
        let portal = self.id.address(3260);
        let far = self.mirrored.as_ref().map(|_| {
            let support = self.far_sharing().support();
            let units = self.far_volumes().map(|volume| unit((volume, support)));
            let units = LogicalUnits::new(FAR_TARGET, iscsi::PORTAL_GROUP, units);
            (FAR_TARGET.into(), Arc::new(units))
        });
        let targets = [(TARGET.into(), units)].into_iter().chain(far);
        Arc::new(iscsi::Exports::new(targets, [portal]))
    }
}
