//! The reactor of one core: the outside world as a shard sees it, on one ring. This is its loop; the
//! face that a shard sees is in `world`.

mod world;

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use io_uring::squeue::Entry;
use io_uring::{IoUring, opcode, types};
use nearflash_device::DeviceResult;
use nearflash_engine::Pool;
use nearflash_media::{Device, Kind};
use nearflash_shard::{Event, Message, Notice, RingId, Shard, SocketId, World};
use nearflash_units::{ByteLen, Nanos};

use crate::arena::Mapped;
use crate::devices::Devices;
use crate::listeners::{Listener, ListeningSocket};
use crate::mailbox::{Mailbox, Sender};
use crate::rings::{BellWatch, Buffers, Rings};
use crate::sockets::{self, Prepared, SendParts};
use crate::spin::Spinner;
use crate::token::{GENERATION_MASK, Token};
use crate::unsent::Unsent;

/// Entries that one turn may submit; more are submitted in two calls.
const SUBMISSIONS_MAX: u32 = 256;

/// The first entries of a turn are handed to the kernel when they are this many, the next when they
/// are twice as many, and so on: the device begins while the rest is still being prepared. A
/// virtual disk that answers a batch as a whole gained 3 to 18 % at depth 32; below 4, the calls
/// cost what they bring.
const FIRST_SUBMISSION_LEN: usize = 8;

/// Completions that may wait; beyond, the kernel keeps them aside and is slower.
const COMPLETIONS_MAX: u32 = 4096;

/// Completions taken in one turn, so that no turn is long.
const COMPLETIONS_PER_TURN_MAX: usize = 512;

/// Messages taken in one turn.
const MESSAGES_PER_TURN_MAX: usize = 64;

/// How long a listener rests after the system refused it a connection (no descriptors left).
const ACCEPT_REST: Nanos = Nanos::from_millis(100);

/// What takes the notices of one core: the application's log.
pub type NoticeSink = Box<dyn FnMut(Notice) + Send>;

/// Why a reactor could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The kernel, or a policy around it, refuses io_uring.
    #[error(
        "io_uring is not allowed here ({0}): nearflash needs it to reach its devices. In a \
         container, allow the system calls io_uring_setup, io_uring_enter and io_uring_register \
         in its seccomp profile; on a host, set the sysctl kernel.io_uring_disabled to 0"
    )]
    RingForbidden(io::Error),
    /// The kernel has no io_uring with what we need of it.
    #[error("io_uring of this kernel lacks what nearflash needs ({0}): use Linux 6.1 or newer")]
    RingTooOld(io::Error),
    /// Anything else.
    #[error("cannot start a core: {0}")]
    Other(#[from] io::Error),
}

/// What a reactor is made with.
pub struct ReactorConfig {
    /// The moment from which all cores count time.
    pub epoch: Instant,
    /// How much pool it has.
    pub pool_len: ByteLen,
    /// The node's devices, by their number.
    pub devices: Vec<Arc<Device>>,
    /// Where hosts connect. Only the first core has any.
    pub listeners: Vec<Listener>,
    /// Takes what is to be logged.
    pub notices: NoticeSink,
}

/// The outside world of one core.
pub struct Reactor {
    epoch: Instant,
    now: Nanos,
    ring: IoUring,
    pool: Pool,
    /// The pool's memory.
    arena: Mapped,
    devices: Devices,
    rings: Rings,
    listeners: Vec<Listener>,
    /// Listeners that rest, and until when.
    resting: Vec<(usize, Nanos)>,
    watches: Vec<Watch>,
    mailbox: Mailbox<Message>,
    /// Every core's mailbox, by its number; empty until [`Reactor::connect`].
    peers: Vec<Sender<Message>>,
    unsent: Unsent<Message>,
    parts: SendParts,
    notices: NoticeSink,
    /// So many queued entries are not kept for the end of the turn.
    submission_len: usize,
}

