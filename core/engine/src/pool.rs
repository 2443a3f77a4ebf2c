//! A bounded pool of aligned buffers: a buddy allocator over one arena.
//!
//! Pages are 4 KiB; a buffer is a power of two of them, aligned to its own size within the arena,
//! which begins on a page boundary. Taking and giving back cost a few instructions per halving.
//! Buffers given back last are taken first, so that a busy core's working set stays in its cache,
//! and pages never taken never become resident.
//!
//! Invariant: every page belongs to exactly one free or taken run; a buffer is given back once.

use nearflash_request::BufferId;
use nearflash_units::ByteLen;

/// Smallest buffer and alignment of each, in bytes.
pub const PAGE_LEN: usize = 4096;

/// Largest buffer: 2^8 pages, 1 MiB, the largest transfer that a door accepts.
const ORDER_MAX: u8 = 8;
const ORDERS: usize = 9;

/// Low bits of a [`BufferId`] that hold the order; the page index stands above them.
const ORDER_BITS: u32 = 4;

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
    /// One page longer than the arena, so that the arena can begin on a page boundary.
    memory: Box<[u8]>,
    start: usize,
    pages: Box<[Page]>,
    free: [Vec<u32>; ORDERS],
    free_pages: usize,
}

impl Pool {
    /// Largest length that [`Self::take`] gives out.
    pub const LEN_MAX: ByteLen = ByteLen(1 << 20);

    /// How many bytes of the pool a buffer of `len` bytes takes: its size class.
    #[inline]
    pub fn charge(len: ByteLen) -> ByteLen {
        match order_for(len) {
            Some(order) => ByteLen::from_usize(PAGE_LEN << order),
            None => len,
        }
    }

    /// A pool of `len` bytes, rounded up to whole largest buffers. The memory is reserved, not
    /// touched.
    pub fn new(len: ByteLen) -> Self {
        let run_pages = 1usize << ORDER_MAX;
        let runs = len.to_usize().div_ceil(run_pages * PAGE_LEN).max(1);
        let page_count = runs * run_pages;
        assert!(page_count < 1 << (32 - ORDER_BITS), "a pool is below 1 TiB");
        let memory = vec![0u8; page_count * PAGE_LEN + PAGE_LEN].into_boxed_slice();
        let start = memory.as_ptr().align_offset(PAGE_LEN);
        let mut pool = Self {
            memory,
            start,
            pages: vec![Page::Inner; page_count].into_boxed_slice(),
            free: Default::default(),
            free_pages: page_count,
        };
        // Every list is as long as it can get, so that giving back never allocates.
        for (order, list) in pool.free.iter_mut().enumerate() {
            list.reserve_exact(page_count >> order);
        }
        for run in (0..runs).rev() {
            pool.push_free(run * run_pages, ORDER_MAX);
        }
        pool
    }

    /// A buffer of at least `len` bytes, its contents whatever was last in it; `None` when no run
    /// is free (wait for a buffer to come back) or `len` is zero or over [`Self::LEN_MAX`].
    pub fn take(&mut self, len: ByteLen) -> Option<BufferId> {
        let wanted = order_for(len)?;
        let mut order = (wanted..=ORDER_MAX).find(|o| !self.free[usize::from(*o)].is_empty())?;
        let page = self.pop_free(order);
        while order > wanted {
            order -= 1;
            self.push_free(page + (1 << order), order);
        }
        self.pages[page] = Page::Taken { order: wanted };
        self.free_pages -= 1 << wanted;
        Some(buffer_id(page, wanted))
    }

    /// Gives a buffer back.
    ///
    /// # Panics
    /// When it is not taken: our own fault, and the next taker would share it.
    pub fn give_back(&mut self, buffer: BufferId) {
        let (mut page, mut order) = place(buffer);
        assert_eq!(self.pages[page], Page::Taken { order }, "buffer {buffer:?} is given back once");
        self.free_pages += 1 << order;
        while order < ORDER_MAX {
            let buddy = page ^ (1 << order);
            let Page::Free { order: buddy_order, position } = self.pages[buddy] else { break };
            if buddy_order != order {
                break;
            }
            self.remove_free(order, position);
            self.pages[page.max(buddy)] = Page::Inner;
            page = page.min(buddy);
            order += 1;
        }
        self.push_free(page, order);
    }

    /// The buffer's bytes: all of it, which may be more than was asked for.
    pub fn bytes(&self, buffer: BufferId) -> &[u8] {
        let range = self.range(buffer);
        &self.memory[range]
    }

    /// The buffer's bytes, to fill.
    pub fn bytes_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        let range = self.range(buffer);
        &mut self.memory[range]
    }

    /// How many bytes are not taken.
    pub fn free_len(&self) -> ByteLen {
        ByteLen::from_usize(self.free_pages * PAGE_LEN)
    }

    /// How many bytes the pool has.
    pub fn len(&self) -> ByteLen {
        ByteLen::from_usize(self.pages.len() * PAGE_LEN)
    }

    /// Never: a pool has at least one largest buffer.
    pub fn is_empty(&self) -> bool {
        false
    }

    #[inline]
    fn range(&self, buffer: BufferId) -> std::ops::Range<usize> {
        let (page, order) = place(buffer);
        debug_assert_eq!(self.pages[page], Page::Taken { order }, "{buffer:?} is taken");
        let start = self.start + page * PAGE_LEN;
        start..start + (PAGE_LEN << order)
    }

    fn push_free(&mut self, page: usize, order: u8) {
        let list = &mut self.free[usize::from(order)];
        let position = u32::try_from(list.len()).expect("fewer runs than pages");
        self.pages[page] = Page::Free { order, position };
        list.push(u32::try_from(page).expect("page indices fit 28 bits"));
    }

    fn pop_free(&mut self, order: u8) -> usize {
        let page = self.free[usize::from(order)].pop().expect("the caller saw a free run");
        index(page)
    }

    /// Takes a run out of the middle of its list: the last one moves into its place.
    fn remove_free(&mut self, order: u8, position: u32) {
        let list = &mut self.free[usize::from(order)];
        list.swap_remove(index(position));
        if let Some(&moved) = list.get(index(position)) {
            self.pages[index(moved)] = Page::Free { order, position };
        }
    }
}

fn index(raw: u32) -> usize {
    usize::try_from(raw).expect("usize is at least 32 bits wide")
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

fn place(buffer: BufferId) -> (usize, u8) {
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
    fn empty_and_oversized_buffers_are_refused() {
        let mut pool = Pool::new(ByteLen(4 << 20));
        assert_eq!(pool.take(ByteLen(0)), None);
        assert_eq!(pool.take(ByteLen((1 << 20) + 1)), None);
    }

    #[test]
    #[should_panic(expected = "given back once")]
    fn giving_a_buffer_back_twice_is_caught() {
        let mut pool = Pool::new(ByteLen(1 << 20));
        let buffer = pool.take(ByteLen(1)).unwrap();
        pool.give_back(buffer);
        pool.give_back(buffer);
    }

    proptest! {
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
                        let fresh = pool.range(buffer);
                        for other in &taken {
                            let other = pool.range(*other);
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
