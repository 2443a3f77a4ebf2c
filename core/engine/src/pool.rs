//! A bounded pool of aligned buffers: a buddy allocator over an arena whose memory the world
//! provides.
//!
//! Pages are 4 KiB; a buffer is a power of two of them, aligned to its own size within the arena,
//! which begins on a page boundary. Taking and giving back cost a few instructions per halving.
//! Buffers given back last are taken first, so that a busy core's working set stays in its cache,
//! and pages never taken never become resident.
//!
//! Pages that return in small pieces are taken again in small pieces, so that a long run might
//! never become free. Therefore one run at a time can be *gathered*: its pages are kept back as
//! they return, until all of them are free.
//!
//! A part of the pool can be *reserved* for the requests of other nodes ([`Reserve`]).
//!
//! In addition to its own memory, the pool numbers *foreign* buffers: memory that a client shares
//! with the node and that devices read and write directly. A foreign buffer has a [`BufferId`] like
//! any other. Only the world can access its memory; the pool reads none of its bytes.
//!
//! Invariant: every page belongs to exactly one free or taken run; a buffer is given back once.

use std::ops::Range;

use nearflash_request::BufferId;
use nearflash_units::{ByteLen, index};
use slab::Slab;

use crate::arena::{Arena, Heap, PAGE_LEN};

/// The largest buffer: 2^8 pages, 1 MiB, the largest transfer that any protocol accepts.
const ORDER_MAX: u8 = 8;
const ORDERS: usize = 9;

/// The low bits of a [`BufferId`] that hold the order; the bits above them hold the page index.
const ORDER_BITS: u32 = 4;

/// The order that marks the number of a foreign buffer: no run is that long.
const FOREIGN: u8 = (1 << ORDER_BITS) - 1;

/// Memory that a client shares with the node: a part of a region that the world has mapped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Foreign {
    /// The world's number of the region.
    pub region: u32,
    /// The offset in the region, in bytes.
    pub offset: u64,
    /// The length in bytes.
    pub len: u32,
}

/// A part of the pool that only requests of other nodes may take, on a face of a mirror.
///
/// Without it, two nodes could wait for each other without end: each one's pool is full of writes of its hosts,
/// which wait until the other one has taken their payload. A write to a replica needs only a device of
/// this node, and a request on a primary face needs only a replica elsewhere, so each of them ends if it has
/// memory of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reserve {
    /// For requests on replica faces: a quarter of the pool.
    Replica,
    /// For requests on primary faces: an eighth of the pool.
    Primary,
}

/// A pool of fewer largest buffers has no reserves: two of these are reserved, and the engine keeps one and
/// a part of another one for itself. One must be left for the longest transfers.
const RUNS_TO_RESERVE: usize = 5;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Page {
    /// First page of a free run of this order; `position` is its place in that order's free list.
    Free { order: u8, position: u32 },
    /// First page of a taken run of this order.
    Taken { order: u8 },
    /// Inside a run.
    Inner,
}

/// The pool. One per core, never shared.
#[derive(Debug)]
pub struct Pool {
    arena: Box<dyn Arena>,
    pages: Box<[Page]>,
    free: [Vec<u32>; ORDERS],
    /// Free runs of the pages in `gathering`.
    gathered: [Vec<u32>; ORDERS],
    /// Empty when nothing is gathered.
    gathering: Range<usize>,
    free_pages: usize,
    /// Free runs of the reserves, and their number of free pages. `free` and `free_pages` are without them.
    reserved: [[Vec<u32>; ORDERS]; 2],
    reserved_free_pages: usize,
    /// The first page of each reserve. They are the last pages of the pool; that of replicas is the first
    /// of both.
    reserved_from: [usize; 2],
    /// The number of returned buffers.
    returns: u64,
    foreign: Slab<Foreign>,
}

