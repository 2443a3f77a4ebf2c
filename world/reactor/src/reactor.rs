//! The reactor of one core: the outside world of a shard, on one ring. This module has its loop;
//! `world` has the interface for the shard.

mod world;

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;

use io_uring::squeue::Entry;
use io_uring::{IoUring, opcode, types};
use nearflash_device::DeviceResult;
use nearflash_engine::Pool;
use nearflash_media::{Device, Kind};
use nearflash_shard::{Event, Message, Notice, RingId, Shard, SocketId, World};
use nearflash_units::{ByteLen, Nanos};

use crate::arena::Mapped;
use crate::clock::Epoch;
use crate::devices::Devices;
use crate::listeners::{Listener, ListeningSocket};
use crate::mailbox::{Mailbox, Sender};
use crate::rings::{BellWatch, Buffers, Rings};
use crate::secured_table::SecuredTable;
use crate::sockets::{self, Prepared, SendParts};
use crate::spin::Spinner;
use crate::tls::Tls;
use crate::token::{GENERATION_MASK, Token};
use crate::unsent::Unsent;

/// The entries of the submission queue; a turn with more needs further calls.
const SUBMISSIONS_MAX: u32 = 256;

/// The number of queued entries at which a turn first submits to the kernel. The next submission of
/// the turn takes twice as many entries, and so on: the device begins while the rest is still being
/// prepared. A virtual disk that completes a batch as a whole gained 3 to 18 % at depth 32; below
/// 4, the calls cost as much as they gain.
const FIRST_SUBMISSION_LEN: usize = 8;

/// The entries of the completion queue; beyond that, the kernel buffers them more slowly.
const COMPLETIONS_MAX: u32 = 4096;

/// The most completions of one turn, which bounds its duration.
const COMPLETIONS_PER_TURN_MAX: usize = 512;

/// The longest sleep. A core that has not turned for longer than a few of these hangs: the membership of
/// mirrors relies on that.
const SLEEP_MAX: Nanos = Nanos::from_secs(1);

/// The maximum number of messages of one turn.
const MESSAGES_PER_TURN_MAX: usize = 64;

/// The pause of a listener after `accept` has failed (no descriptors left).
const ACCEPT_REST: Nanos = Nanos::from_millis(100);

/// The descriptors that connections leave to the rest of the node: its control socket, its files, its cluster.
const SPARE_DESCRIPTORS: u64 = 64;

/// The time between two notices that a connection could not be accepted.
const ACCEPT_NOTICE_PERIOD: Nanos = Nanos::from_secs(10);

/// Takes the notices of one core, for the application's log.
pub type NoticeSink = Box<dyn FnMut(Notice) + Send>;

/// The error of a reactor that could not start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum StartError {
    /// The kernel or a security policy forbids io_uring.
    #[error(
        "io_uring is not allowed here ({0}): nearflash needs it to reach its devices. In a \
         container, allow the system calls io_uring_setup, io_uring_enter and io_uring_register \
         in its seccomp profile; on a host, set the sysctl kernel.io_uring_disabled to 0"
    )]
    RingForbidden(io::Error),
    /// The kernel's io_uring lacks a required feature.
    #[error("io_uring of this kernel lacks what nearflash needs ({0}): use Linux 6.1 or newer")]
    RingTooOld(io::Error),
    /// The kernel counts the memory of a ring against a limit.
    #[error(
        "cannot lock memory for io_uring ({error}): a core needs about 128KiB, and the limit of locked \
         memory (RLIMIT_MEMLOCK) of this user is {limit}; raise it with LimitMEMLOCK=infinity in the \
         systemd unit, --ulimit memlock=-1 for a container, or 'ulimit -l unlimited' in a shell"
    )]
    LockedMemory { error: io::Error, limit: String },
    /// Any other error.
    #[error("cannot start a core: {0}")]
    Other(#[from] io::Error),
}

