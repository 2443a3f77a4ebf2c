//! `nearflash cluster init`: the first member.
//!
//! The record of the machine is written when all secrets are. A command that finds an unfinished
//! one goes on with it; everything after it may be done twice.

use std::net::SocketAddr;
use std::path::PathBuf;

use nearflash_cluster::Key;
use nearflash_cluster::record::{ClusterRecord, FEATURE_LEVEL, Record as _, Schema};
use nearflash_space::Name;
use uuid::Uuid;

use super::client::Store;
use super::error::ClusterError;
use super::listen::Listen;
use super::member::{Folder, Member, Origin, Role};
use super::token::{PeerSecret, Token};
use super::{Say, etcd, pki};
use crate::node::now;

/// The options of the command.
#[derive(Clone, Debug)]
pub struct InitOptions {
    /// The node's data directory.
    pub data_dir: PathBuf,
    /// The cluster's name.
    pub name: Option<Name>,
    /// The member's addresses.
    pub listen: Option<Listen>,
}

/// A new cluster.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Initialized {
    /// The cluster.
    pub cluster: Uuid,
    /// Its name.
    pub name: String,
    /// The address of its first member, for clients.
    pub listen: SocketAddr,
    /// The file with its token.
    pub token: PathBuf,
}

/// The name of a cluster that got no other.
const NAME: &str = "nearflash";

/// Makes a cluster of this machine.
///
/// # Errors
/// When the machine belongs to a cluster, or a step fails; the command may then be repeated.
pub fn init(options: &InitOptions, say: Say<'_>) -> Result<Initialized, ClusterError> {
    let name = options.name.as_ref().map_or(NAME, Name::as_str);
    let folder = Folder::of(&options.data_dir);
    folder.create()?;
    let _lock = folder.lock()?;
    let mut member = match folder.member()? {
        Some(member) if member.is_ready => {
            let (path, name) = (folder.data_dir().to_owned(), member.name.into());
            return Err(ClusterError::Belongs { path, name, cluster: member.cluster });
        }
        Some(Member { origin: Origin::Join, .. }) => {
            return Err(ClusterError::Unfinished { command: "join" });
        }
        Some(member) => member,
        None => prepare(&folder, name, options.listen)?,
    };
    etcd::ensure(&folder, &member, say)?;
    let store = Store::open(&folder, &[member.listen.client])?;
    store.put_new(&Key::Cluster.path(member.cluster), &record(&member)?.encode())?;
    member.is_ready = true;
    folder.keep_member(&member)?;
    Ok(Initialized {
        cluster: member.cluster,
        listen: member.listen.client,
        token: folder.token(),
        name: member.name,
    })
}

/// The cluster's record.
fn record(member: &Member) -> Result<ClusterRecord, ClusterError> {
    let damaged = |_| ClusterError::Damaged { path: PathBuf::from("member.json") };
    Ok(ClusterRecord {
        schema: Schema,
        name: member.name.parse().map_err(damaged)?,
        uuid: member.cluster,
        feature_level: FEATURE_LEVEL,
        created: now().0,
    })
}

/// Makes the secrets and the record of the machine.
fn prepare(folder: &Folder, name: &str, listen: Option<Listen>) -> Result<Member, ClusterError> {
    let listen = listen.map_or_else(|| Listen::towards(None), Ok)?;
    listen.check()?;
    let cluster = Uuid::new_v4();
    let member = Member::new((cluster, name), (Role::Member, Origin::Init), listen);
    let (authority, join) = pki::authorities(cluster)?;
    let own = pki::machine(cluster, &join, &member.machine, &[listen.client.ip()])?;
    folder.keep(&folder.authority_key(), authority.key.as_bytes())?;
    folder.keep_machine(&authority.certificate, &own)?;
    let secret = (join, new_secret()?);
    let token = Token::new(cluster, name, vec![listen.client], authority.certificate, secret);
    folder.keep(&folder.token(), token.encode().as_bytes())?;
    folder.keep_member(&member)?;
    Ok(member)
}

fn new_secret() -> Result<PeerSecret, ClusterError> {
    let mut secret = PeerSecret::default();
    let failed = |errno: rustix::io::Errno| ClusterError::System {
        action: "get random bytes",
        source: errno.into(),
    };
    // The kernel returns up to 256 bytes at once.
    let count = rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty());
    if count.map_err(failed)? == secret.len() {
        Ok(secret)
    } else {
        Err(failed(rustix::io::Errno::AGAIN))
    }
}
