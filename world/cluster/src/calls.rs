//! The requests of the agent as calls to etcd.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use etcd_client::{
    AlarmAction, AlarmType, Client, Compare, CompareOp, Error, EventType, GetOptions, KeyValue,
    Member, PutOptions, Txn, TxnOp, TxnOpResponse, WatchOptions, WatchResponse,
};
use nearflash_records::store::{
    Answer, Found, ModRevision, Operation, RequestId, StoreId, StoreStatus,
};
use nearflash_records::{Endpoint, Key, StoreEvent, Txn as ClusterTxn};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::access::{CALL_TIMEOUT, StoreAccess, Way};

/// In etcd's refusal of a revision that has been compacted. Its status, Out Of Range, is also that of an
/// answer which is too long.
pub(super) const COMPACTED: &str = "compacted";

/// The message of a connection that failed.
const TRANSPORT: &str = "transport error";

/// The time between two probes of the endpoint of a watch, and the time for the answer. Their sum is well below
/// a lease, after which another node may be primary.
const PROBE_PERIOD: Duration = Duration::from_millis(300);
const PROBE_TIMEOUT: Duration = Duration::from_millis(300);

/// The longest answer: a page of a thousand records of 64 KiB each, and their keys.
pub(super) const ANSWER_LEN_MAX: usize = 96 << 20;

/// The connections to the endpoints. A connection is given up when a call over it fails.
#[derive(Clone)]
pub struct Calls {
    cluster: Uuid,
    way: Way,
    /// The addresses that the operator has named, of an external etcd.
    named: Arc<[Endpoint]>,
    clients: Arc<Mutex<HashMap<Endpoint, Client>>>,
    events: UnboundedSender<StoreEvent>,
}

/// The outcome of a transaction.
pub enum Swap {
    /// It took effect, with this revision.
    Done(u64),
    /// It did not: these are the keys that it compares, in their order, at that moment.
    Refused(Vec<Option<Found>>),
}

/// The addresses of the members of etcd.
pub type Members = Vec<Endpoint>;

impl Calls {
    /// Calls as the machine of a data directory. Their answers are reported as `events`.
    pub fn new(access: &StoreAccess, events: UnboundedSender<StoreEvent>) -> Self {
        let (cluster, named) = (access.cluster(), access.endpoints().into());
        Self { cluster, way: access.way(), named, clients: Arc::default(), events }
    }