/// The configuration of a reactor.
pub struct ReactorConfig {
    /// The origin of time, shared by all cores.
    pub epoch: Epoch,
    /// The size of the buffer pool.
    pub pool_len: ByteLen,
    /// The node's devices; a `DeviceId` is an index into this list.
    pub devices: Vec<Arc<Device>>,
    /// The sockets that accept connections. Only the first core has any.
    pub listeners: Vec<Listener>,
    /// The longest spin of the core before it sleeps; 0 for none.
    pub spin_max: Nanos,
    /// Takes the notices to log.
    pub notices: NoticeSink,
    /// TLS for the listeners that use it, shared by all cores; `None` if no listener does.
    pub tls: Option<Arc<Tls>>,
}

/// The reactor of one core.
pub struct Reactor {
    epoch: Epoch,
    now: Nanos,
    spin_max: Nanos,
    ring: IoUring,
    pool: Pool,
    /// The pool's memory.
    arena: Mapped,
    devices: Devices,
    rings: Rings,
    listeners: Vec<Listener>,
    /// Listeners that pause, and the end of each pause.
    resting: Vec<(usize, Nanos)>,
    /// When a failure to accept may be reported again.
    accept_notice_at: Nanos,
    watches: Vec<Watch>,
    mailbox: Mailbox<Message>,
    /// Every core's mailbox, by its number; empty until [`Reactor::connect`].
    peers: Vec<Sender<Message>>,
    unsent: Unsent<Message>,
    parts: SendParts,
    secured: SecuredTable,
    notices: NoticeSink,
    /// The time before which everything that happened was in the events of an earlier poll, and the same for the
    /// next poll.
    settled_at: (Nanos, Nanos),
    /// The number of queued entries that triggers a submission before the end of the turn.
    submission_len: usize,
}

/// The poll on one socket.
#[derive(Clone, Copy, Debug, Default)]
struct Watch {
    generation: u32,
    armed: Option<Armed>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Armed(u32);

impl Reactor {
    /// Creates a reactor for the calling thread, which must be the one that runs it.
    ///
    /// # Errors
    /// When the ring cannot be created; the message names the remedy.
    pub fn new(config: ReactorConfig) -> Result<Self, StartError> {
        let ring = make_ring()?;
        let fds: Vec<RawFd> = config.devices.iter().map(|d| device_fd(d)).collect();
        if !fds.is_empty() {
            ring.submitter().register_files(&fds).map_err(start_error)?;
        }
        let arena = Mapped::new(Pool::arena_len(config.pool_len))?;
        let mut reactor = Self {
            epoch: config.epoch,
            now: Nanos(0),
            spin_max: config.spin_max,
            ring,
            pool: Pool::over(Box::new(arena.clone()), config.pool_len),
            arena,
            devices: Devices::new(config.devices),
            rings: Rings::default(),
            listeners: config.listeners,
            resting: Vec::new(),
            accept_notice_at: Nanos(0),
            watches: Vec::new(),
            mailbox: Mailbox::new()?,
            peers: Vec::new(),
            unsent: Unsent::default(),
            parts: SendParts::default(),
            secured: SecuredTable::new(config.tls),
            notices: config.notices,
            settled_at: (Nanos(0), Nanos(0)),
            submission_len: FIRST_SUBMISSION_LEN,
        };
        reactor.tick();
        // With a non-blocking listener, the ring would complete the accept with an error instead of
        // waiting for a connection.
        for listener in &reactor.listeners {
            listener.socket.set_blocking()?;
        }
        for index in 0..reactor.listeners.len() {
            reactor.arm_accept(index);
        }
        reactor.arm_wake();
        Ok(reactor)
    }

    /// The sender of this core's mailbox.
    pub fn sender(&self) -> Sender<Message> {
        self.mailbox.sender()
    }

    /// Sets the senders of all cores' mailboxes, by core.
    pub fn connect(&mut self, peers: Vec<Sender<Message>>) {
        self.peers = peers;
    }

    /// Turns until the shard has stopped: works while there is work, spins while more is likely,
    /// and sleeps otherwise.
    pub fn run(&mut self, shard: &mut Shard) {
        let mut spinner = Spinner::new(self.now, self.spin_max);
        while !shard.is_stopped() {
            if shard.turn(self) > 0 {
                spinner.worked(self.now, self.rings.take_neighbour());
            } else if spinner.goes_on(self.now) {
                std::hint::spin_loop();
            } else {
                if spinner.sleeps() {
                    shard.gives_way();
                }
                shard.prepare_to_sleep(self);
                self.sleep(shard.poll_timeout());
            }
        }
    }