/// The watch on one socket.
#[derive(Clone, Copy, Debug, Default)]
struct Watch {
    generation: u32,
    armed: Option<Armed>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Armed(u32);

impl Reactor {
    /// A reactor for the calling thread, which must be the one that runs it.
    ///
    /// # Errors
    /// When the ring cannot be made; the message names the remedy.
    pub fn new(config: ReactorConfig) -> Result<Self, StartError> {
        let ring = make_ring()?;
        let fds: Vec<RawFd> = config.devices.iter().map(|d| device_fd(d)).collect();
        if !fds.is_empty() {
            ring.submitter().register_files(&fds)?;
        }
        let arena = Mapped::new(Pool::arena_len(config.pool_len))?;
        let mut reactor = Self {
            epoch: config.epoch,
            now: Nanos(0),
            ring,
            pool: Pool::over(Box::new(arena.clone()), config.pool_len),
            arena,
            devices: Devices::new(config.devices),
            rings: Rings::default(),
            listeners: config.listeners,
            resting: Vec::new(),
            watches: Vec::new(),
            mailbox: Mailbox::new()?,
            peers: Vec::new(),
            unsent: Unsent::default(),
            parts: SendParts::default(),
            notices: config.notices,
            submission_len: FIRST_SUBMISSION_LEN,
        };
        reactor.tick();
        // The ring would report a non-blocking listener as having nobody waiting instead of
        // waiting for somebody.
        for listener in &reactor.listeners {
            listener.socket.set_blocking()?;
        }
        for index in 0..reactor.listeners.len() {
            reactor.arm_accept(index);
        }
        reactor.arm_wake();
        Ok(reactor)
    }

    /// Where others leave messages for this core.
    pub fn sender(&self) -> Sender<Message> {
        self.mailbox.sender()
    }

    /// Tells the reactor where the cores' mailboxes are, by core.
    pub fn connect(&mut self, peers: Vec<Sender<Message>>) {
        self.peers = peers;
    }

    /// Turns until the shard is told to stop: works while there is work, spins while more is likely,
    /// sleeps when not.
    pub fn run(&mut self, shard: &mut Shard) {
        let mut spinner = Spinner::new(self.now);
        while !shard.is_stopped() {
            self.tick();
            if shard.turn(self) > 0 {
                spinner.worked(self.now);
            } else if spinner.goes_on(self.now) {
                std::hint::spin_loop();
            } else {
                shard.prepare_to_sleep(self);
                self.sleep(shard.poll_timeout());
            }
        }
    }

    fn tick(&mut self) {
        let nanos = self.epoch.elapsed().as_nanos();
        self.now = Nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    }

    /// Waits for a completion, a message or the deadline.
    fn sleep(&mut self, deadline: Option<Nanos>) {
        let rests = self.resting.iter().map(|(_, until)| *until).min();
        let deadline = deadline.into_iter().chain(self.devices.deadline()).chain(rests).min();
        if !self.begin_sleep() {
            return self.end_sleep();
        }
        let span = deadline.map_or(Nanos::from_secs(60), |at| at.since(self.now));
        let timeout = types::Timespec::from(span.to_duration());
        let args = types::SubmitArgs::new().timespec(&timeout);
        // A time-out, a signal and a completion all end the wait, and the turn finds out which.
        let _ = self.ring.submitter().submit_with_args(1, &args);
        self.end_sleep();
    }

    /// Asks everybody to wake this core. `false` when there is something to do already.
    fn begin_sleep(&mut self) -> bool {
        self.unsent.is_empty() && self.mailbox.begin_sleep() && self.rings.begin_sleep()
    }

    fn end_sleep(&mut self) {
        self.mailbox.end_sleep();
        self.rings.end_sleep();
    }

    /// Hands queued entries to the kernel when they have become many.
    #[inline]
    fn submit_early(&mut self) {
        if self.ring.submission().len() >= self.submission_len {
            self.submission_len *= 2;
            // What could not be handed over now stays queued, for the next turn.
            let _ = self.ring.submit();
        }
    }

