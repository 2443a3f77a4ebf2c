//! Calls to etcd. Each has a time-out, and goes to one endpoint after another until one answers:
//! the library itself does not turn to another one.
//!
//! Every call made here may be repeated: a second one finds what the first has done.

use std::fmt::Write as _;
use std::time::Duration;

use etcd_client::{
    AlarmAction, AlarmOptions, AlarmType, Client, CompactionOptions, Compare, CompareOp, Error,
    GetOptions, MemberAddOptions, Txn, TxnOp,
};
use nearflash_records::store::{Found, PAGE_KEYS_MAX, StoreId};
use nearflash_records::token::External;
use nearflash_records::{ClusterState, Endpoint, Txn as ClusterTxn};
use tokio::runtime::Runtime;
use uuid::Uuid;

use super::TXN_OPS_MAX;
use super::access::{CALL_TIMEOUT, Way};
use super::calls::{ANSWER_LEN_MAX, COMPACTED, behind, found, reason, store_id, transaction};
use super::error::{ClusterError, StoreError};
use super::member::{Folder, Member};

/// In etcd's refusal of a new member, or of a removal, while the others have been connected for less than 5 s.
pub(super) const TOO_EARLY: &str = "unhealthy cluster";

/// In etcd's refusal of a transaction with more operations than it admits.
const TOO_MANY: &str = "too many operations";

/// The start of each key of each cluster.
pub(super) const ROOT: &str = "/nearflash/";

/// A member of etcd, as a member lists it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Listed {
    pub(super) id: u64,
    /// Empty until it has started.
    pub(super) name: String,
    pub(super) peers: Vec<String>,
    /// Empty until it has started.
    pub(super) clients: Vec<Endpoint>,
    pub(super) is_learner: bool,
}

/// The state of one member, as it says itself.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Reported {
    /// Its number in the list of members.
    pub(super) member: u64,
    pub(super) version: String,
    /// The leader that it knows; 0 without one.
    pub(super) leader: u64,
    pub(super) applied: u64,
    pub(super) db_bytes: u64,
    /// Of the newest change.
    pub(super) revision: i64,
    pub(super) errors: Vec<String>,
}

/// The cluster's etcd.
pub(super) struct Store {
    runtime: Runtime,
    endpoints: Vec<Endpoint>,
    way: Way,
    timeout: Duration,
}

impl Store {
    /// A client with the machine's certificate. It connects when it is used.
    pub(super) fn open(
        (folder, external): (&Folder, Option<&External>),
        endpoints: &[Endpoint],
    ) -> Result<Self, ClusterError> {
        let mut way = Way::of(folder, external)?;
        way.options = way.options.with_timeout(CALL_TIMEOUT);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(
            |source| ClusterError::System { action: "start the client of etcd", source },
        )?;
        Ok(Self { runtime, endpoints: endpoints.to_vec(), way, timeout: CALL_TIMEOUT })
    }

    /// A client for the addresses that this machine knows.
    pub(super) fn of(folder: &Folder, member: &Member) -> Result<Self, ClusterError> {
        Self::open((folder, member.external.as_ref()), &member.endpoints)
    }

    /// A client for this machine's own etcd.
    pub(super) fn own(folder: &Folder, member: &Member) -> Result<Self, ClusterError> {
        Self::open((folder, None), &[member.listen.client.into()])
    }

    /// The same client with another time for each call.
    pub(super) fn patient(mut self, timeout: Duration) -> Self {
        self.way.options = self.way.options.with_timeout(timeout);
        Self { timeout, ..self }
    }

