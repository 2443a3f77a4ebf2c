//! The free space of slices, and the choice of slices for the mirrors of a row.

use std::collections::BTreeMap;

use nearflash_device::DeviceId;
use nearflash_space::{EXTENTS_PER_VOLUME_MAX, Extent, FreeSpace, Name};
use nearflash_units::{ByteLen, ByteOffset};
use uuid::Uuid;

use crate::change::{FreeList, Refusal};
use crate::key::Key;
use crate::record::{DATA_START, MIRROR_LEN_MAX, Placement, RoomState, TRACT_LEN};
use crate::state::{ClusterState, inconsistent};

/// Most mirrors of a volume.
pub(super) const MIRRORS_MAX: usize = EXTENTS_PER_VOLUME_MAX;

/// Free space knows devices by number, and here each has one slice only.
const ONLY: DeviceId = DeviceId(0);

/// The slices that take the mirrors of a volume, with their free space.
pub(super) struct Rooms {
    slices: BTreeMap<Uuid, Room>,
}

struct Room {
    node: Uuid,
    node_name: Name,
    free: FreeSpace,
}

/// The places of the mirrors of a row.
pub(super) struct Row {
    /// The length of each mirror.
    pub(super) len: ByteLen,
    /// The slice and the start of each mirror.
    pub(super) places: Vec<(Uuid, ByteOffset)>,
}

impl Rooms {
    /// The slices that a placement may use.
    pub(super) fn new(state: &ClusterState, placement: Placement) -> Result<Self, Refusal> {
        let only = match placement {
            Placement::Spread => None,
            Placement::Local(node) | Placement::Central(node) => Some(node),
        };
        if let Some(node) = only.filter(|node| !state.nodes().contains_key(node)) {
            return Err(Refusal::NoNode(node));
        }
        let mut slices = BTreeMap::new();
        for (uuid, slice) in state.slices() {
            let room = state.rooms().get(uuid);
            let is_in = room.is_some_and(|room| room.state == RoomState::In);
            let node = state.nodes().get(&slice.node);
            if let Some(node) = node.filter(|_| is_in && only.is_none_or(|it| it == slice.node)) {
                let free = FreeSpace::new(ONLY, DATA_START, slice.data_len());
                let node_name = node.name.clone();
                slices.insert(*uuid, Room { node: slice.node, node_name, free });
            }
        }
        for view in state.mirrors()? {
            for replica in &view.replicas.replicas {
                let extent = Extent { device: ONLY, start: replica.start, len: view.mirror.len };
                let room = slices.get_mut(&replica.slice);
                if room.is_some_and(|room| room.free.reserve(extent).is_err()) {
                    let key = Key::Replicas(view.key);
                    return Err(inconsistent(&key, "names space that another mirror has").into());
                }
            }
        }
        if slices.is_empty() { Err(Refusal::NoSlices) } else { Ok(Self { slices }) }
    }

    /// The number of slices.
    pub(super) fn slices(&self) -> u32 {
        u32::try_from(self.slices.len()).unwrap_or(u32::MAX)
    }

    /// The width that suits a volume of this length: each mirror on a node of its own, or, on a
    /// single node, on a slice of its own.
    pub(super) fn width(&self, len: ByteLen) -> u32 {
        const NODES_MAX: u32 = 8;
        const MIRROR_LEN_MIN: u64 = 1 << 30;
        let nodes: std::collections::BTreeSet<Uuid> =
            self.slices.values().map(|room| room.node).collect();
        let nodes = u32::try_from(nodes.len()).unwrap_or(NODES_MAX);
        let places = if nodes == 1 { self.slices() } else { nodes };
        let wanted = u32::try_from(len.0.div_ceil(MIRROR_LEN_MIN)).unwrap_or(NODES_MAX);
        places.min(NODES_MAX).min(wanted).max(1)
    }

    /// Takes the space of as many rows as hold `missing` bytes.
    ///
    /// # Errors
    /// When too little is free.
    pub(super) fn take_rows(&mut self, width: u32, missing: ByteLen) -> Result<Vec<Row>, Refusal> {
        let mut rows: Vec<Row> = Vec::new();
        let (mut held, free) = (0, self.free());
        while held < missing.0 {
            if (rows.len() + 1).saturating_mul(nearflash_units::index(width)) > MIRRORS_MAX {
                return Err(Refusal::Mirrors);
            }
            let Some(row) = self.take_row(width, ByteLen(missing.0 - held)) else {
                let (wanted, held) = (missing, ByteLen(held));
                return Err(Refusal::Full { wanted, held, free });
            };
            held += row.len.0 * u64::from(width);
            rows.push(row);
        }
        Ok(rows)
    }

    /// Takes a row of at most `missing` bytes, rounded up to tracts.
    fn take_row(&mut self, width: u32, missing: ByteLen) -> Option<Row> {
        let mut chosen: Vec<(Uuid, Uuid)> = Vec::new();
        for _ in 0..width {
            let (slice, room) = self
                .slices
                .iter()
                .filter(|(slice, room)| {
                    !chosen.iter().any(|(it, _)| it == *slice)
                        && room.free.largest_run_len() >= TRACT_LEN
                })
                .min_by_key(|(slice, room)| {
                    let of_node = chosen.iter().filter(|(_, node)| *node == room.node).count();
                    (of_node, std::cmp::Reverse(room.free.free_len()), **slice)
                })?;
            chosen.push((*slice, room.node));
        }
        let each = missing.0.div_ceil(u64::from(width)).div_ceil(TRACT_LEN.0);
        let wanted = each.saturating_mul(TRACT_LEN.0).min(MIRROR_LEN_MAX.0);
        let runs = chosen.iter().map(|(slice, _)| self.slices[slice].free.largest_run_len().0);
        let len = ByteLen(runs.fold(wanted, u64::min));
        let mut places = Vec::new();
        for (slice, _) in chosen {
            let free = &mut self.slices.get_mut(&slice)?.free;
            // A run of that length exists; the extents of runs of whole tracts begin at tracts.
            places.push((slice, free.allocate(len, None, 1).ok()?.first()?.start));
        }
        Some(Row { len, places })
    }

    /// The free space of each node.
    fn free(&self) -> FreeList {
        let mut free: BTreeMap<&Name, ByteLen> = BTreeMap::new();
        for room in self.slices.values() {
            free.entry(&room.node_name).or_default().0 += room.free.free_len().0;
        }
        FreeList(free.into_iter().map(|(name, free)| (name.clone(), free)).collect())
    }
}