    /// Hands queued entries to the kernel, and lets it post what has completed.
    #[inline]
    fn enter(&mut self) {
        let (queued, work_waits) = {
            let submissions = self.ring.submission();
            (submissions.len(), submissions.taskrun() || submissions.cq_overflow())
        };
        if queued == 0 && !work_waits {
            return;
        }
        let queued = u32::try_from(queued).unwrap_or(SUBMISSIONS_MAX);
        let flags = 1; // IORING_ENTER_GETEVENTS
        // SAFETY: no argument is passed, and every queued entry was checked in when it was pushed.
        let _ = unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, 0, flags, None) };
    }

    fn take_completions(&mut self, events: &mut Vec<Event>) {
        for _ in 0..COMPLETIONS_PER_TURN_MAX {
            let Some(entry) = self.ring.completion().next() else { break };
            self.take_completion(Token::unpack(entry.user_data()), entry.result(), events);
        }
    }

    #[inline]
    fn take_completion(&mut self, token: Token, result: i32, events: &mut Vec<Event>) {
        match token {
            Token::Device { slot, generation } => {
                let Self { devices, ring, pool, arena, rings, notices, .. } = self;
                let buffers = Buffers { pool, arena, rings };
                // Only what moved nothing can be a fault.
                let fault = (result <= 0).then(|| devices.fault(slot, result.saturating_neg()));
                let ended = devices
                    .complete((slot, generation), result, buffers, |entry| push(ring, &entry));
                if let (Some(fault), Some((_, result))) = (fault, ended)
                    && is_fault(result)
                {
                    notices(fault(result));
                }
                events.extend(ended.map(|(id, result)| Event::Device(id, result)));
            }
            Token::Watch { socket, generation } => {
                let watch = &mut self.watches[index(socket)];
                if watch.armed.is_some() && watch.generation & GENERATION_MASK == generation {
                    watch.armed = None;
                    events.push(Event::Ready(SocketId(socket)));
                }
            }
            Token::Accept(listener) => self.accepted(index(listener), result, events),
            Token::Wake => {
                self.mailbox.clear_wake();
                self.arm_wake();
            }
            Token::Bell { ring, generation } => {
                if self.rings.rang(RingId(ring), generation) {
                    self.arm_bell(RingId(ring));
                }
            }
            Token::Ignored => {}
        }
    }

    fn accepted(&mut self, listener: usize, result: i32, events: &mut Vec<Event>) {
        if listener >= self.listeners.len() {
            return; // no longer listening
        }
        if result < 0 {
            let error = io::Error::from_raw_os_error(-result);
            (self.notices)(Notice::AcceptFailed { reason: error.to_string() });
            self.resting.push((listener, self.now.plus(ACCEPT_REST)));
            return;
        }
        self.arm_accept(listener);
        // A host that is gone already has no address, and is forgotten.
        let prepared = match self.listeners[listener].socket {
            ListeningSocket::Tcp(_) => sockets::prepare_tcp(result),
            ListeningSocket::Unix(_) => sockets::prepare_unix(result),
        };
        if let Ok(Prepared { fd, peer, local }) = prepared {
            let (socket, door) = (sockets::release(fd), self.listeners[listener].door);
            self.attach(socket);
            events.push(Event::Accepted { socket, door, peer, local });
        }
    }

    fn arm_accept(&mut self, listener: usize) {
        let fd = types::Fd(self.listeners[listener].socket.as_fd().as_raw_fd());
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let index = u32::try_from(listener).expect("listeners are few");
        let entry = opcode::Accept::new(fd, std::ptr::null_mut(), std::ptr::null_mut())
            .flags(flags)
            .build()
            .user_data(Token::Accept(index).pack());
        push(&mut self.ring, &entry);
    }

    fn end_rests(&mut self) {
        let now = self.now;
        for (listener, _) in
            self.resting.extract_if(.., |(_, until)| *until <= now).collect::<Vec<_>>()
        {
            if listener < self.listeners.len() {
                self.arm_accept(listener);
            }
        }
    }

    fn arm_wake(&mut self) {
        let fd = types::Fd(self.mailbox.wake_fd().as_raw_fd());
        let entry = opcode::PollAdd::new(fd, poll_bits(libc::POLLIN)).build();
        push(&mut self.ring, &entry.user_data(Token::Wake.pack()));
    }

    fn arm_bell(&mut self, ring: RingId) {
        let BellWatch { fd, token } = self.rings.bell(ring);
        let entry = opcode::PollAdd::new(types::Fd(fd), poll_bits(libc::POLLIN)).build();
        push(&mut self.ring, &entry.user_data(token.pack()));
    }

    fn unwatch(&mut self, token: Token) {
        let entry = opcode::PollRemove::new(token.pack()).build();
        push(&mut self.ring, &entry.user_data(Token::Ignored.pack()));
    }

    fn disarm(&mut self, socket: SocketId) {
        let watch = &mut self.watches[index(socket.0)];
        if let Some(Armed(generation)) = watch.armed.take() {
            self.unwatch(Token::Watch { socket: socket.0, generation });
        }
        let watch = &mut self.watches[index(socket.0)];
        watch.generation = watch.generation.wrapping_add(1);
    }
}

