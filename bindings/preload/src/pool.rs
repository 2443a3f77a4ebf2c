//! The connections of the process. A call takes one that is idle, most often the one that its thread had
//! last; if all are in use, it goes through the mount. So no call waits for another one.
//!
//! A call that never returns, since a signal handler has left it with longjmp(3), keeps its connection.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::connection::Connection;
use crate::file::FileId;

/// The most connections. More threads than processors do not read faster.
const SLOTS: usize = 16;

struct Slot {
    /// 0, or the key of the file that the call under way is for.
    user: AtomicU64,
    connection: UnsafeCell<Option<Box<Connection>>>,
}

// SAFETY: only the call that has changed `user` from 0 accesses the connection, until it sets it to 0.
unsafe impl Sync for Slot {}

static POOL: [Slot; SLOTS] =
    [const { Slot { user: AtomicU64::new(0), connection: UnsafeCell::new(None) } }; SLOTS];
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
    pub(crate) fn new(file: FileId, life: u64) -> Option<Self> {
        begin_life(life);
        let first = FIRST.get();
        let first = match first {
            usize::MAX => THREADS.fetch_add(1, Ordering::Relaxed) % SLOTS,
            first => first,
        };
        let key = file.key();
        for at in (first..SLOTS).chain(0..first) {
            let slot = &POOL[at];
            let taken = slot.user.compare_exchange(0, key, Ordering::SeqCst, Ordering::Relaxed);
            if taken.is_ok() {
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
        self.slot.user.store(0, Ordering::SeqCst);
    }
}

/// Waits until no call for the file is under way that has begun before.
pub(crate) fn wait_for(file: FileId) {
    if is_inside() {
        // A signal handler interrupts the call, which goes on only after it.
        return;
    }
    let key = file.key();
    for slot in &POOL {
        while slot.user.load(Ordering::SeqCst) == key {
            std::thread::yield_now();
        }
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
        if slot.user.swap(0, Ordering::SeqCst) != 0 {
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