    /// Carries out a request that is not a watch, and reports the answer. Returns the addresses of the
    /// members if they were asked for.
    pub async fn call(
        &self,
        (id, endpoint): (RequestId, Endpoint),
        operation: Operation,
        timeout: Duration,
    ) -> Option<Members> {
        let (mut members, mut store) = (None, None);
        let told = (&mut members, &mut store);
        let called = tokio::time::timeout(timeout, self.answer(&endpoint, operation, told));
        let answer = match called.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                self.forget(&endpoint);
                Answer::Unknown { reason: reason(&error) }
            }
            Err(_) => {
                self.forget(&endpoint);
                Answer::Unknown { reason: format!("silent for {} s", timeout.as_secs().max(1)) }
            }
        };
        self.report(StoreEvent::Answered { id, store, answer });
        members
    }

    async fn answer(
        &self,
        endpoint: &Endpoint,
        operation: Operation,
        (members, store): (&mut Option<Members>, &mut Option<StoreId>),
    ) -> Result<Answer, Error> {
        let mut client = self.client(endpoint).await?;
        match operation {
            Operation::Range { is_local, from, prefix, revision, keys_only, limit } => {
                let at = i64::try_from(revision).unwrap_or(i64::MAX);
                let limit = i64::try_from(limit).unwrap_or(i64::MAX);
                let options = GetOptions::new()
                    .with_range(behind(&self.way.name(&prefix)))
                    .with_revision(at)
                    .with_limit(limit);
                let options = if keys_only { options.with_keys_only() } else { options };
                let options = if is_local { options.with_serializable() } else { options };
                let mut reader = client.kv_client().max_decoding_message_size(ANSWER_LEN_MAX);
                match reader.get(self.way.name(&from), Some(options)).await {
                    Ok(read) => {
                        *store = store_id(read.header());
                        let found = |pair: &KeyValue| found(&self.way, pair, !keys_only);
                        Ok(Answer::Range {
                            // A page at an earlier revision shows that one.
                            revision: if revision == 0 { newest(read.header()) } else { revision },
                            found: read.kvs().iter().map(found).collect(),
                            more: read.more(),
                        })
                    }
                    Err(Error::GRpcStatus(status)) if status.message().contains(COMPACTED) => {
                        Ok(Answer::Compacted)
                    }
                    Err(error) => Err(error),
                }
            }
            Operation::Txn(txn) => {
                let answer = client.txn(self.txn(&txn)).await?;
                *store = store_id(answer.header());
                let revision = newest(answer.header());
                Ok(Answer::Txn { succeeded: answer.succeeded(), revision })
            }
            Operation::LeaseGrant { ttl } => {
                let answer = client.lease_grant(ttl.into(), None).await?;
                *store = store_id(answer.header());
                Ok(Answer::Lease { lease: answer.id() })
            }
            Operation::LeaseKeepAlive { lease } => match client.lease_keep_alive(lease).await {
                Ok(_) => Ok(Answer::KeptAlive { exists: true }),
                Err(Error::LeaseKeepAliveError(_)) => Ok(Answer::KeptAlive { exists: false }),
                Err(error) => Err(error),
            },
            Operation::Status if self.way.is_external() => {
                Ok(Answer::Status(self.external_status(&mut client).await?))
            }
            Operation::Status => {
                let (status, addresses) = self.status(&mut client).await?;
                *members = Some(addresses);
                Ok(Answer::Status(status))
            }
            Operation::Watch { .. } => Err(Error::InvalidArgs("a watch has a task".to_owned())),
        }
    }

    /// Reads a key, linearizably. `None` if another store than this one answers, or nothing does.
    pub async fn get(
        &self,
        (endpoint, store): (&Endpoint, StoreId),
        key: &Key,
    ) -> Option<Option<Found>> {
        let mut client = self.client(endpoint).await.ok()?;
        let read = client.get(self.name(key), None).await;
        let read = read.inspect_err(|_| self.forget(endpoint)).ok()?;
        is_of(store, read.header())
            .then(|| read.kvs().first().map(|pair| found(&self.way, pair, true)))
    }

    /// Carries out a transaction. `None` if another store than this one answers, or nothing does.
    pub async fn swap(
        &self,
        (endpoint, store): (&Endpoint, StoreId),
        txn: &ClusterTxn,
    ) -> Option<Swap> {
        let mut client = self.client(endpoint).await.ok()?;
        let reads = txn.compares.iter().map(|it| TxnOp::get(self.name(&it.key), None));
        let answer = client.txn(self.txn(txn).or_else(reads.collect::<Vec<_>>())).await;
        let answer = answer.inspect_err(|_| self.forget(endpoint)).ok()?;
        let read = |it| match it {
            TxnOpResponse::Get(read) => read.kvs().first().map(|it| found(&self.way, it, true)),
            _ => None,
        };
        is_of(store, answer.header()).then(|| match answer.succeeded() {
            true => Swap::Done(newest(answer.header())),
            false => Swap::Refused(answer.op_responses().into_iter().map(read).collect()),
        })
    }

    /// Asks all members for their state.
    async fn status(&self, client: &mut Client) -> Result<(StoreStatus, Members), Error> {
        let listed = client.member_list().await?;
        let address = |url: &String| Endpoint::of_url(url, self.way.scheme());
        let mut status = StoreStatus::default();
        let mut addresses = Members::new();
        for member in listed.members().iter().filter(|member| !member.is_learner()) {
            status.voters += 1;
            let own: Vec<Endpoint> = member.client_urls().iter().filter_map(address).collect();
            let Some(first) = own.first().cloned() else { continue };
            addresses.extend(own);
            let ask = async { self.client(&first).await?.status().await };
            match tokio::time::timeout(CALL_TIMEOUT / 3, ask).await {
                Ok(Ok(answer)) if answer.leader() != 0 => status.healthy += 1,
                Ok(Ok(_)) => {}
                Ok(Err(_)) | Err(_) => self.forget(&first),
            }
        }
        // Without a majority, etcd does not answer this, and the members tell enough.
        let alarms = client.alarm(AlarmAction::Get, AlarmType::None, None);
        if let Ok(Ok(alarms)) = tokio::time::timeout(CALL_TIMEOUT / 3, alarms).await {
            status.alarms = alarms.alarms().iter().map(|it| format!("{:?}", it.alarm())).collect();
        }
        Ok((status, addresses))
    }

    /// Asks the members of an external etcd for their state. The addresses that they announce may not be
    /// those at which this machine reaches them, so a member is known by its number.
    async fn external_status(&self, client: &mut Client) -> Result<StoreStatus, Error> {
        let listed = client.member_list().await?;
        let voters: Vec<&Member> = listed.members().iter().filter(|it| !it.is_learner()).collect();
        let announced = voters.iter().flat_map(|it| it.client_urls());
        let announced = announced.filter_map(|url| Endpoint::of_url(url, self.way.scheme()));
        let mut asked: Vec<Endpoint> = self.named.iter().cloned().chain(announced).collect();
        asked.sort();
        asked.dedup();
        let asked: Vec<_> = asked
            .into_iter()
            .map(|endpoint| tokio::task::spawn_local(self.clone().leading_member(endpoint)))
            .collect();
        let mut leading = BTreeSet::new();
        for answer in asked {
            leading.extend(answer.await.ok().flatten());
        }
        let healthy = voters.iter().filter(|it| leading.contains(&it.id())).count();
        let mut status = StoreStatus { is_external: true, ..StoreStatus::default() };
        status.voters = u32::try_from(voters.len()).unwrap_or(u32::MAX);
        status.healthy = u32::try_from(healthy).unwrap_or(u32::MAX);
        // etcd answers a read only with a majority, whichever members this machine reaches.
        let read = client.get(self.name(&Key::Cluster), None);
        if let Ok(Ok(_)) = tokio::time::timeout(CALL_TIMEOUT / 3, read).await {
            status.healthy = status.healthy.max(status.voters / 2 + 1);
        } else {
            status.healthy = status.healthy.min(status.voters / 2);
        }
        let alarms = client.alarm(AlarmAction::Get, AlarmType::None, None);
        if let Ok(Ok(alarms)) = tokio::time::timeout(CALL_TIMEOUT / 3, alarms).await {
            status.alarms = alarms.alarms().iter().map(|it| format!("{:?}", it.alarm())).collect();
        }
        Ok(status)
    }

    /// The number of the member at an address, if it answers and knows a leader.
    async fn leading_member(self, endpoint: Endpoint) -> Option<u64> {
        let ask = async { self.client(&endpoint).await?.status().await };
        match tokio::time::timeout(CALL_TIMEOUT / 3, ask).await {
            Ok(Ok(answer)) => {
                answer.header().filter(|_| answer.leader() != 0).map(|it| it.member_id())
            }
            Ok(Err(_)) | Err(_) => {
                self.forget(&endpoint);
                None
            }
        }
    }

    /// Watches a prefix until the watch ends, or its endpoint is silent.
    pub async fn watch(
        &self,
        (id, endpoint): (RequestId, Endpoint),
        prefix: &str,
        from_revision: u64,
    ) {
        let ended = tokio::select! {
            ended = self.watched(id, &endpoint, prefix, from_revision) => ended,
            () = self.wait_for_silence(&endpoint) => Ok((false, "it is silent".to_owned())),
        };
        let (is_compacted, reason) = ended.unwrap_or_else(|error| (false, reason(&error)));
        self.forget(&endpoint);
        self.report(StoreEvent::WatchEnded { id, is_compacted, reason });
    }

    async fn watched(
        &self,
        id: RequestId,
        endpoint: &Endpoint,
        prefix: &str,
        from_revision: u64,
    ) -> Result<(bool, String), Error> {
        let client = self.client(endpoint).await?;
        let mut watcher = client.watch_client().max_decoding_message_size(ANSWER_LEN_MAX);
        let from = i64::try_from(from_revision).unwrap_or(i64::MAX);
        let options = WatchOptions::new().with_prefix().with_start_revision(from);
        let mut stream = watcher.watch(self.way.name(prefix), Some(options)).await?;
        self.report(StoreEvent::Answered { id, store: None, answer: Answer::Watching });
        while let Some(response) = stream.message().await? {
            if response.canceled() {
                let reason = response.cancel_reason().to_owned();
                return Ok((response.compact_revision() != 0, reason));
            }
            for (revision, changes) in by_revision(&self.way, &response) {
                self.report(StoreEvent::Changed { id, revision, changes });
            }
        }
        Ok((false, "the stream has ended".to_owned()))
    }

    /// Returns when an endpoint has not answered a probe. A watch has nothing to say while nothing changes, and
    /// this node forwards operations by what it says: it must notice a machine that has vanished within a lease.
    async fn wait_for_silence(&self, endpoint: &Endpoint) {
        loop {
            sleep(PROBE_PERIOD).await;
            let probe = async {
                let mut client = self.client(endpoint).await?;
                // From the member's own data, so that an election does not count as silence.
                let options = GetOptions::new().with_serializable().with_keys_only();
                client.get(self.name(&Key::Cluster), Some(options)).await.map(drop)
            };
            // An error is an answer. If the connection has failed, the watch ends by itself.
            if timeout(PROBE_TIMEOUT, probe).await.is_err() {
                return;
            }
        }
    }

    /// The connection to an endpoint.
    async fn client(&self, endpoint: &Endpoint) -> Result<Client, Error> {
        if let Some(client) = self.clients().get(endpoint) {
            return Ok(client.clone());
        }
        let options = Some(self.way.options.clone());
        let client = Client::connect([self.way.url(endpoint)], options).await?;
        self.clients().insert(endpoint.clone(), client.clone());
        Ok(client)
    }

    fn forget(&self, endpoint: &Endpoint) {
        self.clients().remove(endpoint);
    }

    fn clients(&self) -> std::sync::MutexGuard<'_, HashMap<Endpoint, Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, event: StoreEvent) {
        // Nobody receives it while the thread ends.
        let _ = self.events.send(event);
    }

    /// The name of a key in etcd.
    fn name(&self, key: &Key) -> String {
        self.way.name(&key.path(self.cluster))
    }

    fn txn(&self, txn: &ClusterTxn) -> Txn {
        transaction(txn, &self.way, self.cluster)
    }
}

