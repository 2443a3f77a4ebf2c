//! The free space of slices, and the choice of slices for the mirrors of a row.
//!
//! New mirrors lie on open slices alone: a place on another one would not be zeroed before its node starts, and the
//! job of its volume would wait. If only the others have enough room, the change is refused, and names them.

use std::collections::BTreeMap;

use nearflash_device::DeviceId;
use nearflash_records::key::Key;
use nearflash_records::record::{
    DATA_START, Door, MIRROR_LEN_MAX, MIRRORS_PER_SLICE_MAX, Placement, RoomState, TRACT_LEN,
    VolumeRecord, WIDTH_MAX,
};
use nearflash_records::state::{ClusterState, Inconsistent};
use nearflash_space::{EXTENTS_PER_VOLUME_MAX, Extent, FreeSpace, Name};
use nearflash_units::{ByteLen, ByteOffset};
use uuid::Uuid;

use super::VolumeSpec;
use crate::refusal::{Away, FreeList, Refusal};

/// Most mirrors of a volume.
pub(super) const MIRRORS_MAX: usize = EXTENTS_PER_VOLUME_MAX;

/// Most replicas of a mirror that this version keeps.
const REPLICAS_MAX: u8 = 2;

/// Free space knows devices by number, and here each has one slice only.
const ONLY: DeviceId = DeviceId(0);

/// The slices that take the mirrors of a volume, with their free space.
pub(super) struct Rooms {
    slices: BTreeMap<Uuid, Room>,
    /// The replicas of each mirror: 1 or 2.
    replicas: u8,
    /// The node that takes all first replicas; `None` for any.
    home: Option<Uuid>,
}

struct Room {
    node: Uuid,
    node_name: Name,
    free: FreeSpace,
    /// The mirrors that it holds.
    mirrors: u64,
}

impl Room {
    /// Whether it can keep notes of so many further mirrors.
    fn can_note(&self, more: u64) -> bool {
        self.mirrors + more <= MIRRORS_PER_SLICE_MAX
    }
}

/// The places of the mirrors of a row.
pub(super) struct Row {
    /// The length of each mirror.
    pub(super) len: ByteLen,
    /// The slice and the start of each mirror's replicas, in the order of their ordinals.
    pub(super) places: Vec<Vec<(Uuid, ByteOffset)>>,
}

/// How many replicas of a row each slice takes.
type Taken = BTreeMap<Uuid, u64>;

/// The width of a new volume of this length, and its rows.
///
/// # Errors
/// When there is no place for all of them.
pub(super) fn place_new(
    state: &ClusterState,
    spec: &VolumeSpec,
    len: ByteLen,
) -> Result<(u32, Vec<Row>), Refusal> {
    let VolumeSpec { placement, replicas, .. } = *spec;
    prefer_open(state, (placement, replicas), |mut rooms| {
        let width = spec.width.unwrap_or_else(|| rooms.width(len));
        let slices = rooms.slices();
        if width == 0 || width > slices.min(WIDTH_MAX) {
            return Err(Refusal::Width { wanted: width, slices });
        }
        Ok((width, rooms.take_rows(width, len)?))
    })
}

/// Further rows of a volume, for the bytes that it lacks.
///
/// # Errors
/// When there is no place for all of them.
pub(super) fn place_more(
    state: &ClusterState,
    volume: &VolumeRecord,
    missing: ByteLen,
) -> Result<Vec<Row>, Refusal> {
    let wanted = (volume.placement, volume.replicas);
    prefer_open(state, wanted, |mut rooms| rooms.take_rows(volume.width, missing))
}

/// Places something on open slices. If these do not suffice, and all slices would, it names those that are not open.
fn prefer_open<T>(
    state: &ClusterState,
    (placement, replicas): (Placement, u8),
    place: impl Fn(Rooms) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let is_open = |slice: &Uuid| state.is_open(slice);
    let on_open = Rooms::new(state, (placement, replicas), is_open).and_then(&place);
    let Err(without) = on_open else { return on_open };
    let all = Rooms::new(state, (placement, replicas), |_| true);
    let away = all.as_ref().map_or_else(|_| Away::default(), |rooms| rooms.away(state));
    all.and_then(place)?;
    Err(Refusal::Away { away, without: Box::new(without) })
}

