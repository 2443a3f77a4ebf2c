//! A node's part in the cluster: its registration, its slices, and the thread that follows the tables.
//!
//! The node registers before its cores start, because its number in the cluster decides which numbers
//! its NVMe controllers get. Its slices are used when the cluster's store knows their incarnations.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nearflash_access::Secret;
use nearflash_cluster::change::{NodeSpec, SliceSpec};
use nearflash_cluster::compile::Tables;
use nearflash_cluster::record::Door;
use nearflash_cluster::{Change, compile};
use nearflash_media::{Slice, SliceCandidate};
use nearflash_nvme::ControllerId;
use nearflash_space::slice::SliceVerdict;
use uuid::Uuid;

use crate::cluster::{ChangeError, Follower, StoreAccess};
use crate::config::{ClusterConfig, Protocol};
use crate::doors::Addresses;
use crate::error::NodeError;
use crate::node::{IsOver, Node};

/// The time that the store has for its first answer.
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(30);

/// The time between two reports that the store does not answer.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// The time for a change at the start.
const CHANGE_MAX: Duration = Duration::from_secs(10);

/// The nodes that get [`WIDE_IDS`] controller ids each. All further ones get [`NARROW_IDS`].
const WIDE_NODES: u16 = 31;
const WIDE_IDS: u16 = 1024;
const NARROW_IDS: u16 = 34;

/// A registered node, whose cores do not run yet.
pub(crate) struct Registered {
    follower: Arc<Follower>,
    secret: Secret,
    cluster: Uuid,
    node: Uuid,
    ordinal: u16,
    receiver: Arc<Receiver>,
}

/// Takes the tables for a node that does not exist yet.
#[derive(Default)]
struct Receiver {
    node: Mutex<Option<Arc<Node>>>,
    is_there: Condvar,
    is_over: Arc<IsOver>,
}

/// A node that follows its cluster.
pub(crate) struct Clustered {
    follower: Arc<Follower>,
    is_over: Arc<IsOver>,
    receiver: Arc<Receiver>,
}

