//! The volumes and rights of direct clients: the grants of each credential become one table per volume.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use nearflash_access::{
    Covered, Credential, Holder, Rights, Secret as Shared, UnixTime, is_expired,
};
use nearflash_direct::serving::{Access, CredentialExport, Export, Exports, FilesGrant};
use nearflash_direct::{Face, Secret, wire};
use nearflash_request::VolumeId;
use nearflash_space::{Epoch, Home, Name, Volume};
use uuid::Uuid;

use crate::records::Records;

/// The key with which the nodes of a cluster connect to each other. No credential has it, because it is not a
/// name.
pub const PEER_KEY: &str = "@cluster";

/// The key of the owner of files. No credential has it, for it is no name of one.
pub const FILES_KEY: &str = "~files";

/// The exports at the time `now`.
pub(crate) fn exports(records: &Records, now: UnixTime) -> Exports {
    let Records { space, grants, .. } = records;
    let volumes: HashMap<Uuid, &Volume> = space.served().map(|v| (v.uuid, v)).collect();
    let mut given: HashMap<&Name, Tables> = HashMap::new();
    let mut seals = Vec::new();
    for grant in grants.grants().filter(|grant| !is_expired(grant.expires, now)) {
        let Some(volume) = volumes.get(&grant.volume) else { continue };
        match (&grant.holder, &grant.covers) {
            (Holder::Credential(id), Covered::Files(path)) => {
                let (path, rights) = (path.to_string(), wire_rights(grant.rights));
                let grant = FilesGrant { path: path.into_bytes().into(), rights };
                given.entry(id).or_default().of(volume.id).1.push(grant);
            }
            (Holder::Credential(id), Covered::Range(range)) => {
                let bytes = range.start().0..range.end().map_or(volume.len().0, |end| end.0);
                given.entry(id).or_default().add(volume.id, bytes, grant.rights);
            }
            (Holder::Seal(secret), Covered::Range(range)) => {
                let bytes = range.start().0..range.end().map_or(volume.len().0, |end| end.0);
                let mut tables = Tables::default();
                tables.add(volume.id, bytes, grant.rights);
                seals.push((wire::operator_name(grant.number.0), tables.export(secret)));
            }
            (Holder::Seal(_), Covered::Files(_)) => {}
        }
    }
    let credential = |it: &Credential| {
        let tables = given.remove(&it.id).unwrap_or_default();
        let expired = is_expired(it.expires, now);
        (it.id.as_str().into(), CredentialExport { expired, ..tables.export(&it.secret) })
    };
    let volumes = space.served().map(|volume| (volume.name.as_str().into(), export(volume)));
    let exports = Exports::new(volumes, grants.credentials().map(credential));
    let exports = exports.with_operator_seals(seals);
    let exports = if records.closes_direct() { exports.closed() } else { exports };
    with_inner(exports, records)
}

/// Adds the credentials of the other nodes of a cluster, which use the parts and nothing else, and of the owner
/// of files.
fn with_inner(exports: Exports, records: &Records) -> Exports {
    let served = || records.space.served();
    let exports = match &records.peers {
        Some(peers) => {
            let credential = full_access(served().filter(|it| !it.home.is_public()), &peers.secret);
            exports.with_peers(PEER_KEY, credential, peers.boot)
        }
        None => exports,
    };
    match &records.files {
        Some(files) => {
            let owned = || served().filter(|it| files.volumes.contains(&it.name));
            let credential = full_access(owned(), &files.secret);
            exports.with_files_owner(FILES_KEY, credential, owned().map(|it| it.id))
        }
        None => exports,
    }
}

/// A credential that may read and write all of these volumes, and nothing else.
fn full_access<'a>(volumes: impl Iterator<Item = &'a Volume>, secret: &Shared) -> CredentialExport {
    let mut tables = Tables::default();
    volumes.for_each(|volume| tables.add(volume.id, 0..volume.len().0, Rights::ReadWrite));
    tables.export(secret)
}

fn export(volume: &Volume) -> Export {
    Export {
        volume: volume.id,
        bytes: volume.len().0,
        block_size: volume.block_size,
        epoch: wire_epoch(volume.epoch),
        uuid: *volume.uuid.as_bytes(),
        is_remote: !matches!(volume.home, Home::Node | Home::Part),
        is_public: volume.home.is_public(),
        face: match volume.home {
            Home::PrimaryFace => Some(Face::Primary),
            Home::ReplicaFace => Some(Face::Replica),
            _ => None,
        },
    }
}

/// The rights of one key, by volume: on ranges, and on the files of directories.
#[derive(Default)]
struct Tables(HashMap<VolumeId, Table>);

type Table = (Vec<(Range<u64>, wire::Rights)>, Vec<FilesGrant>);

impl Tables {
    fn of(&mut self, volume: VolumeId) -> &mut Table {
        self.0.entry(volume).or_default()
    }

    fn add(&mut self, volume: VolumeId, bytes: Range<u64>, rights: Rights) {
        self.of(volume).0.push((bytes, wire_rights(rights)));
    }

    fn export(self, secret: &Shared) -> CredentialExport {
        let access =
            |(volume, (ranges, files))| (volume, Arc::new(Access::new(ranges).with_files(files)));
        CredentialExport {
            secret: Secret::new(*secret.bytes()),
            expired: false,
            access: self.0.into_iter().map(access).collect(),
        }
    }
}

fn wire_rights(rights: Rights) -> wire::Rights {
    match rights {
        Rights::Read => wire::Rights::READ,
        Rights::ReadWrite => wire::Rights::READ_WRITE,
    }
}

/// An epoch on the wire has 32 bits, and 0 stands for none. Two epochs of one volume are equal only
/// after 4 294 967 295 changes of its layout.
fn wire_epoch(epoch: Epoch) -> u32 {
    let wrapped = epoch.0.saturating_sub(1) % u64::from(u32::MAX) + 1;
    u32::try_from(wrapped).expect("a remainder is less than its divisor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_one_table_for_each_volume() {
        let mut tables = Tables::default();
        tables.add(VolumeId(0), 0..4096, Rights::ReadWrite);
        tables.add(VolumeId(0), 4096..8192, Rights::Read);
        tables.add(VolumeId(3), 0..512, Rights::Read);
        let (path, rights) = (Box::from(&b"/a"[..]), wire::Rights::READ);
        tables.of(VolumeId(5)).1.push(FilesGrant { path, rights });
        let compiled = tables.export(&Shared::new([7; 32])).access;
        assert_eq!(compiled.len(), 3);
        let of_files = &compiled[&VolumeId(5)];
        assert_eq!(of_files.hull(), wire::Rights::NONE, "files are no bytes");
        assert_eq!(&*of_files.files()[0].path, b"/a");
        let first = &compiled[&VolumeId(0)];
        assert!(
            first.allows(0..8192, wire::Rights::READ)
                && !first.allows(8191..8193, wire::Rights::READ)
        );
        assert!(
            first.allows(0..4096, wire::Rights::WRITE)
                && !first.allows(4095..4097, wire::Rights::WRITE)
        );
        assert_eq!(compiled[&VolumeId(3)].hull(), wire::Rights::READ);
    }

    #[test]
    fn an_epoch_on_the_wire_is_never_zero() {
        let max = u64::from(u32::MAX);
        for (epoch, wire) in
            [(0, 1), (1, 1), (2, 2), (max, u32::MAX), (max + 1, 1), (u64::MAX, u32::MAX)]
        {
            assert_eq!(wire_epoch(Epoch(epoch)), wire, "{epoch}");
        }
    }
}
