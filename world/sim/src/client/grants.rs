//! The grants of direct clients.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use nearflash_direct::Secret;
use nearflash_direct::serving::{Access, CredentialExport};
use nearflash_direct::wire::Rights;
use nearflash_request::VolumeId;

use crate::client::ground::Ground;
use crate::client::worker::key_of;
use crate::machine::NodeId;

/// The current grants.
#[derive(Clone, Debug)]
pub(crate) struct Grants {
    node: NodeId,
    ground: Ground,
    /// Whether each client keeps the protocol. Clients that do not have a volume of their own.
    keeps_protocol: Vec<bool>,
    /// Clients whose grants are revoked.
    pub(crate) revoked: BTreeSet<usize>,
    /// The epoch of the shared volume.
    pub(crate) epoch: u32,
    /// Another node serves the volumes that all peers read and write.
    pub(crate) admits_nodes: bool,
}

/// The key of another node.
pub(crate) fn node_key() -> (Box<str>, Secret) {
    ("node".into(), Secret::new([0xEE; 32]))
}

/// The key of the owner of the files of a node.
pub(crate) fn owner_key() -> (Box<str>, Secret) {
    ("owner".into(), Secret::new([0x0F; 32]))
}

impl Grants {
    pub(crate) fn new(node: NodeId, ground: Ground, keeps_protocol: Vec<bool>) -> Self {
        Self {
            node,
            ground,
            keeps_protocol,
            revoked: BTreeSet::new(),
            epoch: 1,
            admits_nodes: false,
        }
    }

    /// Each client's key and grants, as narrow as possible.
    pub(crate) fn credentials(&self) -> Vec<(Box<str>, CredentialExport)> {
        let clients = self.keeps_protocol.iter().enumerate();
        let credential = |(number, keeps): (usize, &bool)| {
            let (key, secret) = key_of(number);
            let mut access = HashMap::new();
            if !keeps {
                access.insert(VolumeId(self.node.junk_id()), Arc::new(Access::full()));
            } else if !self.revoked.contains(&number) {
                let places = self.ground.readable(u64::try_from(number).expect("few clients"));
                let grants = places.map(|place| (place, Rights::READ_WRITE));
                access.insert(VolumeId(self.node.shared_id()), Arc::new(Access::new(grants)));
                let full = |volume| (VolumeId(volume), Arc::new(Access::full()));
                access.extend(self.node.field_ids().map(full));
                access.extend([full(self.node.files_id())]);
            }
            (key, CredentialExport { secret, expired: false, access })
        };
        let full = |volume| (VolumeId(volume), Arc::new(Access::full()));
        let node = self.admits_nodes.then(|| {
            let (key, secret) = node_key();
            let access = self.node.field_ids().map(full).into_iter().collect();
            (key, CredentialExport { secret, expired: false, access })
        });
        clients.map(credential).chain(node).collect()
    }
}