    /// Calls one endpoint after another until one answers.
    fn ask<T>(&self, call: impl AsyncFn(Client) -> Result<T, Error>) -> Result<T, StoreError> {
        let mut tried = String::new();
        for endpoint in &self.endpoints {
            match self.ask_one(endpoint, &call) {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(refused)) => return Err(refused),
                Err(reason) => {
                    // Writing to a string cannot fail.
                    let _ = write!(tried, " {endpoint} ({reason})");
                }
            }
        }
        Err(match self.way.external_tls() {
            None => StoreError::Unreachable { tried },
            Some(tls) => StoreError::ExternalUnreachable { tried, tls },
        })
    }

    /// The answer of one endpoint or its refusal; otherwise the reason why it did not answer.
    fn ask_one<T>(
        &self,
        endpoint: &Endpoint,
        call: &impl AsyncFn(Client) -> Result<T, Error>,
    ) -> Result<Result<T, StoreError>, String> {
        let asked = async {
            let options = Some(self.way.options.clone());
            let client = Client::connect([self.way.url(endpoint)], options).await?;
            call(client).await
        };
        let timed = async { tokio::time::timeout(self.timeout, asked).await };
        match self.runtime.block_on(timed) {
            Ok(Ok(answer)) => Ok(Ok(answer)),
            Ok(Err(error)) => judge(&self.way, endpoint, &error).map(Err),
            Err(_) => Err(format!("silent for {} s", self.timeout.as_secs())),
        }
    }

    pub(super) fn members(&self) -> Result<Vec<Listed>, StoreError> {
        let listed = self.ask(async |mut client: Client| client.member_list().await)?;
        let address = |url: &String| Endpoint::of_url(url, self.way.scheme());
        let mut members: Vec<Listed> = listed
            .members()
            .iter()
            .map(|member| Listed {
                id: member.id(),
                name: member.name().to_owned(),
                peers: member.peer_urls().to_vec(),
                clients: member.client_urls().iter().filter_map(address).collect(),
                is_learner: member.is_learner(),
            })
            .collect();
        members.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        Ok(members)
    }

    /// The state of the first endpoint that answers.
    pub(super) fn report(&self) -> Result<Reported, StoreError> {
        let status = self.ask(async |mut client: Client| client.status().await)?;
        Ok(Reported {
            member: status.header().map_or(0, |it| it.member_id()),
            version: status.version().to_owned(),
            leader: status.leader(),
            applied: status.raft_applied_index(),
            db_bytes: u64::try_from(status.db_size()).unwrap_or_default(),
            revision: status.header().map_or(0, |it| it.revision()),
            errors: status.errors().to_vec(),
        })
    }

    /// Adds a member that does not vote yet. A call that was already carried out is refused, since
    /// the address is then that of a member.
    pub(super) fn add_learner(&self, peer: &str) -> Result<(), StoreError> {
        self.ask(async |mut client: Client| {
            let options = MemberAddOptions::new().with_is_learner();
            client.member_add([peer], Some(options)).await.map(drop)
        })
    }

    /// Lets a learner vote. It is refused until the learner has caught up.
    pub(super) fn promote(&self, member: u64) -> Result<(), StoreError> {
        self.ask(async |mut client: Client| client.member_promote(member).await.map(drop))
    }

    /// Forgets the history before a revision, and waits until its space is free.
    pub(super) fn compact(&self, revision: i64) -> Result<(), StoreError> {
        let compacted = self.ask(async |mut client: Client| {
            let options = CompactionOptions::new().with_physical();
            client.compact(revision, Some(options)).await.map(drop)
        });
        match compacted {
            Err(StoreError::Refused { reason, .. }) if reason.contains(COMPACTED) => Ok(()),
            compacted => compacted,
        }
    }

    /// Gives the free space of the first endpoint's database back to its file system. That member stands
    /// still meanwhile.
    pub(super) fn defragment(&self) -> Result<(), StoreError> {
        self.ask(async |mut client: Client| client.defragment().await.map(drop))
    }

    /// Ends a member's alarm that it is full.
    pub(super) fn disarm_no_space(&self, member: u64) -> Result<(), StoreError> {
        self.ask(async |mut client: Client| {
            let mut options = AlarmOptions::new();
            options.with_member(member);
            let (action, alarm) = (AlarmAction::Deactivate, AlarmType::Nospace);
            client.alarm(action, alarm, Some(options)).await.map(drop)
        })
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let name = self.way.name(key);
        let found = self.ask(async |mut client: Client| client.get(name.as_str(), None).await)?;
        Ok(found.kvs().first().map(|pair| pair.value().to_vec()))
    }

    /// Ends the membership of a machine. etcd refuses it if the others would have no majority.
    pub(super) fn remove_member(&self, member: u64) -> Result<(), StoreError> {
        let asked =
            self.ask(async |mut client: Client| client.member_remove(member).await.map(drop));
        match asked {
            // An earlier call had no answer.
            Err(StoreError::Refused { reason, .. }) if reason.contains("not found") => Ok(()),
            asked => asked,
        }
    }

    /// Carries out a transaction. Returns whether its comparisons held. It may take effect also if there is
    /// no answer.
    pub(super) fn txn(&self, cluster: Uuid, txn: &ClusterTxn) -> Result<bool, StoreError> {
        let txn = transaction(txn, &self.way, cluster);
        let answer = self.ask(async |mut client: Client| client.txn(txn.clone()).await)?;
        Ok(answer.succeeded())
    }

    /// Everything that the store has of a cluster, page by page, at the revision of the first one.
    pub(super) fn state(&self, cluster: Uuid) -> Result<ClusterState, StoreError> {
        self.read(cluster).map(|(state, ..)| state)
    }

    /// The state, with etcd's cluster id and the revision.
    pub(super) fn read(
        &self,
        cluster: Uuid,
    ) -> Result<(ClusterState, Option<StoreId>, u64), StoreError> {
        let prefix = nearflash_records::prefix(cluster);
        let limit = i64::try_from(PAGE_KEYS_MAX).unwrap_or(i64::MAX);
        let options =
            GetOptions::new().with_range(behind(&self.way.name(&prefix))).with_limit(limit);
        let mut all: Vec<Found> = Vec::new();
        let mut revision = 0;
        loop {
            let from = all.last().map_or_else(|| prefix.clone(), |last| last.key.clone() + "\0");
            let from = self.way.name(&from);
            let page = self.ask(async |client: Client| {
                let mut reader = client.kv_client().max_decoding_message_size(ANSWER_LEN_MAX);
                reader.get(from.as_str(), Some(options.clone().with_revision(revision))).await
            })?;
            if revision == 0 {
                revision = page.header().map_or(0, |it| it.revision());
            }
            all.extend(page.kvs().iter().map(|pair| found(&self.way, pair, true)));
            if !page.more() || page.kvs().is_empty() {
                let mut state = ClusterState::new(cluster);
                state.replace(&all);
                let revision = u64::try_from(revision).unwrap_or_default();
                return Ok((state, store_id(page.header()), revision));
            }
        }
    }

    /// Writes a key unless there is one.
    pub(super) fn put_new(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        let name = self.way.name(key);
        self.ask(async |mut client: Client| {
            let absent = Compare::create_revision(name.as_str(), CompareOp::Equal, 0);
            let txn = Txn::new().when([absent]).and_then([TxnOp::put(name.as_str(), value, None)]);
            client.txn(txn).await.map(drop)
        })
    }

    /// The first key of any cluster.
    pub(super) fn first_key(&self) -> Result<Option<String>, StoreError> {
        let name = self.way.name(ROOT);
        let answer = self.ask(async |mut client: Client| {
            let options = GetOptions::new().with_prefix().with_keys_only().with_limit(1);
            client.get(name.as_str(), Some(options)).await
        })?;
        Ok(answer.kvs().first().map(|pair| found(&self.way, pair, false).key))
    }

    /// Whether a transaction may have as many operations as the cluster's changes need.
    pub(super) fn admits_changes(&self) -> Result<bool, StoreError> {
        let name = self.way.name(ROOT);
        let asked = self.ask(async |mut client: Client| {
            let reads = (0..TXN_OPS_MAX).map(|_| TxnOp::get(name.as_str(), None));
            client.txn(Txn::new().and_then(reads.collect::<Vec<_>>())).await.map(drop)
        });
        match asked {
            Err(StoreError::Refused { reason, .. }) if reason.contains(TOO_MANY) => Ok(false),
            asked => asked.map(|()| true),
        }
    }
}

/// Whether an error is the endpoint's answer. Otherwise it is the reason for asking another one.
fn judge(way: &Way, endpoint: &Endpoint, error: &Error) -> Result<StoreError, String> {
    let (reason, endpoint) = (reason(error), endpoint.clone());
    // Alarms of TLS are spelled 'CertificateRequired', for example.
    if way.is_external() && reason.to_ascii_lowercase().contains("certificate") {
        return Ok(StoreError::Certificate { endpoint, reason });
    }
    if reason.contains("certificate") {
        return Ok(StoreError::Foreign { endpoint, reason });
    }
    match error {
        Error::GRpcStatus(status) if is_refusal(status.code() as i32, status.message()) => {
            Ok(StoreError::Refused { endpoint, reason })
        }
        _ => Err(reason),
    }
}

/// Whether a status of gRPC is an answer. After Cancelled, Unknown, Deadline Exceeded and
/// Unavailable, another member may answer. A new member that is refused as too early is Unavailable
/// too.
fn is_refusal(code: i32, message: &str) -> bool {
    !matches!(code, 1 | 2 | 4 | 14) || message.contains(TOO_EARLY)
}