impl Pool {
    /// The largest length that [`Self::take`] accepts.
    pub const LEN_MAX: ByteLen = ByteLen(1 << 20);
    /// The part of the pool that is reserved for commands at the front of a stream: enough for a
    /// few commands with in-capsule data. The commands behind them wait until these are done.
    pub const FRONT_LEN: ByteLen = ByteLen(64 << 10);

    /// The pool bytes that a buffer of `len` bytes takes: its size class.
    #[inline]
    pub fn charge(len: ByteLen) -> ByteLen {
        match order_for(len) {
            Some(order) => ByteLen::from_usize(PAGE_LEN << order),
            None => len,
        }
    }

    /// The memory of a pool of at least `len` bytes: a multiple of the largest buffer.
    pub fn arena_len(len: ByteLen) -> usize {
        let run_len = PAGE_LEN << ORDER_MAX;
        len.to_usize().div_ceil(run_len).max(1) * run_len
    }

    /// A pool of at least `len` bytes in memory of its own, for simulators and tests. The memory is
    /// reserved, not touched.
    pub fn new(len: ByteLen) -> Self {
        Self::over(Box::new(Heap::new(Self::arena_len(len))), len)
    }

    /// A pool of at least `len` bytes over an arena of [`Self::arena_len`] bytes, which begins on a
    /// page boundary.
    pub fn over(arena: Box<dyn Arena>, len: ByteLen) -> Self {
        let run_pages = 1usize << ORDER_MAX;
        let page_count = Self::arena_len(len) / PAGE_LEN;
        let runs = page_count / run_pages;
        assert!(page_count < 1 << (32 - ORDER_BITS), "a pool is below 1 TiB");
        let mut pool = Self {
            arena,
            pages: vec![Page::Inner; page_count].into_boxed_slice(),
            free: Default::default(),
            gathered: Default::default(),
            gathering: 0..0,
            free_pages: page_count,
            reserved: Default::default(),
            reserved_free_pages: 0,
            reserved_from: [page_count; 2],
            returns: 0,
            foreign: Slab::new(),
        };
        // Every list has its maximum capacity, so that returning a buffer never allocates.
        for (order, list) in pool.free.iter_mut().enumerate() {
            list.reserve_exact(page_count >> order);
        }
        for (order, list) in pool.gathered.iter_mut().enumerate() {
            list.reserve_exact(run_pages >> order);
        }
        for run in (0..runs).rev() {
            pool.push_free(run * run_pages, ORDER_MAX);
        }
        pool
    }

    /// A buffer of at least `len` bytes, with unspecified contents; `None` when no run is free
    /// (wait for a buffer to come back) or `len` is zero or over [`Self::LEN_MAX`].
    pub fn take(&mut self, len: ByteLen) -> Option<BufferId> {
        let wanted = order_for(len)?;
        let (order, page) = pop_from(&mut self.free, wanted)?;
        Some(self.cut(page, order, wanted))
    }

    /// Like [`Self::take`], for a command at the front of a stream: takes gathered pages too if no
    /// others are free.
    pub fn take_front(&mut self, len: ByteLen) -> Option<BufferId> {
        let taken = self.take(len);
        if taken.is_some() || self.gathering.is_empty() {
            return taken;
        }
        let wanted = order_for(len)?;
        let (order, page) = pop_from(&mut self.gathered, wanted)?;
        Some(self.cut(page, order, wanted))
    }

    /// Reserves parts of the pool, each at least as long as a largest buffer. A buffer in one of them
    /// belongs to it from when it comes back. Returns the length of both parts.
    pub fn reserve(&mut self) -> ByteLen {
        let run_pages = 1usize << ORDER_MAX;
        let runs = self.pages.len() / run_pages;
        if runs < RUNS_TO_RESERVE || self.reserved_from[0] < self.pages.len() {
            return ByteLen(0);
        }
        self.end_gathering();
        let (replica, primary) = ((runs / 4).max(1), (runs / 8).max(1));
        let first = (runs - replica - primary) * run_pages;
        let free: Vec<(usize, u8)> = self.free_runs(first..self.pages.len()).collect();
        free.iter().for_each(|(page, _)| self.remove_free(*page));
        self.reserved_from = [first, first + replica * run_pages];
        let pages = (replica + primary) * run_pages;
        for lists in &mut self.reserved {
            for (order, list) in lists.iter_mut().enumerate() {
                list.reserve_exact(pages >> order);
            }
        }
        for (page, order) in free {
            self.free_pages -= 1 << order;
            self.reserved_free_pages += 1 << order;
            self.push_free(page, order);
        }
        ByteLen::from_usize(pages * PAGE_LEN)
    }

