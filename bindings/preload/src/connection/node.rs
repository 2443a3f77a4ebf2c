//! The link to a node.
//!
//! The program may close the descriptors of the link, and open files of its own under their numbers. So the
//! link is used only as long as the descriptors are the ones that it was made with, and otherwise left alone.
//!
//! The link checks that itself before each system call. Most reads through shared memory need none: no
//! descriptor is used, so none is checked. A write is checked in advance, so that it is not begun on a link
//! whose node cannot be woken, and so is a link over a socket.

use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nearflash::direct::{Handle, Handover, Seal, Status, Url};
use nearflash::{Buffer, Client, Completion, Credentials, Error, Options, QueueOptions, QueuePair};
use rustix::fs::fstat;
use rustix::process::{Resource, getrlimit};

/// The most requests in flight.
pub(super) const DEPTH: u32 = 4;
/// The length of a request. The protocol cuts longer ones at multiples of it.
pub(super) const PIECE_LEN: usize = 256 << 10;
/// The longest time for which a lost link is made again, to end its writes.
const SETTLE_MAX: Duration = Duration::from_secs(5);
/// The time after a node could not be reached within which it is not tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// The descriptors of links have the highest numbers below this one and below the limit.
const DESCRIPTOR_END: u64 = 4096;
/// The number of descriptors of all links.
const DESCRIPTORS: u64 = 64;

/// The reason why a node has not carried out a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum NodeTrouble {
    /// It refuses, or its device failed.
    Status(Status),
    /// The link is lost, and nothing was changed.
    Lost,
    /// The link is lost, and something may have been changed.
    Unknown,
}

impl NodeTrouble {
    /// The reason, where several requests have failed: the gravest.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Lost, _) | (_, Self::Lost) => Self::Lost,
            _ => self,
        }
    }
}

impl From<&Error> for NodeTrouble {
    fn from(error: &Error) -> Self {
        match (error, error.status()) {
            (Error::Unknown(_), _) => Self::Unknown,
            (_, Some(status)) => Self::Status(status),
            _ => Self::Lost,
        }
    }
}

/// A descriptor and the socket that it was of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Own {
    number: RawFd,
    socket: (u64, u64),
}

impl Own {
    fn new(fd: BorrowedFd<'_>) -> Option<Self> {
        let of = fstat(fd).ok()?;
        Some(Self { number: fd.as_raw_fd(), socket: (of.st_dev, of.st_ino) })
    }

    fn is_ours(&self) -> bool {
        // SAFETY: the number is that of a descriptor, and one that is not open gives an error.
        let fd = unsafe { BorrowedFd::borrow_raw(self.number) };
        fstat(fd).is_ok_and(|of| (of.st_dev, of.st_ino) == self.socket)
    }
}

/// A link, with the memory of its requests.
pub(super) struct Node {
    place: Url,
    /// The volume and the minter whose seals the bearer of the link opens; `None` without a bearer.
    opens: Option<([u8; 16], Box<str>)>,
    pub(super) pair: QueuePair,
    descriptors: [Option<Own>; 2],
    pub(super) buffers: Vec<Buffer>,
    pub(super) done: Vec<Completion>,
}

impl Node {
    /// Connects to the node of a seal; `None` if it cannot be reached, or has no seals.
    pub(super) fn connect(handover: &Handover, identity: [u8; 16]) -> Option<Self> {
        let options = Options::default().reconnect_max(SETTLE_MAX);
        let place = handover.place.clone();
        let credentials = handover.bearer.clone().map_or(Credentials::NONE, Credentials::from);
        let connected = Client::connect_to(place.clone(), credentials, options);
        let shared_len = PIECE_LEN * (DEPTH as usize + 1);
        let options = QueueOptions::default().depth(DEPTH).shared_len(shared_len);
        let options = options.identity(Some(identity)).descriptor_min(descriptor_min());
        let options = options.guards_descriptors(true);
        let linked = connected.and_then(|client| client.sealed_queue_pair(&handover.seal, options));
        let pair = match linked {
            Ok(pair) => pair,
            Err(error) => {
                // A seal that was revoked meanwhile says nothing about the node.
                if error.status().is_none() {
                    pause();
                }
                return None;
            }
        };
        let descriptors = [Own::new(pair.socket()), pair.bell().and_then(Own::new)];
        let (buffers, done) = (Vec::new(), Vec::new());
        let opens = opens(handover);
        Some(Self { place, opens, pair, descriptors, buffers, done })
    }

    /// Whether the seal can be opened over this link.
    pub(super) fn is_for(&self, handover: &Handover) -> bool {
        self.place == handover.place && self.opens == opens(handover)
    }

    /// Whether the link can be used.
    pub(super) fn is_ours(&self) -> bool {
        !self.pair.is_lost() && self.has_descriptors()
    }

    /// Whether the link can be used for a read: it checks its descriptors itself, if it has shared memory.
    pub(super) fn can_read(&self) -> bool {
        !self.pair.is_lost() && (self.pair.bell().is_some() || self.has_descriptors())
    }

    fn has_descriptors(&self) -> bool {
        self.descriptors.iter().flatten().all(Own::is_ours)
    }

    /// Ends the link. If the program has closed its descriptors, others may have their numbers.
    pub(super) fn end(self) {
        if !self.has_descriptors() {
            std::mem::forget(self);
        }
    }

    pub(super) fn open(&mut self, seal: &Seal) -> Result<Handle, NodeTrouble> {
        self.pair.open_sealed(seal).map_err(|error| NodeTrouble::from(&error))
    }

    pub(super) fn close(&mut self, handle: Handle) {
        self.pair.close(handle);
    }

    /// After a lost link: makes it again, so that no write of it takes effect later.
    pub(super) fn settle(&mut self) {
        if self.has_descriptors() {
            self.buffers.clear();
            // If the node cannot be reached, it ends the link by itself.
            let _ = self.pair.with_timeout(SETTLE_MAX).reconnect();
            self.descriptors = [Own::new(self.pair.socket()), self.pair.bell().and_then(Own::new)];
        }
    }
}

/// The volume and the minter whose seals a bearer opens.
fn opens(handover: &Handover) -> Option<([u8; 16], Box<str>)> {
    handover.bearer.as_ref().map(|_| (handover.seal.volume(), handover.seal.minter().into()))
}

/// The lowest number of the descriptors of links: programs use small ones.
fn descriptor_min() -> u32 {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(DESCRIPTOR_END);
    let min = limit.min(DESCRIPTOR_END).saturating_sub(DESCRIPTORS);
    u32::try_from(min).unwrap_or(0)
}

static BEGIN: OnceLock<Instant> = OnceLock::new();
/// The end of a pause, in milliseconds since `BEGIN`; 0 if no node was out of reach.
static PAUSED_UNTIL: AtomicU64 = AtomicU64::new(0);

fn now() -> u64 {
    let begin = BEGIN.get_or_init(Instant::now);
    u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn pause() {
    let pause = u64::try_from(PAUSE.as_millis()).unwrap_or(0);
    PAUSED_UNTIL.store(now() + pause, Ordering::Relaxed);
}

/// Whether a node could not be reached a moment ago.
pub(super) fn is_too_early() -> bool {
    let until = PAUSED_UNTIL.load(Ordering::Relaxed);
    until != 0 && now() < until
}