impl Registered {
    /// Connects to the cluster's store, and registers the node there.
    ///
    /// # Errors
    /// When the data directory belongs to no cluster, the store does not answer in time, or it refuses
    /// the node, for example because another one has its name.
    pub(crate) fn new(
        (data_dir, config): (&Path, &ClusterConfig),
        node: Uuid,
        addresses: &Addresses,
    ) -> Result<Self, NodeError> {
        let access = StoreAccess::of(data_dir)?;
        let (cluster, ip) = (access.cluster(), access.ip());
        let secret = Secret::new(access.peer_secret());
        let endpoints = access.endpoints_text();
        let receiver = Arc::new(Receiver::default());
        let take = Arc::clone(&receiver);
        let follower = Follower::start(access, node, Box::new(move |tables| take.take(tables)))?;
        let follower = Arc::new(follower);
        await_store(&follower, &endpoints)?;
        let spec = NodeSpec {
            uuid: node,
            name: config.node.clone(),
            addresses: reachable(addresses, ip),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        follower.change(Change::RegisterNode(spec), CHANGE_MAX)?;
        let record = follower.state().nodes().get(&node).cloned();
        let ordinal = record.map(|record| record.ordinal).ok_or(ChangeError::Unknown)?;
        Ok(Self { follower, secret, cluster, node, ordinal, receiver })
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    pub(crate) fn cluster(&self) -> Uuid {
        self.cluster
    }

    /// The numbers of the node's NVMe controllers, which no other node of the cluster uses.
    pub(crate) fn controller_ids(&self) -> RangeInclusive<u16> {
        controller_ids(self.ordinal)
    }

    /// Checks a slice against what the store says of it. Nothing has been written to it.
    ///
    /// # Errors
    /// When one of the two was restored from an older copy.
    pub(crate) fn check(&self, slice: &SliceCandidate) -> Result<(), NodeError> {
        let Some(uuid) = slice.uuid() else { return Ok(()) };
        let known = self.follower.state().slices().get(&uuid).map(|it| it.incarnation);
        let reason = match (slice.superblock(), known) {
            (None, None) => return Ok(()),
            (None, Some(_)) => {
                "its superblock is gone: restore the first 17 MiB of the device from a \
                                backup"
                    .to_owned()
            }
            (Some(superblock), known) => match superblock.verdict(known) {
                SliceVerdict::Good => return Ok(()),
                verdict => verdict.to_string(),
            },
        };
        Err(NodeError::SliceStore { name: slice.name().clone(), reason: reason.into() })
    }

    /// Hands the node its cluster: its slices are used from now on, and the tables are followed.
    ///
    /// # Errors
    /// When a slice does not fit what the store says of it. It is unchanged then.
    pub(crate) fn follow(self, node: &Arc<Node>, slices: &[Slice]) -> Result<Clustered, NodeError> {
        node.join(Arc::clone(&self.follower));
        let is_over = Arc::clone(&self.receiver.is_over);
        for slice in slices {
            self.open(slice)?;
            node.use_slice(slice.uuid(), &is_over);
        }
        // The volumes are there when the node says that it is ready.
        node.follow_cluster(compile(&self.follower.state(), self.node), &is_over);
        self.receiver.hand(Arc::clone(node));
        Ok(Clustered { follower: self.follower, is_over, receiver: self.receiver })
    }

    /// Tells the store that the slice is open, in its new incarnation.
    fn open(&self, slice: &Slice) -> Result<(), NodeError> {
        let name = slice.device().name().clone();
        let failed =
            |reason: String| NodeError::SliceStore { name: name.clone(), reason: reason.into() };
        let spec = SliceSpec {
            uuid: slice.uuid(),
            node: self.node,
            name: name.clone(),
            len: slice.len(),
            incarnation: slice.incarnation(),
        };
        self.follower.change(Change::OpenSlice(spec), CHANGE_MAX)?;
        slice.confirm().map_err(|error| failed(error.to_string()))
    }
}

impl Clustered {
    /// Stops following the cluster. The node serves its volumes as before.
    pub(crate) fn stop(self) {
        {
            // With the lock, so that no wait begins in between.
            let _node = self.receiver.node();
            self.is_over.store(true, Ordering::SeqCst);
        }
        self.receiver.is_there.notify_all();
        self.follower.stop();
    }
}

impl Receiver {
    /// Takes tables. Waits until the node is there.
    fn take(&self, tables: Tables) {
        let mut node = self.node();
        while node.is_none() {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            node = self.is_there.wait(node).unwrap_or_else(PoisonError::into_inner);
        }
        let served = node.clone();
        drop(node);
        if let Some(node) = served {
            node.follow_cluster(tables, &self.is_over);
        }
    }

    fn hand(&self, node: Arc<Node>) {
        *self.node() = Some(node);
        self.is_there.notify_all();
    }

    fn node(&self) -> MutexGuard<'_, Option<Arc<Node>>> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until the store has been read.
fn await_store(follower: &Follower, endpoints: &str) -> Result<(), NodeError> {
    let since = Instant::now();
    while !follower.wait_until_read(REPORT_EVERY) {
        let seconds = since.elapsed().as_secs();
        if since.elapsed() >= FIRST_ANSWER_MAX {
            return Err(NodeError::StoreSilent { seconds, endpoints: endpoints.into() });
        }
        tracing::info!("waiting for etcd for {seconds} s: {endpoints}");
    }
    Ok(())
}

/// The addresses at which the other nodes and hosts reach this one. A door that listens on every
/// address is reached at the one that the cluster has for this machine.
fn reachable(addresses: &Addresses, ip: std::net::IpAddr) -> BTreeMap<Door, Vec<SocketAddr>> {
    let doors = [
        (Protocol::NvmeTcp, Door::NvmeTcp),
        (Protocol::Iscsi, Door::Iscsi),
        (Protocol::Direct, Door::Direct),
    ];
    let specific = |address: SocketAddr| match address.ip().is_unspecified() {
        true => SocketAddr::new(ip, address.port()),
        false => address,
    };
    let of = |protocol| addresses.of(protocol).into_iter().map(specific).collect::<Vec<_>>();
    doors.into_iter().map(|(protocol, door)| (door, of(protocol))).collect()
}

fn controller_ids(ordinal: u16) -> RangeInclusive<u16> {
    let wide = WIDE_NODES * WIDE_IDS;
    let (first, count) = match ordinal.saturating_sub(1) {
        number if number < WIDE_NODES => (number * WIDE_IDS + 1, WIDE_IDS),
        number => (wide + (number - WIDE_NODES) * NARROW_IDS + 1, NARROW_IDS),
    };
    first..=first + count - 1
}

const _: () = assert!(
    WIDE_NODES * WIDE_IDS + (nearflash_cluster::key::ORDINAL_MAX - WIDE_NODES) * NARROW_IDS
        <= ControllerId::MAX.0
);

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_cluster::key::ORDINAL_MAX;

    #[test]
    fn no_two_nodes_have_a_controller_id_in_common() {
        let mut next = 1;
        for ordinal in 1..=ORDINAL_MAX {
            let ids = controller_ids(ordinal);
            assert_eq!(*ids.start(), next, "node {ordinal}");
            next = ids.end() + 1;
        }
        assert!(next - 1 <= ControllerId::MAX.0);
    }
}