impl Rooms {
    /// Those of the usable slices that a placement may use.
    fn new(
        state: &ClusterState,
        (placement, replicas): (Placement, u8),
        is_usable: impl Fn(&Uuid) -> bool,
    ) -> Result<Self, Refusal> {
        let home = match placement {
            Placement::Spread => None,
            Placement::Local(node) | Placement::Central(node) => Some(node),
        };
        let name_of = |node: Uuid| state.nodes().get(&node).map(|it| it.name.clone());
        let home_name = home.map(|node| name_of(node).ok_or(Refusal::NoNode(node))).transpose()?;
        if !(1..=REPLICAS_MAX).contains(&replicas) {
            return Err(Refusal::Replicas(replicas));
        }
        if let (Placement::Central(_), Some(node), 2..) = (placement, &home_name, replicas) {
            return Err(Refusal::CentralReplicas { node: node.clone(), replicas });
        }
        let may_use = |slice: &Uuid, node: Uuid| {
            (replicas > 1 || home.is_none_or(|home| home == node)) && is_usable(slice)
        };
        let rooms = Self { slices: slices(state, may_use)?, replicas, home };
        rooms.check_nodes(home_name)?;
        Ok(rooms)
    }

    /// The open slices of nodes that the others reach, for single replicas.
    pub(super) fn running(state: &ClusterState) -> Result<Self, Refusal> {
        let is_reached = |node: Uuid| {
            let addresses = state.nodes().get(&node).and_then(|it| it.addresses.get(&Door::Direct));
            addresses.is_some_and(|addresses| !addresses.is_empty())
        };
        let slices = slices(state, |slice, node| state.is_open(slice) && is_reached(node))?;
        Ok(Self { slices, replicas: 1, home: None })
    }

    /// Those of the slices that are not open.
    fn away(&self, state: &ClusterState) -> Away {
        let mut away = Away::default();
        for (slice, room) in self.slices.iter().filter(|(slice, _)| !state.is_open(slice)) {
            let name = state.slices().get(slice).map(|it| it.name.clone());
            match name.filter(|_| state.alive().contains_key(&room.node)) {
                Some(name) => drop(away.closed.insert((room.node_name.clone(), name))),
                None => drop(away.down.insert(room.node_name.clone())),
            }
        }
        away
    }

    /// The place for a replica of this length: on the slice with the most free space that is on none of those
    /// nodes, and on that one if there is one.
    pub(super) fn take_beyond(
        &mut self,
        nodes: &[Uuid],
        on: Option<Uuid>,
        len: ByteLen,
    ) -> Option<(Uuid, ByteOffset)> {
        let is_possible = |node: Uuid| !nodes.contains(&node) && on.is_none_or(|on| on == node);
        let others = self.slices.iter_mut().filter(|(_, room)| is_possible(room.node));
        let roomy = others.filter(|(_, room)| room.free.pieces(len) > 0 && room.can_note(1));
        let best =
            roomy.min_by_key(|(slice, room)| (std::cmp::Reverse(room.free.free_len()), **slice));
        let (slice, room) = best?;
        room.mirrors += 1;
        Some((*slice, room.free.allocate(len, None, 1).ok()?.first()?.start))
    }

    /// Checks that there are nodes for all replicas of a mirror.
    fn check_nodes(&self, home: Option<Name>) -> Result<(), Refusal> {
        let names: Vec<&Name> = self.slices.values().map(|room| &room.node_name).collect();
        match (home, &names[..]) {
            (_, []) => Err(Refusal::NoSlices),
            (Some(home), _) if self.firsts().next().is_none() => Err(Refusal::NoSliceOn(home)),
            (_, [name, rest @ ..]) if self.replicas > 1 && rest.iter().all(|it| it == name) => {
                let node = (*name).clone();
                Err(Refusal::FewNodes { replicas: self.replicas, node })
            }
            _ => Ok(()),
        }
    }

    /// The slices that first replicas may be on.
    fn firsts(&self) -> impl Iterator<Item = &Room> {
        self.slices.values().filter(|room| self.is_first(room))
    }

    fn is_first(&self, room: &Room) -> bool {
        self.home.is_none_or(|home| home == room.node)
    }