    /// A buffer from a reserve, otherwise as [`Self::take`].
    pub fn take_reserved(&mut self, reserve: Reserve, len: ByteLen) -> Option<BufferId> {
        let wanted = order_for(len)?;
        let lists = match reserve {
            Reserve::Replica => &mut self.reserved[0],
            Reserve::Primary => &mut self.reserved[1],
        };
        let (order, page) = pop_from(lists, wanted)?;
        Some(self.cut(page, order, wanted))
    }

    /// The number of free pages of the part that a page belongs to.
    #[inline]
    fn free_pages_with(&mut self, page: usize) -> &mut usize {
        let is_reserved = page >= self.reserved_from[0];
        if is_reserved { &mut self.reserved_free_pages } else { &mut self.free_pages }
    }

    /// Takes the first pages of a run that was removed from its list.
    #[inline]
    fn cut(&mut self, page: usize, order: u8, wanted: u8) -> BufferId {
        for order in (wanted..order).rev() {
            self.push_free(page + (1 << order), order);
        }
        self.pages[page] = Page::Taken { order: wanted };
        *self.free_pages_with(page) -= 1 << wanted;
        buffer_id(page, wanted)
    }

    /// Gathers one run of `len` bytes, the one with the most free pages: see
    /// [`Self::take_gathered`]. Continues with the same run once some of it is free.
    pub fn gather(&mut self, len: ByteLen) {
        if self.gathered.iter().any(|list| !list.is_empty()) {
            return;
        }
        let Some(order) = order_for(len) else { return };
        let run_at = |start: usize| start..start + (1 << order);
        let Some(start) = self.start_of_gathering(order, len) else { return };
        let runs: Vec<(usize, u8)> = self.free_runs(run_at(start)).collect();
        runs.iter().for_each(|(page, _)| self.remove_free(*page));
        self.gathering = run_at(start);
        runs.into_iter().for_each(|(page, order)| self.push_free(page, order));
    }

    /// The run to gather. For a length of at most the reserved part, this is the run around the
    /// longest free run that is too short.
    fn start_of_gathering(&self, order: u8, len: ByteLen) -> Option<usize> {
        if len <= Self::FRONT_LEN {
            let shorter = self.free[..usize::from(order)].iter().rev();
            let page = *shorter.filter_map(|list| list.last()).next()?;
            return Some(index(page) >> order << order);
        }
        if self.free[usize::from(order) + 1..].iter().any(|list| !list.is_empty()) {
            return None;
        }
        let free_in = |start: &usize| -> usize {
            let pages = *start..*start + (1 << order);
            self.free_runs(pages).map(|(_, order)| 1 << order).sum()
        };
        (0..self.reserved_from[0]).step_by(1 << order).max_by_key(free_in)
    }

    /// Takes the gathered run, once all of it is free.
    pub fn take_gathered(&mut self) -> Option<BufferId> {
        let order = u8::try_from(self.gathering.len().checked_ilog2()?).ok()?;
        let page = index(self.gathered[usize::from(order)].pop()?);
        self.gathering = 0..0;
        Some(self.cut(page, order, order))
    }

    /// Returns the gathered pages to the free lists.
    pub fn end_gathering(&mut self) {
        let runs: Vec<(usize, u8)> = self.free_runs(self.gathering.clone()).collect();
        runs.iter().for_each(|(page, _)| self.remove_free(*page));
        self.gathering = 0..0;
        runs.into_iter().for_each(|(page, order)| self.free_run(page, order));
    }

