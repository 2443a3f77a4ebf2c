//! `nearflash cluster join`: a further member, or a client of three.
//!
//! A member is added as a learner, which changes no majority, and votes once it has caught up. A
//! second voter that does not run yet would stop the first. Each step finds what an earlier attempt
//! has done.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nearflash_records::record::{ClusterRecord, FEATURE_LEVEL, Record as _};
use nearflash_records::token::Token;
use nearflash_records::{Endpoint, Key};
use uuid::Uuid;

use super::client::{Listed, Store, TOO_EARLY};
use super::clock::now;
use super::error::{ClusterError, StoreError};
use super::external::keep;
use super::init::check_operations;
use super::listen::{Listen, resolve};
use super::member::{Folder, Member, Origin, Role};
use super::token::TokenError;
use super::{Say, VOTERS_MAX, etcd, pki};

/// The time for which a new member may catch up, or etcd may refuse a new one as too early.
const PATIENCE: Duration = Duration::from_secs(600);
/// The interval between two attempts.
const POLL: Duration = Duration::from_millis(200);
/// The interval of progress reports.
const REPORT: Duration = Duration::from_secs(1);

/// The options of the command.
#[derive(Clone, Debug)]
pub struct JoinOptions {
    /// The node's data directory.
    pub data_dir: PathBuf,
    /// Whether the machine runs etcd only.
    pub is_witness: bool,
    /// The member's addresses.
    pub listen: Option<Listen>,
}

/// A machine that belongs to the cluster.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Joined {
    /// The cluster.
    pub cluster: Uuid,
    /// Its name.
    pub name: String,
    /// The machine's role.
    pub role: Role,
    /// The address of its etcd for clients, if it runs one.
    pub listen: Option<SocketAddr>,
    /// Whether nearflash does not run the cluster's etcd.
    pub is_external: bool,
}

/// Makes this machine a part of the token's cluster.
///
/// # Errors
/// When it belongs to another cluster, or a step fails; the command may then be repeated.
pub fn join(token: &Token, options: &JoinOptions, say: Say<'_>) -> Result<Joined, ClusterError> {
    let folder = Folder::of(&options.data_dir);
    folder.create()?;
    let _lock = folder.lock()?;
    let known = folder.member()?;
    if known.is_none() {
        token.check_time(now()).map_err(TokenError::from)?;
    }
    let mut member = match known {
        Some(member) if member.cluster != token.cluster => {
            let (path, name) = (folder.data_dir().to_owned(), member.name.into());
            return Err(ClusterError::Belongs { path, name, cluster: member.cluster });
        }
        Some(member) if member.is_ready => return Ok(joined(member)),
        Some(Member { origin: Origin::Init, .. }) => {
            return Err(ClusterError::Unfinished { command: "init" });
        }
        // An attempt that has begun may be finished later.
        Some(member) => member,
        None if token.external.is_some() => return join_external(&folder, token, options),
        None => prepare(&folder, token, options)?,
    };
    if has_data(&folder) {
        // It may vote already, and then etcd may have no majority without it.
        etcd::ensure(&folder, &member, say)?;
    }
    let store = Store::open((&folder, None), &token.endpoints)?;
    check_data(&folder, &store, &member)?;
    check_cluster(&store, token)?;
    let members = admitted(&folder, &store, &mut member, say)?;
    if member.runs_etcd() {
        member.initial_cluster = initial_cluster(&members, &member);
        folder.keep_member(&member)?;
        etcd::ensure(&folder, &member, say)?;
        catch_up(&folder, &store, &member, say)?;
    }
    member.endpoints = endpoints(&store.members()?, &member);
    let mut own = token.clone();
    own.endpoints.clone_from(&member.endpoints);
    folder.keep(&folder.token(), own.encode().as_bytes())?;
    member.is_ready = true;
    folder.keep_member(&member)?;
    Ok(joined(member))
}

/// Makes this machine a client of an etcd that nearflash does not run. The record is last.
fn join_external(
    folder: &Folder,
    token: &Token,
    options: &JoinOptions,
) -> Result<Joined, ClusterError> {
    if options.is_witness {
        return Err(ClusterError::ExternalWitness);
    }
    let Some(external) = &token.external else { return Err(ClusterError::External) };
    let first = &token.endpoints[0]; // a token has one
    let listen = options.listen.map_or_else(|| Listen::of_client(first), Ok)?;
    listen.check_ip()?;
    keep(external, folder, &token.certificates())?;
    let store = Store::open((folder, Some(external)), &token.endpoints)?;
    check_cluster(&store, token)?;
    check_operations(&store, first)?;
    folder.keep(&folder.token(), token.encode().as_bytes())?;
    let (id, way) = ((token.cluster, &*token.name), (&token.endpoints[..], external.clone()));
    let member = Member::of_external(id, Origin::Join, listen, way);
    let member = Member { is_ready: true, ..member };
    folder.keep_member(&member)?;
    Ok(joined(member))
}

fn joined(member: Member) -> Joined {
    let listen = member.runs_etcd().then_some(member.listen.client);
    let is_external = member.external.is_some();
    Joined { cluster: member.cluster, name: member.name, role: member.role, listen, is_external }
}

/// Makes the certificate and the record of the machine.
fn prepare(folder: &Folder, token: &Token, options: &JoinOptions) -> Result<Member, ClusterError> {
    let towards = || Listen::towards(token.endpoints.first().and_then(resolve));
    let listen = options.listen.map_or_else(towards, Ok)?;
    listen.check()?;
    let role = if options.is_witness { Role::Witness } else { Role::Member };
    let member = Member::new((token.cluster, &token.name), (role, Origin::Join), listen);
    let own = pki::machine(token.cluster, &token.join(), &member.machine, &[listen.client.ip()])?;
    folder.keep_machine(&token.authority, &own)?;
    Ok(member)
}

