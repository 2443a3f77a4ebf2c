//! The volumes that a node exports over this protocol, by name, and the keys that may access them.
//!
//! One immutable value serves all sessions of the node, and is replaced as a whole. The control
//! side compiles it. A session reads it when it opens a volume and when the value is replaced, but
//! not for each request.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use nearflash_request::VolumeId;
use nearflash_units::BlockSize;

use super::access::Access;
use crate::Face;
use crate::secret::Secret;

/// A volume as clients see it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Export {
    /// Its number in the volume table.
    pub volume: VolumeId,
    /// Its length: a multiple of the block size.
    pub bytes: u64,
    /// The size of its blocks.
    pub block_size: BlockSize,
    /// Grows with each change of its layout. Never 0.
    pub epoch: u32,
    /// Distinguishes it from a later volume of the same name.
    pub uuid: [u8; 16],
    /// Other nodes have its blocks, alone or too, so no device of this one reads or writes a client's
    /// memory. On a mirror, the client could change the bytes between the write of one replica and that
    /// of the other one.
    pub is_remote: bool,
    /// Whether anonymous clients may use it. Otherwise only the holders of keys may.
    pub is_public: bool,
    /// The face of a mirror that it is. Only the other nodes of the cluster may use it, and the mirror
    /// checks the terms of their requests, instead of the session their epochs.
    pub face: Option<Face>,
}

/// A credential, and the access granted to it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CredentialExport {
    /// The secret that the client must prove to know.
    pub secret: Secret,
    /// Whether it has expired. A client of it has no rights, and gets the reason.
    pub expired: bool,
    /// The granted access, by volume. Other volumes may not be opened.
    pub access: HashMap<VolumeId, Arc<Access>>,
}

/// Volumes and credentials of a node.
#[derive(Debug, Default)]
pub struct Exports {
    volumes: BTreeMap<Box<str>, Export>,
    /// The volumes by their UUIDs, for seals. Faces of mirrors are not among them.
    by_uuid: HashMap<[u8; 16], Export>,
    credentials: BTreeMap<Box<str>, Arc<CredentialExport>>,
    peers: Option<Peers>,
    /// The keys of seals that operators have minted, by the name of the minter in the seal.
    operators: BTreeMap<Box<str>, Arc<CredentialExport>>,
    owner: Option<FilesOwner>,
    /// Anonymous clients are kept out, although no credential exists.
    is_closed: bool,
}

/// The other nodes of a cluster.
#[derive(Debug)]
struct Peers {
    key: Box<str>,
    credential: Arc<CredentialExport>,
    boot: u64,
}

/// The owner of the files of volumes, which is a part of the node and a client of it.
#[derive(Debug)]
struct FilesOwner {
    key: Box<str>,
    credential: Arc<CredentialExport>,
    volumes: HashSet<VolumeId>,
}

impl Exports {
    /// These volumes by name, and these credentials by key.
    pub fn new(
        volumes: impl IntoIterator<Item = (Box<str>, Export)>,
        credentials: impl IntoIterator<Item = (Box<str>, CredentialExport)>,
    ) -> Self {
        let credentials =
            credentials.into_iter().map(|(key, credential)| (key, Arc::new(credential)));
        let volumes: BTreeMap<Box<str>, Export> = volumes.into_iter().collect();
        let of_clients = volumes.values().filter(|export| export.face.is_none());
        let by_uuid = of_clients.map(|export| (export.uuid, *export)).collect();
        let (credentials, operators) = (credentials.collect(), BTreeMap::new());
        let (peers, owner, is_closed) = (None, None, false);
        Self { volumes, by_uuid, credentials, peers, operators, owner, is_closed }
    }

    /// The exports for holders of credentials alone, even while none exists: the last one was removed, and the
    /// operator has not said that everybody may enter.
    #[must_use]
    pub fn closed(self) -> Self {
        Self { is_closed: true, ..self }
    }

    /// The exports with the credential of the other nodes of a cluster. It is not one of the credentials
    /// whose existence keeps anonymous clients out. Their volumes lie on devices of this node, so `boot`
    /// may stay the same when [`super::SessionConfig::boot`] changes because of other volumes.
    #[must_use]
    pub fn with_peers(self, key: &str, credential: CredentialExport, boot: u64) -> Self {
        let credential = Arc::new(credential);
        Self { peers: Some(Peers { key: key.into(), credential, boot }), ..self }
    }