impl Drop for Reactor {
    /// Device operations write to the pool and to memory of clients: neither may go before they have
    /// ended.
    fn drop(&mut self) {
        let mut events = Vec::new();
        while self.devices.in_flight_len() > 0 {
            self.tick();
            let _ = self.ring.submitter().submit_and_wait(1);
            self.take_completions(&mut events);
            while self.devices.take_due(self.now).is_some() {}
        }
        // The kernel tears a ring down in its own time, and a disk that is still registered then is
        // in use. Without registered files this fails, and nothing has to be given up.
        let _ = self.ring.submitter().unregister_files();
    }
}

/// Queues an entry, making room first if there is none.
#[inline]
fn push(ring: &mut IoUring, entry: &Entry) {
    loop {
        // SAFETY: an entry points only to pool buffers and to memory lent by clients, which stay
        // taken until the operation ends and whose memory is freed after that (by `Reactor::drop`,
        // by `detach_ring`), or to static memory.
        if unsafe { ring.submission().push(entry) }.is_ok() {
            return;
        }
        let _ = ring.submit();
    }
}

fn make_ring() -> Result<IoUring, StartError> {
    // One thread submits and waits, and asks for completions when it wants them: no interrupts of
    // that thread by the kernel, and completions are run in batches.
    let built = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all()
        .setup_cqsize(COMPLETIONS_MAX)
        .build(SUBMISSIONS_MAX);
    built.map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => StartError::RingForbidden(error),
        Some(libc::EINVAL) => StartError::RingTooOld(error),
        _ => StartError::Other(error),
    })
}

/// A descriptor that the ring can register in the device's place; devices without one have a gap.
fn device_fd(device: &Device) -> RawFd {
    match device.kind() {
        Kind::Uring(file) => file.fd().as_raw_fd(),
        Kind::Ram(_) | Kind::Null(_) => -1,
    }
}

#[expect(clippy::cast_sign_loss, reason = "poll bits are positive")]
fn poll_bits(events: libc::c_short) -> u32 {
    events as u32
}

fn index(raw: u32) -> usize {
    usize::try_from(raw).expect("usize is at least 32 bits wide")
}

/// Whether a device's answer is for whoever runs the node, too: not when it merely cannot do
/// what was asked.
fn is_fault(result: DeviceResult) -> bool {
    match result {
        DeviceResult::Done
        | DeviceResult::Mapped(_)
        | DeviceResult::Unmapped(_)
        | DeviceResult::Unsupported => false,
        DeviceResult::NoSpace | DeviceResult::MediumError | DeviceResult::Gone => true,
    }
}