    /// Reads the clock, once in each turn.
    fn tick(&mut self) {
        self.now = self.epoch.elapsed();
    }

    /// Waits for a completion, a message or the deadline.
    fn sleep(&mut self, deadline: Option<Nanos>) {
        let rests = self.resting.iter().map(|(_, until)| *until).min();
        let deadline = deadline.into_iter().chain(self.devices.deadline()).chain(rests).min();
        if !self.begin_sleep() {
            return self.end_sleep();
        }
        let span = deadline.map_or(SLEEP_MAX, |at| at.since(self.now).min(SLEEP_MAX));
        let timeout = types::Timespec::from(span.to_duration());
        let args = types::SubmitArgs::new().timespec(&timeout);
        // A time-out, a signal and a completion all end the wait, and the next turn finds the
        // cause.
        let _ = self.ring.submitter().submit_with_args(1, &args);
        self.tick();
        self.end_sleep();
    }

    /// Requests wake-ups from every source. `false` when there is work already.
    fn begin_sleep(&mut self) -> bool {
        while let Some(watch) = self.rings.take_unwatched() {
            self.arm_bell(watch);
        }
        self.unsent.is_empty()
            && self.secured.begin_sleep()
            && self.mailbox.begin_sleep()
            && self.rings.begin_sleep()
    }

    fn end_sleep(&mut self) {
        self.mailbox.end_sleep();
        self.rings.end_sleep();
    }

    /// Submits the queued entries to the kernel when there are enough of them.
    #[inline]
    fn submit_early(&mut self) {
        if self.ring.submission().len() >= self.submission_len {
            self.submission_len *= 2;
            // Entries that cannot be submitted now stay queued for the next turn.
            let _ = self.ring.submit();
        }
    }

    /// Submits the queued entries to the kernel, and lets it post completions.
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
        // SAFETY: no argument is passed, and every queued entry was valid when it was pushed.
        let _ = unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, 0, flags, None) };
    }

    /// Takes completions. Returns whether none is left.
    fn take_completions(&mut self, events: &mut Vec<Event>) -> bool {
        for _ in 0..COMPLETIONS_PER_TURN_MAX {
            let Some(entry) = self.ring.completion().next() else { return true };
            self.take_completion(Token::unpack(entry.user_data()), entry.result(), events);
        }
        false
    }

    #[inline]
    fn take_completion(&mut self, token: Token, result: i32, events: &mut Vec<Event>) {
        match token {
            Token::Device { slot, generation } => {
                let Self { devices, ring, pool, arena, rings, notices, now, .. } = self;
                let result = devices.weighed(slot, result, *now);
                let buffers = Buffers { pool, arena, rings };
                // Only a result without progress can be a fault.
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
                self.rings.rang(RingId(ring), generation);
            }
            Token::Ignored => {}
        }
    }

    fn accepted(&mut self, listener: usize, result: i32, events: &mut Vec<Event>) {
        if listener >= self.listeners.len() {
            return; // no longer listening
        }
        if result < 0 {
            self.accept_failed(&io::Error::from_raw_os_error(-result));
            self.resting.push((listener, self.now.plus(ACCEPT_REST)));
            return;
        }
        self.arm_accept(listener);
        if sockets::leaves_no_spare(result, SPARE_DESCRIPTORS) {
            sockets::close(sockets::socket_id(result));
            return self.accept_failed(&io::Error::from_raw_os_error(libc::EMFILE));
        }
        // A host that has disconnected already has no address, and is dropped.
        let prepared = match self.listeners[listener].socket {
            ListeningSocket::Tcp(_) => sockets::prepare_tcp(result),
            ListeningSocket::Unix(_) => sockets::prepare_unix(result),
        };
        if let Ok(Prepared { fd, peer, local }) = prepared {
            let Listener { door, tls, .. } = self.listeners[listener];
            let socket = sockets::release(fd);
            self.attach(socket);
            self.secured.begin(socket, peer, (door, tls));
            events.push(Event::Accepted { socket, door, peer, local });
        }
    }

    fn accept_failed(&mut self, error: &io::Error) {
        if self.now >= self.accept_notice_at {
            self.accept_notice_at = self.now.plus(ACCEPT_NOTICE_PERIOD);
            (self.notices)(Notice::AcceptFailed(error.to_string()));
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

    fn arm_bell(&mut self, BellWatch { fd, token }: BellWatch) {
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
    /// Waits for the device operations, which write to the pool and to memory of clients: neither
    /// may be freed before they have ended.
    fn drop(&mut self) {
        let mut events = Vec::new();
        while self.devices.in_flight_len() > 0 {
            self.tick();
            let _ = self.ring.submitter().submit_and_wait(1);
            self.take_completions(&mut events);
            while self.devices.take_due(self.now).is_some() {}
        }
        // The kernel tears a ring down asynchronously, and a disk that is still registered is busy
        // until then. Without registered files this call fails, which is harmless.
        let _ = self.ring.submitter().unregister_files();
    }
}

/// Queues an entry; if the queue is full, submits it first.
#[inline]
fn push(ring: &mut IoUring, entry: &Entry) {
    loop {
        // SAFETY: an entry points only to static memory, or to pool buffers and memory lent by
        // clients. The latter stay taken until the operation ends, and their memory is freed after
        // that (by `Reactor::drop` or `detach_ring`).
        if unsafe { ring.submission().push(entry) }.is_ok() {
            return;
        }
        let _ = ring.submit();
    }
}

fn make_ring() -> Result<IoUring, StartError> {
    // One thread submits and waits, and asks for completions when it wants them: the kernel does
    // not interrupt it, and processes completions in batches.
    let built = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all()
        .setup_cqsize(COMPLETIONS_MAX)
        .build(SUBMISSIONS_MAX);
    let ring = built.map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => StartError::RingTooOld(error),
        _ => start_error(error),
    })?;
    // A security policy may forbid this call alone. A core that cannot enter its ring answers nobody.
    ring.submit().map_err(start_error)?;
    Ok(ring)
}