/// A transaction for etcd. Secrets are sealed.
pub(super) fn transaction(txn: &ClusterTxn, way: &Way, cluster: Uuid) -> Txn {
    let name = |key: &Key| way.name(&key.path(cluster));
    let compare = |it: &nearflash_records::Compare| {
        let revision = i64::try_from(it.mod_revision.0).unwrap_or(i64::MAX);
        Compare::mod_revision(name(&it.key), CompareOp::Equal, revision)
    };
    let compares: Vec<Compare> = txn.compares.iter().map(compare).collect();
    let puts = txn.puts.iter().map(|it| {
        let options = it.lease.map(|lease| PutOptions::new().with_lease(lease));
        let value = way.sealed(&it.key, &it.key.path(cluster), &it.value);
        TxnOp::put(name(&it.key), value, options)
    });
    let deletes = txn.deletes.iter().map(|it| TxnOp::delete(name(it), None));
    Txn::new().when(compares).and_then(puts.chain(deletes).collect::<Vec<_>>())
}

/// The first key behind all those with the prefix, which ends with a slash.
pub(super) fn behind(prefix: &str) -> String {
    let stem = prefix.strip_suffix('/').unwrap_or(prefix);
    // The character after the slash.
    format!("{stem}0")
}

fn newest(header: Option<&etcd_client::ResponseHeader>) -> u64 {
    header.and_then(|it| u64::try_from(it.revision()).ok()).unwrap_or_default()
}