/// Checks that a member of this address that has run still has its data: without them it would vote
/// against what it has promised. etcd 3.4 lists its members even without a majority.
fn check_data(folder: &Folder, store: &Store, member: &Member) -> Result<(), ClusterError> {
    let (peer, members) = (peer_url(member), store.members()?);
    let own = members.iter().find(|it| it.peers.contains(&peer));
    match own.filter(|own| !own.name.is_empty() && !has_data(folder)) {
        Some(_) => {
            let (address, path) = (member.listen.client, folder.data());
            Err(ClusterError::LostData { address, path })
        }
        None => Ok(()),
    }
}

/// Checks that etcd holds the token's cluster, and that this program can read its records.
fn check_cluster(store: &Store, token: &Token) -> Result<(), ClusterError> {
    let (name, cluster) = (token.name.as_str().into(), token.cluster);
    let Some(value) = store.get(&Key::Cluster.path(cluster))? else {
        let endpoint = token.endpoints[0].clone(); // a token has one
        return Err(ClusterError::OtherCluster { endpoint, name, cluster });
    };
    let record = ClusterRecord::decode(&value)
        .map_err(|source| ClusterError::Record { key: Key::Cluster, source })?;
    match record.feature_level {
        level if level > FEATURE_LEVEL => Err(ClusterError::Later { name, level }),
        _ => Ok(()),
    }
}

/// Adds this machine to the members, unless it is one or there are enough. Returns the members.
fn admitted(
    folder: &Folder,
    store: &Store,
    member: &mut Member,
    say: Say<'_>,
) -> Result<Vec<Listed>, ClusterError> {
    let peer = peer_url(member);
    let mut wait = Wait::new();
    loop {
        let members = store.members()?;
        if members.iter().any(|it| it.peers.contains(&peer)) {
            return Ok(members);
        }
        if let Some(other) = members.iter().find(|it| it.is_learner) {
            let machine = other.peers.first().unwrap_or(&other.name).as_str().into();
            return Err(ClusterError::Joining { machine });
        }
        if members.len() >= VOTERS_MAX {
            if member.role == Role::Witness {
                return Err(ClusterError::NeedlessWitness);
            }
            member.role = Role::Client;
            return Ok(members);
        }
        // Should this process end now, the next attempt finds the same address.
        folder.keep_member(member)?;
        match store.add_learner(&peer) {
            Err(StoreError::Refused { reason, .. }) if reason.contains(TOO_EARLY) => {
                wait.again(say, || "waiting until etcd admits another member".to_owned())?;
            }
            Err(StoreError::Refused { reason, .. }) if reason.contains("exist") => {}
            added => added?,
        }
    }
}

/// Waits until this machine's etcd has what the others have, and votes.
fn catch_up(
    folder: &Folder,
    store: &Store,
    member: &Member,
    say: Say<'_>,
) -> Result<(), ClusterError> {
    let peer = peer_url(member);
    let own = Store::own(folder, member)?;
    let mut wait = Wait::new();
    loop {
        let members = store.members()?;
        let Some(listed) = members.iter().find(|it| it.peers.contains(&peer)) else {
            return Err(ClusterError::Unfinished { command: "join" });
        };
        // Refused until it has caught up. After an unknown outcome, the list tells.
        if !listed.is_learner || store.promote(listed.id).is_ok() {
            return Ok(());
        }
        wait.again(say, || {
            let applied = |store: &Store| store.report().map(|it| it.applied).unwrap_or_default();
            format!("catching up: {} of {} changes", applied(&own), applied(store))
        })?;
    }
}

/// Whether this machine's etcd has been started.
fn has_data(folder: &Folder) -> bool {
    folder.data().join("member").exists()
}

fn peer_url(member: &Member) -> String {
    format!("https://{}", member.listen.peer())
}

/// The members as etcd's flag has them. This machine has no name among them yet.
fn initial_cluster(members: &[Listed], member: &Member) -> String {
    let peer = peer_url(member);
    let pairs = members.iter().flat_map(|it| {
        let name = if it.peers.contains(&peer) { &member.machine } else { &it.name };
        it.peers.iter().map(move |url| format!("{name}={url}"))
    });
    pairs.collect::<Vec<_>>().join(",")
}

/// The addresses of all members; the machine's own is first.
pub(super) fn endpoints(members: &[Listed], member: &Member) -> Vec<Endpoint> {
    let own = Endpoint::from(member.listen.client);
    let mut all: Vec<Endpoint> = members.iter().flat_map(|it| it.clients.clone()).collect();
    all.sort_by(|a, b| (*a != own, a).cmp(&(*b != own, b)));
    all.dedup();
    all
}

/// A bounded wait with reports.
struct Wait {
    begun: Instant,
    reported: Instant,
}

impl Wait {
    fn new() -> Self {
        let begun = Instant::now();
        Self { begun, reported: begun }
    }

    /// Waits for the next attempt.
    fn again(&mut self, say: Say<'_>, report: impl FnOnce() -> String) -> Result<(), ClusterError> {
        if self.begun.elapsed() > PATIENCE {
            return Err(ClusterError::Behind { seconds: PATIENCE.as_secs() });
        }
        if self.reported.elapsed() > REPORT {
            self.reported = Instant::now();
            say(&report());
        }
        std::thread::sleep(POLL);
        Ok(())
    }
}
