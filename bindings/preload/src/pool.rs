//! The connections of the process. A call takes one that is idle, most often the one that its thread had
//! last; if all are in use, it goes through the mount. So no call waits for another one.
//!
//! A call that never returns, since a signal handler has left it with longjmp(3), keeps its connection.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::connection::Connection;

/// The most connections. More threads than processors do not read faster.
const SLOTS: usize = 16;

struct Slot {
    /// Whether a call uses it.
    is_used: AtomicBool,
    connection: UnsafeCell<Option<Box<Connection>>>,
}

// SAFETY: only the call that has set `is_used` accesses the connection, until it clears it.
unsafe impl Sync for Slot {}

static POOL: [Slot; SLOTS] =
    [const { Slot { is_used: AtomicBool::new(false), connection: UnsafeCell::new(None) } }; SLOTS];
static THREADS: AtomicUsize = AtomicUsize::new(0);
/// The life in which the slots are used.
static LIFE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The slot that this thread tries first.
    static FIRST: Cell<usize> = const { Cell::new(usize::MAX) };
    /// Whether this thread is within a call.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is within a call: its own system calls, or a signal handler's.
pub(crate) fn is_inside() -> bool {
    IS_INSIDE.get()
}

/// A connection for one call.
pub(crate) struct Taken {
    slot: &'static Slot,
}

impl Taken {
    /// A connection that is idle; `None` when all are in use.
    pub(crate) fn new(life: u64) -> Option<Self> {
        begin_life(life);
        let first = FIRST.get();
        let first = match first {
            usize::MAX => THREADS.fetch_add(1, Ordering::Relaxed) % SLOTS,
            first => first,
        };
        for at in (first..SLOTS).chain(0..first) {
            let slot = &POOL[at];
            if !slot.is_used.swap(true, Ordering::Acquire) {
                FIRST.set(at);
                IS_INSIDE.set(true);
                return Some(Self { slot });
            }
        }
        None
    }

    /// The connection, if it was made.
    pub(crate) fn connection(&mut self) -> &mut Option<Box<Connection>> {
        // SAFETY: this call has the slot until it is dropped.
        unsafe { &mut *self.slot.connection.get() }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // It may be in any state.
            std::mem::forget(self.connection().take());
        }
        IS_INSIDE.set(false);
        self.slot.is_used.store(false, Ordering::Release);
    }
}

/// In a child: frees the slots that threads of the parent had, and leaves their connections alone. The idle
/// ones are dropped at their next use: [`Connection::end`].
#[cold]
fn renew(life: u64, last: u64) {
    if LIFE.compare_exchange(last, life, Ordering::SeqCst, Ordering::Relaxed).is_err() || last == 0
    {
        return;
    }
    for slot in &POOL {
        if slot.is_used.swap(false, Ordering::SeqCst) {
            // SAFETY: the thread that had the slot does not exist in this process, and a child has one
            // thread when it comes here first. The connection may be in any state, so it is not dropped.
            let connection = unsafe { &mut *slot.connection.get() };
            std::mem::forget(connection.take());
        }
    }
    IS_INSIDE.set(false);
}

fn begin_life(life: u64) {
    let last = LIFE.load(Ordering::Relaxed);
    if last != life {
        renew(life, last);
    }
}