/// The store of an answer.
pub(super) fn store_id(header: Option<&etcd_client::ResponseHeader>) -> Option<StoreId> {
    header.map(|it| StoreId(it.cluster_id()))
}

fn is_of(store: StoreId, header: Option<&etcd_client::ResponseHeader>) -> bool {
    store_id(header).is_none_or(|found| found == store)
}

pub(super) fn found(way: &Way, pair: &KeyValue, with_value: bool) -> Found {
    let name = String::from_utf8_lossy(pair.key());
    let key = way.key(&name).to_owned();
    Found {
        value: with_value.then(|| way.opened(&key, pair.value())),
        key,
        mod_revision: ModRevision(u64::try_from(pair.mod_revision()).unwrap_or_default()),
    }
}

/// The changes of a response, one entry for each revision, oldest first. A response holds all events
/// of each of its revisions.
fn by_revision(way: &Way, response: &WatchResponse) -> Vec<(u64, Vec<Found>)> {
    let mut changes: Vec<(u64, Vec<Found>)> = Vec::new();
    for event in response.events() {
        let Some(pair) = event.kv() else { continue };
        let change = found(way, pair, event.event_type() == EventType::Put);
        let revision = change.mod_revision.0;
        match changes.last_mut() {
            Some((last, changes)) if *last == revision => changes.push(change),
            _ => changes.push((revision, vec![change])),
        }
    }
    changes
}

/// The innermost cause of an error, which names the failed step.
pub(super) fn reason(error: &Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    if let Error::GRpcStatus(status) = error {
        // Of a connection that failed, the message says nothing, and the cause does.
        let has_cause = std::error::Error::source(status).is_some();
        if !status.message().is_empty() && (status.message() != TRANSPORT || !has_cause) {
            return status.message().to_owned();
        }
        cause = status;
    }
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::behind;

    #[test]
    fn the_end_of_a_range_is_behind_every_key_of_the_prefix_and_before_the_next_cluster() {
        assert!("/nearflash/a/\u{10ffff}" < behind("/nearflash/a/").as_str());
        assert!("/nearflash/a0" >= behind("/nearflash/a/").as_str());
    }
}