    /// The free runs that begin and end within these pages.
    fn free_runs(&self, pages: Range<usize>) -> impl Iterator<Item = (usize, u8)> + '_ {
        let len = pages.len();
        let states = &self.pages[pages.clone()];
        pages.zip(states).filter_map(move |(page, state)| match state {
            Page::Free { order, .. } if 1 << order <= len => Some((page, *order)),
            _ => None,
        })
    }

    /// The number of buffers given back since the start.
    #[inline]
    pub(crate) fn returns(&self) -> u64 {
        self.returns
    }

    /// Whether a buffer of `len` bytes is free.
    pub(crate) fn has_free(&self, len: ByteLen) -> bool {
        order_for(len).is_some_and(|wanted| {
            self.free[usize::from(wanted)..].iter().any(|list| !list.is_empty())
        })
    }

    /// Whether a run of `rest` bytes would still be free if a buffer of `len` bytes were taken now;
    /// of what is taken piece by piece, its first.
    #[inline]
    pub fn would_leave(&self, rest: ByteLen, len: ByteLen) -> bool {
        let len = len.min(Self::LEN_MAX);
        let (Some(wanted), Some(kept)) = (order_for(len), order_for(rest)) else { return false };
        let is_free = |order: &u8| !self.free[usize::from(*order)].is_empty();
        let Some(taken_from) = (wanted..=ORDER_MAX).find(is_free) else { return false };
        // Splitting a longer run leaves one run of each shorter order.
        let is_left_over = taken_from > wanted && taken_from > kept;
        let runs: usize = (kept..=ORDER_MAX).map(|order| self.free[usize::from(order)].len()).sum();
        is_left_over || runs > usize::from(taken_from >= kept)
    }

    /// Returns a buffer.
    ///
    /// # Panics
    /// If it is not taken. This is a bug in the caller: two owners would share the buffer.
    pub fn give_back(&mut self, buffer: BufferId) {
        let (page, order) = split(buffer);
        self.returns += 1;
        if order == FOREIGN {
            self.foreign.try_remove(page).expect("a foreign buffer is given back once");
            return;
        }
        assert_eq!(self.pages[page], Page::Taken { order }, "buffer {buffer:?} is given back once");
        *self.free_pages_with(page) += 1 << order;
        self.free_run(page, order);
    }

    /// Puts a free run into its list, merged with its free buddies.
    #[inline]
    fn free_run(&mut self, page: usize, order: u8) {
        let (mut page, mut order) = (page, order);
        while order < ORDER_MAX {
            let buddy = page ^ (1 << order);
            let is_free =
                matches!(self.pages[buddy], Page::Free { order: other, .. } if other == order);
            if !is_free || self.is_gathering(buddy) != self.is_gathering(page) {
                break;
            }
            self.remove_free(buddy);
            self.pages[page.max(buddy)] = Page::Inner;
            page = page.min(buddy);
            order += 1;
        }
        self.push_free(page, order);
    }

    #[inline]
    fn is_gathering(&self, page: usize) -> bool {
        self.gathering.contains(&page)
    }

    /// Numbers memory of a client as a buffer, until it is given back. Takes no memory of the pool.
    pub fn lend(&mut self, foreign: Foreign) -> BufferId {
        foreign_id(self.foreign.insert(foreign))
    }

    /// The client's memory behind the buffer; `None` for a buffer of the pool.
    #[inline]
    pub fn foreign(&self, buffer: BufferId) -> Option<Foreign> {
        let (index, order) = split(buffer);
        (order == FOREIGN)
            .then(|| *self.foreign.get(index).expect("a foreign buffer is used before it is back"))
    }

    /// The pool bytes that the buffer takes: zero for a foreign buffer.
    #[inline]
    pub fn len_of(&self, buffer: BufferId) -> ByteLen {
        let (_, order) = split(buffer);
        if order == FOREIGN { ByteLen(0) } else { ByteLen::from_usize(PAGE_LEN << order) }
    }

    /// The number of foreign buffers.
    pub fn foreign_count(&self) -> usize {
        self.foreign.len()
    }

    /// The buffer's bytes: its whole size class, which may be longer than requested.
    ///
    /// # Panics
    /// If it is a foreign buffer, whose memory the client may change at any time. This is a bug in
    /// the caller.
    pub fn bytes(&self, buffer: BufferId) -> &[u8] {
        self.arena.bytes(self.place(buffer))
    }

    /// The buffer's bytes, to fill.
    ///
    /// # Panics
    /// If it is a foreign buffer. This is a bug in the caller.
    pub fn bytes_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        self.arena.bytes_mut(self.place(buffer))
    }

    /// The bytes of two buffers, one of them to fill.
    ///
    /// # Panics
    /// If both are the same buffer or one is foreign. This is a bug in the caller.
    pub fn pair_mut(&mut self, filled: BufferId, other: BufferId) -> (&mut [u8], &[u8]) {
        let (filled, other) = (self.place(filled), self.place(other));
        self.arena.pair_mut(filled, other)
    }

    /// The number of free bytes, without the reserves.
    pub fn free_len(&self) -> ByteLen {
        ByteLen::from_usize(self.free_pages * PAGE_LEN)
    }

    /// The number of free bytes of the reserves.
    pub fn reserved_free_len(&self) -> ByteLen {
        ByteLen::from_usize(self.reserved_free_pages * PAGE_LEN)
    }

    /// The size of the pool in bytes.
    pub fn len(&self) -> ByteLen {
        ByteLen::from_usize(self.pages.len() * PAGE_LEN)
    }

    /// The buffer's range in the arena.
    ///
    /// # Panics
    /// If it is foreign or not taken. This is a bug in the caller.
    #[inline]
    pub fn place(&self, buffer: BufferId) -> Range<usize> {
        let (page, order) = split(buffer);
        assert_ne!(order, FOREIGN, "no processor looks at a client's memory");
        assert_eq!(self.pages[page], Page::Taken { order }, "{buffer:?} is taken");
        let start = page * PAGE_LEN;
        start..start + (PAGE_LEN << order)
    }

    fn push_free(&mut self, page: usize, order: u8) {
        let list = self.list(page, order);
        let position = u32::try_from(list.len()).expect("fewer runs than pages");
        list.push(u32::try_from(page).expect("page indices fit 28 bits"));
        self.pages[page] = Page::Free { order, position };
    }

    /// Takes a free run out of the middle of its list: the last one moves into its place.
    fn remove_free(&mut self, page: usize) {
        let Page::Free { order, position } = self.pages[page] else { unreachable!("it is free") };
        let list = self.list(page, order);
        list.swap_remove(index(position));
        if let Some(&moved) = list.get(index(position)) {
            self.pages[index(moved)] = Page::Free { order, position };
        }
    }

    /// The free list for a run of that order.
    #[inline]
    fn list(&mut self, page: usize, order: u8) -> &mut Vec<u32> {
        let lists = if page >= self.reserved_from[0] {
            &mut self.reserved[usize::from(page >= self.reserved_from[1])]
        } else if self.is_gathering(page) {
            &mut self.gathered
        } else {
            &mut self.free
        };
        &mut lists[usize::from(order)]
    }
}