/// The reason why the kernel refuses a call of io_uring.
fn start_error(error: io::Error) -> StartError {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => StartError::RingForbidden(error),
        Some(libc::ENOMEM) => StartError::LockedMemory { error, limit: limit_text() },
        _ => StartError::Other(error),
    }
}

/// The soft limit of locked memory.
fn limit_text() -> String {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    limit.map_or_else(|| "unlimited".to_owned(), |bytes| ByteLen(bytes).to_string())
}

/// The descriptor to register for a device, or -1, which leaves a gap for a device without one.
fn device_fd(device: &Device) -> RawFd {
    match device.kind() {
        Kind::Uring(file) => file.fd().as_raw_fd(),
        Kind::Ram(_) | Kind::Null(_) | Kind::Model(_) | Kind::Remote => -1,
    }
}

#[expect(clippy::cast_sign_loss, reason = "poll bits are positive")]
fn poll_bits(events: libc::c_short) -> u32 {
    events as u32
}

fn index(raw: u32) -> usize {
    usize::try_from(raw).expect("usize is at least 32 bits wide")
}

/// Whether the operator must learn of a device's result; an unsupported operation is not a fault.
fn is_fault(result: DeviceResult) -> bool {
    match result {
        DeviceResult::Done
        | DeviceResult::Mapped(_)
        | DeviceResult::Unmapped(_)
        | DeviceResult::Unsupported
        | DeviceResult::Remote(_) => false,
        DeviceResult::NoSpace
        | DeviceResult::MediumError
        | DeviceResult::WornOut
        | DeviceResult::Gone => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_locked_memory_is_named_with_how_to_raise_it() {
        let message = start_error(io::Error::from_raw_os_error(libc::ENOMEM)).to_string();
        for part in ["RLIMIT_MEMLOCK", "LimitMEMLOCK=infinity", "--ulimit memlock=-1", "ulimit -l"]
        {
            assert!(message.contains(part), "{message} names {part}");
        }
        assert!(!message.contains('\n'));
    }
}
