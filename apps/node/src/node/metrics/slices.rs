//! The metrics of what other nodes of a cluster do to this node's parts of volumes. They have families of their own: in
//! those of volumes, a request would count twice, at the node that has its host and at the node that has its blocks.

use std::collections::BTreeMap;
use std::fmt;

use nearflash_engine::{Kind, KindTotals, Totals};
use nearflash_reactor::{Ledger, Metered};
use nearflash_request::VolumeId;
use nearflash_space::{Home, Volume};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use uuid::Uuid;

use super::family::{Family, Labels};
use super::label::Label;
use super::volumes::{OPS, hosts_of};
use crate::node::Node;

const OPERATIONS: Family = Family::plain(
    "nearflash_slice_operations",
    "Requests of other nodes on the parts of volumes in this node's slices that succeeded",
);
const BYTES: Family = Family::bytes(
    "nearflash_slice",
    "Bytes that these requests read, wrote, and zeroed, compared or verified",
);
const ERRORS: Family =
    Family::plain("nearflash_slice_errors", "Such requests that failed or were cancelled");

/// The role of a part of a volume for the other nodes.
pub(super) struct PartOf {
    pub(super) id: VolumeId,
    volume: Label,
    role: Label,
}

/// A snapshot of the parts that other nodes use.
#[derive(Debug)]
pub(super) struct SliceMetrics {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    volume: Label,
    role: Label,
    node: Label,
    totals: Totals,
}

impl Node {
    pub(super) fn slice_metrics(&self) -> SliceMetrics {
        let parts: Vec<PartOf> = {
            let served = self.served();
            let space = &served.recorded.space;
            let name = |uuid: Uuid| {
                let volume = space.volumes().find(|it| it.uuid == uuid);
                volume.map(|it| it.name.to_string())
            };
            space.volumes().filter_map(|volume| PartOf::of(volume, name)).collect()
        };
        SliceMetrics::of(parts, self.health.ledger())
    }
}

impl PartOf {
    /// `None` for a volume of hosts.
    pub(super) fn of(part: &Volume, name: impl Fn(Uuid) -> Option<String>) -> Option<Self> {
        let role = match part.home {
            Home::Part => "part",
            Home::PrimaryFace => "primary",
            Home::ReplicaFace => "replica",
            Home::Node | Home::OtherNode | Home::Cluster => return None,
        };
        // A part's name begins with the UUID of its volume.
        let uuid = part.name.as_str().split('.').next().unwrap_or_default();
        let volume = uuid.parse().ok().and_then(name);
        let volume = Label::of(volume.as_deref().unwrap_or(uuid));
        Some(Self { id: part.id, volume, role: Label::plain(role) })
    }
}

impl SliceMetrics {
    /// The parts of one volume that have one role are counted together.
    pub(super) fn of(parts: Vec<PartOf>, ledger: &Ledger) -> Self {
        let mut meters = ledger.meters_of_volumes();
        let mut of_volumes = BTreeMap::<(Label, Label), Vec<Metered>>::new();
        for PartOf { id, volume, role } in parts {
            of_volumes
                .entry((volume, role))
                .or_default()
                .extend(meters.remove(&id).unwrap_or_default());
        }
        let rows = of_volumes.into_iter().flat_map(|((volume, role), mut meters)| {
            meters.sort_by(|one, other| one.host.cmp(&other.host));
            let row = move |(node, totals)| {
                let (volume, role) = (volume.clone(), role.clone());
                Row { volume, role, node, totals }
            };
            hosts_of(&meters).into_iter().map(row)
        });
        Self { rows: rows.collect() }
    }

    fn kinds<V>(
        &self,
        value: impl Fn(&KindTotals) -> V + Copy,
    ) -> impl Iterator<Item = (Labels<'_, 4>, V)> {
        let kinds = |row: &Row| -> [KindTotals; Kind::ALL.len()] { row.totals.kinds };
        self.rows.iter().flat_map(move |row| {
            let used = OPS.iter().zip(kinds(row)).filter(|(_, it)| *it != KindTotals::default());
            used.map(move |(op, kind)| {
                let labels =
                    [("volume", &row.volume), ("role", &row.role), ("node", &row.node), ("op", op)];
                (labels, value(&kind))
            })
        })
    }
}

impl Collector for SliceMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        OPERATIONS.counters(encoder, self.kinds(|kind| kind.done))?;
        BYTES.counters(encoder, self.kinds(|kind| kind.bytes))?;
        ERRORS.counters(encoder, self.kinds(|kind| kind.errors))
    }
}