    /// The number of slices that first replicas may be on.
    fn slices(&self) -> u32 {
        u32::try_from(self.firsts().count()).unwrap_or(u32::MAX)
    }

    /// The width that suits a volume of this length: the first replica of each mirror on a node of
    /// its own, or, on a single node, on a slice of its own.
    fn width(&self, len: ByteLen) -> u32 {
        const NODES_MAX: u32 = 8;
        const MIRROR_LEN_MIN: u64 = 1 << 30;
        let nodes: std::collections::BTreeSet<Uuid> = self.firsts().map(|room| room.node).collect();
        let nodes = u32::try_from(nodes.len()).unwrap_or(NODES_MAX);
        let places = if nodes == 1 { self.slices() } else { nodes };
        let wanted = u32::try_from(len.0.div_ceil(MIRROR_LEN_MIN)).unwrap_or(NODES_MAX);
        places.min(NODES_MAX).min(wanted).max(1)
    }

    /// Takes the space of as many rows as hold `missing` bytes.
    ///
    /// # Errors
    /// When too little is free.
    fn take_rows(&mut self, width: u32, missing: ByteLen) -> Result<Vec<Row>, Refusal> {
        let mut rows: Vec<Row> = Vec::new();
        let (mut held, free) = (0, self.free());
        while held < missing.0 {
            if (rows.len() + 1).saturating_mul(nearflash_units::index(width)) > MIRRORS_MAX {
                return Err(Refusal::Mirrors);
            }
            let Some(row) = self.take_row(width, ByteLen(missing.0 - held)) else {
                let (wanted, held, replicas) = (missing, ByteLen(held), self.replicas);
                return Err(Refusal::Full { wanted, held, replicas, free });
            };
            held += row.len.0 * u64::from(width);
            rows.push(row);
        }
        Ok(rows)
    }

    /// Takes a row of at most `missing` bytes, rounded up to tracts.
    fn take_row(&mut self, width: u32, missing: ByteLen) -> Option<Row> {
        let mut taken = Taken::new();
        let firsts = self.choose_firsts(width, &mut taken)?;
        let seconds = match self.replicas {
            1 => Vec::new(),
            _ => self.choose_seconds(&firsts, &mut taken)?,
        };
        let each = missing.0.div_ceil(u64::from(width));
        let len = self.row_len(ByteLen(each), &taken);
        let mut places = Vec::new();
        for (number, first) in firsts.iter().enumerate() {
            let mut replicas = Vec::new();
            for slice in std::iter::once(first).chain(seconds.get(number)) {
                let Room { free, mirrors, .. } = self.slices.get_mut(slice)?;
                *mirrors += 1;
                // A run of that length exists; the extents of runs of whole tracts begin at tracts.
                replicas.push((*slice, free.allocate(len, None, 1).ok()?.first()?.start));
            }
            places.push(replicas);
        }
        Some(Row { len, places })
    }

    /// The slices of the mirrors' first replicas, each another one.
    fn choose_firsts(&self, width: u32, taken: &mut Taken) -> Option<Vec<Uuid>> {
        let mut firsts = Vec::new();
        for _ in 0..width {
            let is_possible =
                |slice: &Uuid, room: &Room| !firsts.contains(slice) && self.is_first(room);
            let slice = self.best(&firsts, taken, is_possible)?;
            *taken.entry(slice).or_default() += 1;
            firsts.push(slice);
        }
        Some(firsts)
    }

    /// The slices of the mirrors' second replicas, each of another node than the first.
    fn choose_seconds(&self, firsts: &[Uuid], taken: &mut Taken) -> Option<Vec<Uuid>> {
        let mut seconds: Vec<Uuid> = Vec::new();
        for first in firsts {
            let own = self.node_of(first);
            let slice = self.best(&seconds, taken, |_, room| room.node != own);
            let is_even = slice.is_some_and(|it| {
                self.dealt_to(self.node_of(&it), &seconds) <= self.dealt_to(own, &seconds)
            });
            // An earlier mirror may use a node that this one may not.
            let exchange = || {
                let of_own = self.best(&seconds, taken, |_, room| room.node == own)?;
                let is_other = |slice: &Uuid| self.node_of(slice) != own;
                let mut pairs = firsts.iter().zip(&seconds);
                let place =
                    pairs.position(|(first, second)| is_other(first) && is_other(second))?;
                Some((place, of_own))
            };
            match if is_even { None } else { exchange() } {
                Some((place, of_own)) => {
                    *taken.entry(of_own).or_default() += 1;
                    let second = std::mem::replace(&mut seconds[place], of_own);
                    seconds.push(second);
                }
                None => {
                    *taken.entry(slice?).or_default() += 1;
                    seconds.push(slice?);
                }
            }
        }
        Some(seconds)
    }