/// Removes the shortest run of at least that order from its list.
#[inline]
fn pop_from(lists: &mut [Vec<u32>; ORDERS], wanted: u8) -> Option<(u8, usize)> {
    let order = (wanted..=ORDER_MAX).find(|order| !lists[usize::from(*order)].is_empty())?;
    Some((order, index(lists[usize::from(order)].pop()?)))
}

fn order_for(len: ByteLen) -> Option<u8> {
    if len.0 == 0 || len > Pool::LEN_MAX {
        return None;
    }
    let pages = len.to_usize().div_ceil(PAGE_LEN).next_power_of_two();
    u8::try_from(pages.trailing_zeros()).ok()
}

fn buffer_id(page: usize, order: u8) -> BufferId {
    let page = u32::try_from(page).expect("page indices fit 28 bits");
    BufferId(page << ORDER_BITS | u32::from(order))
}

fn foreign_id(index: usize) -> BufferId {
    let index = u32::try_from(index).ok().filter(|index| *index < 1 << (32 - ORDER_BITS));
    let index = index.expect("foreign buffers are bounded by the rings' entries");
    BufferId(index << ORDER_BITS | u32::from(FOREIGN))
}

#[inline]
fn split(buffer: BufferId) -> (usize, u8) {
    let order = u8::try_from(buffer.0 & ((1 << ORDER_BITS) - 1)).expect("four bits fit a byte");
    (index(buffer.0 >> ORDER_BITS), order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buffers_are_page_aligned() {
        let mut pool = Pool::new(ByteLen(1 << 20));
        let buffer = pool.take(ByteLen(1)).unwrap();
        assert_eq!(pool.bytes(buffer).as_ptr().align_offset(PAGE_LEN), 0);
        assert_eq!(pool.bytes(buffer).len(), PAGE_LEN);
    }

    #[test]
    fn a_full_pool_gives_nothing_until_something_comes_back() {
        let mut pool = Pool::new(ByteLen(1 << 20));
        let whole = pool.take(ByteLen(1 << 20)).unwrap();
        assert_eq!(pool.take(ByteLen(1)), None);
        pool.give_back(whole);
        assert!(pool.take(ByteLen(1)).is_some());
    }

    #[test]
    fn what_is_reserved_is_taken_by_its_own_alone_and_comes_back_there() {
        let mut pool = Pool::new(ByteLen(8 << 20));
        let held: Vec<BufferId> = (0..8).filter_map(|_| pool.take(Pool::LEN_MAX)).collect();
        assert_eq!(pool.reserve(), ByteLen(3 << 20));
        held.into_iter().for_each(|buffer| pool.give_back(buffer));
        assert_eq!(
            (pool.free_len(), pool.reserved_free_len()),
            (ByteLen(5 << 20), ByteLen(3 << 20))
        );
        let others: Vec<BufferId> = (0..6).filter_map(|_| pool.take(Pool::LEN_MAX)).collect();
        assert_eq!(others.len(), 5);
        let take = |pool: &mut Pool, reserve| pool.take_reserved(reserve, Pool::LEN_MAX);
        let replicas: Vec<BufferId> =
            (0..3).filter_map(|_| take(&mut pool, Reserve::Replica)).collect();
        assert_eq!(replicas.len(), 2);
        let primary = take(&mut pool, Reserve::Primary).unwrap();
        assert_eq!(take(&mut pool, Reserve::Primary), None);
        pool.give_back(primary);
        assert_eq!(take(&mut pool, Reserve::Replica), None);
        replicas.into_iter().for_each(|buffer| pool.give_back(buffer));
        assert!(pool.take(ByteLen(1)).is_none(), "what comes back is not for others");
        assert_eq!(pool.reserved_free_len(), ByteLen(3 << 20));
        assert_eq!(pool.reserve(), ByteLen(0), "once");
    }

    #[test]
    fn a_short_pool_has_no_reserves() {
        let mut pool = Pool::new(ByteLen(4 << 20));
        assert_eq!(pool.reserve(), ByteLen(0));
        assert_eq!(pool.take_reserved(Reserve::Replica, ByteLen(1)), None);
        assert_eq!(pool.free_len(), ByteLen(4 << 20));
    }

    #[test]
    fn empty_and_oversized_buffers_are_refused() {
        let mut pool = Pool::new(ByteLen(4 << 20));
        assert_eq!(pool.take(ByteLen(0)), None);
        assert_eq!(pool.take(ByteLen((1 << 20) + 1)), None);
    }

    #[test]
    fn a_short_run_is_gathered_around_a_page_that_is_free() {
        let mut pool = Pool::new(ByteLen(1 << 20));
        let mut pages: Vec<BufferId> = (0..256).filter_map(|_| pool.take(ByteLen(1))).collect();
        pool.gather(Pool::FRONT_LEN);
        pages.sort_unstable_by_key(|page| page.0);
        let mut run = pages.drain(32..48);
        pool.give_back(run.next().unwrap());
        pool.gather(Pool::FRONT_LEN);
        assert_eq!((pool.take(ByteLen(1)), pool.take_gathered()), (None, None));
        run.for_each(|page| pool.give_back(page));
        let gathered = pool.take_gathered().expect("all of it is back");
        assert_eq!(pool.len_of(gathered), Pool::FRONT_LEN);
    }

    #[test]
    #[should_panic(expected = "given back once")]
    fn giving_a_buffer_back_twice_is_caught() {
        let mut pool = Pool::new(ByteLen(1 << 20));
        let buffer = pool.take(ByteLen(1)).unwrap();
        pool.give_back(buffer);
        pool.give_back(buffer);
    }

    #[test]
    fn a_clients_memory_is_a_buffer_without_bytes_until_it_is_given_back() {
        let mut pool = Pool::new(ByteLen(1 << 20));
        let free = pool.free_len();
        let memory = Foreign { region: 3, offset: 8192, len: 4096 };
        let (one, other) = (pool.lend(memory), pool.lend(Foreign { offset: 0, ..memory }));
        assert_ne!(one, other);
        assert_eq!(pool.foreign(one), Some(memory));
        assert_eq!((pool.len_of(one), pool.free_len()), (ByteLen(0), free));
        let ours = pool.take(ByteLen(1)).unwrap();
        assert_eq!(pool.foreign(ours), None);
        pool.give_back(one);
        assert_eq!((pool.foreign_count(), pool.lend(memory)), (1, one));
    }

    #[test]
    #[should_panic(expected = "no processor looks at a client's memory")]
    fn looking_at_a_clients_memory_is_caught() {
        let mut pool = Pool::new(ByteLen(1 << 20));
        let buffer = pool.lend(Foreign { region: 0, offset: 0, len: 4096 });
        let _ = pool.bytes(buffer);
    }

    #[test]
    #[should_panic(expected = "given back once")]
    fn giving_a_clients_memory_back_twice_is_caught() {
        let mut pool = Pool::new(ByteLen(1 << 20));
        let buffer = pool.lend(Foreign { region: 0, offset: 0, len: 4096 });
        pool.give_back(buffer);
        pool.give_back(buffer);
    }

    proptest! {
        /// `would_leave` predicts what is left after the buffer is taken.
        #[test]
        fn what_a_buffer_would_leave_is_left(
            steps in prop::collection::vec((0..9u32, 0..9u32, any::<prop::sample::Index>()), 1..300)
        ) {
            let page = ByteLen::from_usize(PAGE_LEN).0;
            let mut pool = Pool::new(ByteLen(2 << 20));
            let mut taken: Vec<BufferId> = Vec::new();
            for (order, rest, which) in steps {
                let (len, rest) = (ByteLen(page << order), ByteLen(page << rest));
                let told = pool.would_leave(rest, len);
                let buffer = pool.take(len);
                let left = pool.take(rest);
                prop_assert_eq!(told, buffer.is_some() && left.is_some());
                left.into_iter().for_each(|left| pool.give_back(left));
                taken.extend(buffer);
                if taken.len() > 12 {
                    pool.give_back(taken.swap_remove(which.index(taken.len())));
                }
            }
            taken.into_iter().for_each(|buffer| pool.give_back(buffer));
            prop_assert_eq!(pool.free_len(), pool.len());
        }

        /// A gathered run becomes free once all its pages are back, no matter what is taken and
        /// given back in the meantime; no gathered page is lost.
        #[test]
        fn a_gathered_run_comes_while_short_ones_are_taken(
            steps in prop::collection::vec((0..5_u32, any::<prop::sample::Index>()), 1..200),
            order in 5..9_u32,
            front in 0..3_u32,
        ) {
            let page = ByteLen::from_usize(PAGE_LEN).0;
            let mut pool = Pool::new(ByteLen(2 << 20));
            let mut taken: Vec<BufferId> = Vec::new();
            while let Some(buffer) = pool.take(ByteLen(page)) {
                taken.push(buffer);
            }
            let run = ByteLen(page << order);
            pool.gather(run);
            let mut gathered = None;
            for (step, (order, which)) in steps.into_iter().enumerate() {
                taken.extend(pool.take(ByteLen(page << order)));
                if step.is_multiple_of(16) {
                    taken.extend(pool.take_front(ByteLen(page << front)));
                }
                for _ in 0..3.min(taken.len()) {
                    pool.give_back(taken.swap_remove(which.index(taken.len())));
                }
                gathered = gathered.or_else(|| pool.take_gathered());
            }
            for buffer in taken {
                pool.give_back(buffer);
            }
            let gathered = gathered.or_else(|| pool.take_gathered()).expect("all is back");
            prop_assert_eq!(pool.len_of(gathered), run);
            pool.give_back(gathered);
            prop_assert_eq!(pool.free_len(), pool.len());
            prop_assert!(pool.take(Pool::LEN_MAX).is_some() && pool.take(Pool::LEN_MAX).is_some());
        }

        /// Pages that are no longer gathered merge into long runs again.
        #[test]
        fn what_is_not_gathered_any_more_is_everybodys(held in prop::collection::vec(0..256_usize, 0..40)) {
            let mut pool = Pool::new(ByteLen(1 << 20));
            let mut pages: Vec<BufferId> = (0..256).filter_map(|_| pool.take(ByteLen(1))).collect();
            let mut held: Vec<BufferId> = held.iter().map(|at| pages[*at]).collect();
            held.sort_unstable_by_key(|buffer| buffer.0);
            held.dedup();
            pages.retain(|page| !held.contains(page));
            pages.into_iter().for_each(|page| pool.give_back(page));
            pool.gather(Pool::LEN_MAX);
            prop_assert!(pool.take(ByteLen(1)).is_none());
            pool.end_gathering();
            held.into_iter().for_each(|page| pool.give_back(page));
            prop_assert!(pool.take(Pool::LEN_MAX).is_some());
        }

        /// Taken buffers never overlap, and once all are back the pool is whole again.
        #[test]
        fn buffers_never_overlap_and_all_memory_returns(
            steps in prop::collection::vec((any::<bool>(), 1u64..1 << 20, any::<prop::sample::Index>()), 1..200)
        ) {
            let mut pool = Pool::new(ByteLen(4 << 20));
            let mut taken: Vec<BufferId> = Vec::new();
            for (take, len, which) in steps {
                if take {
                    if let Some(buffer) = pool.take(ByteLen(len)) {
                        prop_assert!(pool.bytes(buffer).len() >= ByteLen(len).to_usize());
                        let fresh = pool.place(buffer);
                        for other in &taken {
                            let other = pool.place(*other);
                            prop_assert!(fresh.end <= other.start || other.end <= fresh.start);
                        }
                        taken.push(buffer);
                    }
                } else if !taken.is_empty() {
                    let buffer = taken.swap_remove(which.index(taken.len()));
                    pool.give_back(buffer);
                }
            }
            for buffer in taken {
                pool.give_back(buffer);
            }
            prop_assert_eq!(pool.free_len(), pool.len());
            for _ in 0..4 {
                prop_assert!(pool.take(ByteLen(1 << 20)).is_some());
            }
        }
    }
}