    /// The exports with the keys of seals that operators have minted: what each of them allows, by
    /// [`crate::wire::operator_name`]. They are not credentials: nobody enters with one, and they keep nobody
    /// out.
    #[must_use]
    pub fn with_operator_seals(
        mut self,
        seals: impl IntoIterator<Item = (Box<str>, CredentialExport)>,
    ) -> Self {
        let seals = seals.into_iter();
        self.operators.extend(seals.map(|(minter, export)| (minter, Arc::new(export))));
        self
    }

    /// The exports with the credential of the owner of the files of these volumes. Only the owner writes their
    /// bytes; clients with the right to do so send it messages. It is not one of the credentials whose
    /// existence keeps anonymous clients out.
    #[must_use]
    pub fn with_files_owner(
        self,
        key: &str,
        credential: CredentialExport,
        volumes: impl IntoIterator<Item = VolumeId>,
    ) -> Self {
        let (key, credential) = (key.into(), Arc::new(credential));
        let volumes = volumes.into_iter().collect();
        Self { owner: Some(FilesOwner { key, credential, volumes }), ..self }
    }

    /// Whether the volume has an owner of its files, and this key is not the owner's.
    pub(super) fn is_written_by_owner(&self, volume: VolumeId, key: Option<&str>) -> bool {
        let owner = self.owner.as_ref().filter(|owner| owner.volumes.contains(&volume));
        owner.is_some_and(|owner| key != Some(&*owner.key))
    }

    /// The number that a holder of the key gets instead of [`super::SessionConfig::boot`].
    pub(super) fn boot_of(&self, key: &[u8]) -> Option<u64> {
        self.peers.as_ref().filter(|peers| peers.key.as_bytes() == key).map(|peers| peers.boot)
    }

    /// Whether the key is that of the other nodes of the cluster.
    pub(super) fn is_of_peers(&self, key: &str) -> bool {
        self.peers.as_ref().is_some_and(|peers| *peers.key == *key)
    }

    /// Whether no credential keeps anonymous clients out. Then listeners that are configured so serve them.
    pub fn is_open(&self) -> bool {
        self.credentials.is_empty() && !self.is_closed
    }

    /// The volumes whose layout, or a client's rights on them, differ from `older`.
    pub fn changed_since(&self, older: &Self) -> Box<[VolumeId]> {
        let changed = older.volumes.iter().filter(|(name, export)| {
            let peers = older.peers.iter().map(|peers| (&peers.key, &peers.credential));
            let mut credentials = older.credentials.iter().chain(&older.operators).chain(peers);
            let is_same = self.is_open() == older.is_open()
                && self.volume(name) == Some(*export)
                && credentials.all(|(key, old)| self.keeps(key, old, export.volume));
            !is_same
        });
        changed.map(|(_, export)| export.volume).collect()
    }

    /// Whether a credential gives the same access to a volume as before.
    fn keeps(&self, key: &str, old: &CredentialExport, volume: VolumeId) -> bool {
        let access = |credential: &CredentialExport| match credential.expired {
            true => None,
            false => credential.access.get(&volume).cloned(),
        };
        let new = self.minter(key).filter(|new| new.secret == old.secret);
        new.and_then(|new| access(new)) == access(old)
    }

    /// The volume with this name.
    pub fn volume(&self, name: &str) -> Option<&Export> {
        self.volumes.get(name)
    }

    /// The export of a volume that was found by name before.
    pub(super) fn same_volume(&self, name: &str, volume: VolumeId) -> Option<&Export> {
        self.volume(name).filter(|export| export.volume == volume)
    }

    /// The export of a volume by its UUID.
    pub(super) fn of_uuid(&self, uuid: &[u8; 16]) -> Option<&Export> {
        self.by_uuid.get(uuid)
    }

    /// The access of a minter of seals.
    pub(super) fn minter(&self, name: &str) -> Option<&Arc<CredentialExport>> {
        self.operators.get(name).or_else(|| self.credential(name))
    }

    /// The credential with which a client enters.
    pub fn credential(&self, key: &str) -> Option<&Arc<CredentialExport>> {
        let peers = self.peers.as_ref().filter(|peers| *peers.key == *key);
        let owner = self.owner.as_ref().filter(|owner| *owner.key == *key);
        let inner = peers.map(|peers| &peers.credential);
        inner.or(owner.map(|it| &it.credential)).or_else(|| self.credentials.get(key))
    }
}