    /// The possible slice with room that suits best: on a node with the fewest of those `dealt`, and
    /// there with the most free space for each replica of the row.
    fn best(
        &self,
        dealt: &[Uuid],
        taken: &Taken,
        is_possible: impl Fn(&Uuid, &Room) -> bool,
    ) -> Option<Uuid> {
        let share = |slice: &Uuid| taken.get(slice).map_or(1, |taken| taken + 1);
        let has_room = |slice: &Uuid, room: &Room| {
            room.free.pieces(TRACT_LEN) >= share(slice) && room.can_note(share(slice))
        };
        let slices = self.slices.iter();
        let possible =
            slices.filter(|(slice, room)| is_possible(slice, room) && has_room(slice, room));
        let best = possible.min_by_key(|(slice, room)| {
            let of_node = self.dealt_to(room.node, dealt);
            (of_node, std::cmp::Reverse(room.free.free_len().0 / share(slice)), **slice)
        });
        best.map(|(slice, _)| *slice)
    }

    /// How many of these slices are the node's.
    fn dealt_to(&self, node: Uuid, dealt: &[Uuid]) -> usize {
        dealt.iter().filter(|slice| self.node_of(slice) == node).count()
    }

    fn node_of(&self, slice: &Uuid) -> Uuid {
        self.slices[slice].node
    }

    /// The length of a row's mirrors: at most `wanted`, rounded up to tracts, and no longer than
    /// what lets every slice hold all that it takes.
    fn row_len(&self, wanted: ByteLen, taken: &Taken) -> ByteLen {
        let len = |tracts: u64| ByteLen(tracts * TRACT_LEN.0);
        let fits = |tracts: u64| {
            taken.iter().all(|(slice, count)| self.slices[slice].free.pieces(len(tracts)) >= *count)
        };
        let wanted = wanted.0.min(MIRROR_LEN_MAX.0).div_ceil(TRACT_LEN.0);
        // One tract fits, since the slices were chosen so. Shorter mirrors fit where longer ones do.
        let (mut low, mut high) = (1, wanted);
        let mut tracts = wanted;
        while low < high {
            if fits(tracts) {
                low = tracts;
            } else {
                high = tracts - 1;
            }
            tracts = (low + high).div_ceil(2);
        }
        len(low)
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

/// The slices that are usable, and that take mirrors.
fn slices(
    state: &ClusterState,
    is_usable: impl Fn(&Uuid, Uuid) -> bool,
) -> Result<BTreeMap<Uuid, Room>, Refusal> {
    let mut slices = BTreeMap::new();
    for (uuid, slice) in state.slices() {
        let room = state.rooms().get(uuid);
        let is_in = room.is_some_and(|room| room.state == RoomState::In);
        let owner = state.nodes().get(&slice.node).filter(|_| is_in && is_usable(uuid, slice.node));
        if let Some(owner) = owner {
            let free = FreeSpace::new(ONLY, DATA_START, slice.data_len());
            let (node, node_name) = (slice.node, owner.name.clone());
            slices.insert(*uuid, Room { node, node_name, free, mirrors: 0 });
        }
    }
    for view in state.mirrors()? {
        for replica in &view.replicas.replicas {
            let extent = Extent { device: ONLY, start: replica.start, len: view.mirror.len };
            let Some(room) = slices.get_mut(&replica.slice) else { continue };
            room.mirrors += 1;
            if room.free.reserve(extent).is_err() {
                let key = Key::Replicas(view.key);
                return Err(Inconsistent::of(&key, "names space that another mirror has").into());
            }
        }
    }
    Ok(slices)
}
