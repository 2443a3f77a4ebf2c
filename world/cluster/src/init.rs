//! `nearflash cluster init`: the first member.
//!
//! The record of the machine is written when all secrets are. A command that finds an unfinished
//! one goes on with it; everything after it may be done twice.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use nearflash_records::record::{ClusterRecord, FEATURE_LEVEL, HistoryRecord, Record as _, Schema};
use nearflash_records::token::{PeerSecret, TOKEN_LEN_MAX, Token};
use nearflash_records::{Endpoint, Key};
use nearflash_space::Name;
use uuid::Uuid;

use super::client::{ROOT, Store};
use super::clock::now;
use super::error::ClusterError;
use super::external::{EtcdUrl, keep};
use super::listen::Listen;
use super::member::{Folder, Member, Origin, Role};
use super::{Say, etcd, pki};

/// The options of the command.
#[derive(Clone, Debug)]
pub struct InitOptions {
    /// The node's data directory.
    pub data_dir: PathBuf,
    /// The cluster's name.
    pub name: Option<Name>,
    /// The member's addresses.
    pub listen: Option<Listen>,
    /// The etcd that exists already; without it, this machine gets one.
    pub etcd: Option<EtcdUrl>,
    /// The time from which the token admits no machine, in seconds since 1970.
    pub expires_at: u64,
}

/// A new cluster.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Initialized {
    /// The cluster.
    pub cluster: Uuid,
    /// Its name.
    pub name: String,
    /// The address of its first member, for clients; absent if its etcd is external.
    pub listen: Option<SocketAddr>,
    /// The addresses of etcd.
    pub etcd: Vec<Endpoint>,
    /// Whether etcd existed already, and nearflash does not run it.
    pub is_external: bool,
    /// The file with its token.
    pub token: PathBuf,
    /// The time from which the token admits no machine, in seconds since 1970.
    pub expires_at: u64,
}

/// A token with a new lifetime.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Renewed {
    /// The cluster.
    pub cluster: Uuid,
    /// Its name.
    pub name: String,
    /// The file with the token.
    pub token: PathBuf,
    /// The time from which the token admits no machine, in seconds since 1970.
    pub expires_at: u64,
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
        None => match &options.etcd {
            Some(url) => prepare_external(&folder, (name, options.listen), url)?,
            None => prepare(&folder, name, options.listen)?,
        },
    };
    if member.runs_etcd() {
        etcd::ensure(&folder, &member, say)?;
    }
    let store = Store::of(&folder, &member)?;
    store.put_new(&Key::Cluster.path(member.cluster), &record(&member)?.encode())?;
    store.put_new(&Key::History.path(member.cluster), &history().encode())?;
    renew(&folder, &member, options.expires_at)?;
    member.is_ready = true;
    folder.keep_member(&member)?;
    Ok(Initialized {
        cluster: member.cluster,
        listen: member.runs_etcd().then_some(member.listen.client),
        etcd: member.endpoints,
        is_external: member.external.is_some(),
        token: folder.token(),
        expires_at: options.expires_at,
        name: member.name,
    })
}

/// Gives the token of a machine that belongs to a cluster a new lifetime, and the addresses of etcd that
/// the machine knows now.
///
/// # Errors
/// When the machine belongs to no cluster, or its files cannot be used.
pub fn token(data_dir: &Path, expires_at: u64) -> Result<Renewed, ClusterError> {
    let folder = Folder::of(data_dir);
    let _lock = folder.joined().and_then(|_| folder.lock())?;
    let member = folder.joined()?;
    renew(&folder, &member, expires_at)?;
    let (cluster, name, token) = (member.cluster, member.name, folder.token());
    Ok(Renewed { cluster, name, token, expires_at })
}

fn renew(folder: &Folder, member: &Member, expires_at: u64) -> Result<(), ClusterError> {
    let mut token = folder.own_token()?;
    token.endpoints.clone_from(&member.endpoints);
    token.expires_at = Some(expires_at);
    folder.keep(&folder.token(), token.encode().as_bytes())
}

/// The first history of a store.
fn history() -> HistoryRecord {
    HistoryRecord { schema: Schema, id: Uuid::new_v4(), began: now().0 }
}

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
    let token =
        Token::new(cluster, name, vec![listen.client.into()], authority.certificate, secret);
    folder.keep(&folder.token(), token.encode().as_bytes())?;
    folder.keep_member(&member)?;
    Ok(member)
}

/// Makes the secret and the record of a machine that uses an etcd which exists already. The record is
/// last, so that the command can be repeated with another URL until this etcd can be used.
fn prepare_external(
    folder: &Folder,
    (name, listen): (&str, Option<Listen>),
    url: &EtcdUrl,
) -> Result<Member, ClusterError> {
    let (external, files) = (url.external(), url.read()?);
    let first = url.endpoints.first().ok_or(ClusterError::NoAddress)?;
    let listen = listen.map_or_else(|| Listen::of_client(first), Ok)?;
    listen.check_ip()?;
    let way = (&url.endpoints[..], external.clone());
    let id = (Uuid::new_v4(), name);
    let text = Token::of_external(id, way.clone(), files.clone(), new_secret()?).encode();
    if text.len() > TOKEN_LEN_MAX {
        return Err(ClusterError::LongToken { len: text.len(), max: TOKEN_LEN_MAX });
    }
    keep(&external, folder, &files)?;
    let store = Store::open((folder, Some(&external)), &url.endpoints)?;
    check_place(&store, first, &external.prefix)?;
    check_operations(&store, first)?;
    folder.keep(&folder.token(), text.as_bytes())?;
    let member = Member::of_external(id, Origin::Init, listen, way);
    folder.keep_member(&member)?;
    Ok(member)
}

/// Checks that an etcd holds no cluster yet at the place of the new one.
fn check_place(store: &Store, endpoint: &Endpoint, prefix: &str) -> Result<(), ClusterError> {
    let Some(key) = store.first_key()? else { return Ok(()) };
    let rest = key.strip_prefix(ROOT).and_then(|rest| rest.split_once('/'));
    let cluster = rest.and_then(|(cluster, _)| cluster.parse::<Uuid>().ok());
    let holds = match cluster {
        None => format!("'{}'", nearflash_units::OneLine(&key)),
        Some(cluster) => {
            let record = store.get(&Key::Cluster.path(cluster))?;
            let record = record.and_then(|value| ClusterRecord::decode(&value).ok());
            let name = record.map(|record| format!("'{}' ", record.name)).unwrap_or_default();
            format!("cluster {name}({cluster})")
        }
    };
    let place = format!("{prefix}{ROOT}").into();
    Err(ClusterError::Occupied { endpoint: endpoint.clone(), holds: holds.into(), place })
}

/// Checks that an etcd which others have started admits the cluster's changes.
pub(super) fn check_operations(store: &Store, endpoint: &Endpoint) -> Result<(), ClusterError> {
    match store.admits_changes()? {
        true => Ok(()),
        false => Err(ClusterError::FewOperations { endpoint: endpoint.clone() }),
    }
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
