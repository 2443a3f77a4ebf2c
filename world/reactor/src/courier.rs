//! The control side's messages to the cores, whose mailboxes are bounded.
//!
//! No message may be lost. A core that missed a publication would serve volumes, rights and
//! reservations that are no longer in force, and nothing would correct it. An answer ends a command
//! of a session, and nothing else ends it. Therefore a message that finds a mailbox full waits here,
//! behind those before it, and a thread delivers it. A core empties its mailbox in each turn, so a
//! mailbox is full for microseconds as a rule.
//!
//! Publications wait in the [`Publisher`], which merges them, unless another message follows that may
//! rely on them. Other messages are bounded by what sessions and mirrors have under way. Only leases
//! of mirrors come again and again; one that finds no room is dropped, because the next one is longer.
//!
//! A core that has no room for a message, or does not show a publication, for long is silent:
//! [`nearflash_publish::SILENT_AFTER`]. Announcements stop waiting for it, and calls of the control socket fail and name it.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nearflash_engine::CoreId;
use nearflash_mirror::Core;
use nearflash_publish::{Publisher, Served};
use nearflash_request::{Raised, VolumeId};
use nearflash_shard::Message;
use nearflash_units::Nanos;

use crate::mailbox::Sender;
use crate::ticket::Ticket;

/// The time between two attempts to put a message into a full mailbox.
const FULL_PAUSE: Duration = Duration::from_micros(100);

/// A bounded mailbox.
pub trait Mailbox {
    /// Puts a message in, or returns it because the mailbox is full.
    fn put(&self, message: Message) -> Result<(), Message>;
}

impl<M: Mailbox + ?Sized> Mailbox for Box<M> {
    fn put(&self, message: Message) -> Result<(), Message> {
        (**self).put(message)
    }
}

impl Mailbox for Sender<Message> {
    fn put(&self, message: Message) -> Result<(), Message> {
        self.send(message)
    }
}

/// The messages to all cores.
pub struct Courier<B> {
    /// The mailboxes, in the order of the cores, once these serve.
    mailboxes: OnceLock<Vec<B>>,
    /// The processors of the cores, which name them.
    processors: Vec<usize>,
    /// Is told the processor of a core that has become silent.
    report: fn(usize),
    /// The time after which a core is silent.
    silent_after: Nanos,
    start: Instant,
    state: Mutex<State>,
    /// Signals that a message waits, or the end.
    waits: Condvar,
    /// Signals that a core has shown a publication, or the end.
    shown: Condvar,
}

struct State {
    publisher: Publisher,
    /// The state that was published last.
    served: Arc<Served>,
    queues: Vec<Queue>,
    /// The tickets that are not over, by the number of their publication.
    tickets: HashMap<u64, Ticket>,
    has_ended: bool,
}

/// The messages for a core that have found its mailbox full.
#[derive(Default)]
struct Queue {
    messages: VecDeque<Message>,
    full_since: Option<Nanos>,
    is_reported: bool,
}

impl<B: Mailbox> Courier<B> {
    /// A courier for the cores on these processors, which start with this state. `report` is told the processor
    /// of a core that takes no messages for so long.
    pub fn new(
        processors: &[usize],
        served: Arc<Served>,
        silent_after: Nanos,
        report: fn(usize),
    ) -> Self {
        let cores = u16::try_from(processors.len()).unwrap_or(u16::MAX);
        let state = State {
            publisher: Publisher::new(cores, silent_after),
            served,
            queues: processors.iter().map(|_| Queue::default()).collect(),
            tickets: HashMap::new(),
            has_ended: false,
        };
        Self {
            mailboxes: OnceLock::new(),
            processors: processors.to_vec(),
            report,
            silent_after,
            start: Instant::now(),
            state: Mutex::new(state),
            waits: Condvar::new(),
            shown: Condvar::new(),
        }
    }

    /// The cores serve, and have these mailboxes.
    pub fn connect(&self, mailboxes: Vec<B>) {
        // It happens once.
        let _ = self.mailboxes.set(mailboxes);
    }

    /// The number of cores.
    pub fn len(&self) -> usize {
        self.processors.len()
    }

    /// The processor of a core that is silent.
    pub fn silent(&self) -> Option<usize> {
        let (state, now) = (self.lock(), self.now());
        let is_full = |queue: &Queue| queue.is_late(now, self.silent_after);
        let full = state.queues.iter().position(is_full);
        let silent = full.or_else(|| state.publisher.silent().map(|core| usize::from(core.0)));
        silent.map(|core| self.processors[core])
    }

    /// Sends a message to a core.
    pub fn send(&self, core: usize, message: Message) {
        let mut state = self.lock();
        let State { publisher, queues, .. } = &mut *state;
        // The message may rely on what was published before it.
        let publication = publisher.poll(number_of(core), self.now()).map(Message::Serve);
        queues[core].messages.extend(publication.into_iter().chain([message]));
        self.deliver(&mut state, core);
    }

    /// Sends a message to every core.
    pub fn send_all(&self, message: impl Fn() -> Message) {
        (0..self.len()).for_each(|core| self.send(core, message()));
    }

    /// Sends a message to a core. Returns `false` if the core has no room for it.
    pub fn offer(&self, core: usize, message: Message) -> bool {
        let state = self.lock();
        state.queues[core].messages.is_empty() && self.mailboxes()[core].put(message).is_ok()
    }

    /// The state that was published last.
    pub fn served(&self) -> Arc<Served> {
        Arc::clone(&self.lock().served)
    }

    /// Publishes a new state. Returns when every core that is not silent serves by it. The ticket is over when
    /// the older requests have ended on every core.
    pub fn publish(&self, served: Served, raised: Vec<Raised>, quiesce: Vec<VolumeId>) -> Ticket {
        let mut state = self.lock();
        if state.has_ended {
            return Ticket::over();
        }
        // The former state stays here until the cores have the new one, so no core frees it.
        let former = mem::replace(&mut state.served, Arc::new(served));
        let served = Arc::clone(&state.served);
        let number = state.publisher.publish(served, raised, quiesce);
        let ticket = Ticket::waiting(1);
        state.tickets.insert(number, ticket.clone());
        (0..self.len()).for_each(|core| self.deliver(&mut state, core));
        while !state.publisher.is_shown(number) && !state.has_ended {
            let left = state.publisher.poll_timeout().map(|at| at.since(self.now()));
            let left = Duration::from_nanos(left.map_or(u64::MAX, |left| left.0));
            let waited = self.shown.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.publisher.handle_timeout(self.now());
            // The first core need not wait for a silent one.
            self.deliver(&mut state, usize::from(CoreId::FIRST.0));
        }
        drop((state, former));
        ticket
    }

    /// A core serves by a publication.
    pub fn handle_shown(&self, core: CoreId, number: u64) {
        let mut state = self.lock();
        state.publisher.handle_shown(Core(core.0), number, self.now());
        (0..self.len()).for_each(|core| self.deliver(&mut state, core));
        drop(state);
        self.shown.notify_all();
    }

    /// The requests of a core that are older than a publication have ended.
    pub fn handle_quiesced(&self, core: CoreId, number: u64) {
        let mut state = self.lock();
        let State { publisher, tickets, .. } = &mut *state;
        publisher.handle_quiesced(Core(core.0), number);
        let over = std::iter::from_fn(|| publisher.poll_over());
        let over: Vec<Ticket> = over.filter_map(|number| tickets.remove(&number)).collect();
        drop(state);
        over.iter().for_each(Ticket::settle);
    }

    /// Delivers what waits, until [`Self::end`].
    pub fn run(&self) {
        let mut state = self.lock();
        while !state.has_ended {
            (0..self.len()).for_each(|core| self.deliver(&mut state, core));
            let is_idle = state.queues.iter().all(|queue| queue.full_since.is_none());
            let pause = if is_idle { Duration::MAX } else { FULL_PAUSE };
            let waited = self.waits.wait_timeout(state, pause);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The cores have ended. Nobody waits for them any more.
    pub fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        let tickets = mem::take(&mut state.tickets);
        drop(state);
        self.waits.notify_all();
        self.shown.notify_all();
        tickets.values().for_each(Ticket::end);
    }

    /// Puts what waits for a core into its mailbox, as far as there is room: its publication last, so that
    /// later ones merge with it for as long as others wait.
    fn deliver(&self, state: &mut State, core: usize) {
        let (now, mailbox) = (self.now(), &self.mailboxes()[core]);
        let number = number_of(core);
        let State { publisher, queues, .. } = state;
        let queue = &mut queues[core];
        let was_full = queue.full_since.is_some();
        let mut is_full = queue.send(mailbox);
        if publisher.is_due(number, now) && !is_full {
            queue.messages.extend(publisher.poll(number, now).map(Message::Serve));
            is_full = queue.send(mailbox);
        }
        if !is_full {
            (queue.full_since, queue.is_reported) = (None, false);
            return;
        }
        queue.full_since.get_or_insert(now);
        if !was_full {
            self.waits.notify_all();
        }
        if queue.is_late(now, self.silent_after) && !mem::replace(&mut queue.is_reported, true) {
            (self.report)(self.processors[core]);
        }
    }

    fn mailboxes(&self) -> &[B] {
        self.mailboxes.get().expect("messages are sent once the cores serve")
    }

    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while the lock is held, and if it did, the state would still be consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn number_of(core: usize) -> Core {
    Core(u16::try_from(core).unwrap_or(u16::MAX))
}

impl Queue {
    /// Sends the messages in their order. Returns whether the mailbox is full.
    fn send(&mut self, mailbox: &impl Mailbox) -> bool {
        while let Some(message) = self.messages.pop_front() {
            if let Err(unsent) = mailbox.put(message) {
                self.messages.push_front(unsent);
                return true;
            }
        }
        false
    }

    fn is_late(&self, now: Nanos, patience: Nanos) -> bool {
        self.full_since.is_some_and(|since| now.since(since) >= patience)
    }
}

#[cfg(test)]
mod tests {
    use nearflash_publish::SILENT_AFTER;

    use super::*;

    /// A mailbox with room for one message.
    #[derive(Default)]
    struct Small(Mutex<Option<Message>>);

    impl Small {
        fn take(&self) -> Option<Message> {
            self.0.lock().unwrap().take()
        }

        /// The number of the publication in it.
        fn publication(&self) -> Option<u64> {
            match self.take()? {
                Message::Serve(publication) => Some(publication.number),
                other => panic!("{other:?} is no publication"),
            }
        }

        fn has_drain(&self) -> bool {
            matches!(self.take(), Some(Message::Drain))
        }
    }

    impl Mailbox for Arc<Small> {
        fn put(&self, message: Message) -> Result<(), Message> {
            let mut held = self.0.lock().unwrap();
            if held.is_some() {
                return Err(message);
            }
            *held = Some(message);
            Ok(())
        }
    }

    type Bench = (Arc<Courier<Arc<Small>>>, [Arc<Small>; 2]);

    fn bench() -> Bench {
        let (courier, small) = (
            Courier::new(&[4, 6], Arc::default(), SILENT_AFTER, |_| ()),
            <[Arc<Small>; 2]>::default(),
        );
        courier.connect(small.to_vec());
        (Arc::new(courier), small)
    }

    /// Ends the courier also when an assertion fails, so that its threads end.
    struct End<'a>(&'a Courier<Arc<Small>>);

    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.end();
        }
    }

    fn until<T>(get: impl Fn() -> Option<T>) -> T {
        loop {
            match get() {
                Some(it) => return it,
                None => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn a_message_that_finds_no_room_delays_neither_its_sender_nor_other_cores() {
        let (courier, [first, other]) = bench();
        courier.send(0, Message::Stop);
        courier.send_all(|| Message::Drain);
        assert!(!courier.offer(0, Message::Drain), "it is not asked what waits for room");
        assert!(other.has_drain());
        std::thread::scope(|scope| {
            let _end = End(&courier);
            scope.spawn(|| courier.run());
            assert!(matches!(first.take(), Some(Message::Stop)));
            assert!(until(|| first.take().map(|it| matches!(it, Message::Drain))));
        });
    }

    #[test]
    fn a_publication_returns_when_every_core_has_shown_it_and_is_over_when_they_say_so() {
        let (courier, [first, other]) = bench();
        std::thread::scope(|scope| {
            let _end = End(&courier);
            let publish = || courier.publish(Served::default(), Vec::new(), Vec::new());
            let published = scope.spawn(publish);
            let number = until(|| other.publication());
            assert!(first.take().is_none(), "the first core is last");
            courier.handle_shown(CoreId(1), number);
            assert_eq!(first.publication(), Some(number));
            courier.handle_quiesced(CoreId(1), number);
            assert!(!published.is_finished());
            courier.handle_shown(CoreId(0), number);
            let ticket = published.join().unwrap();
            assert!(!ticket.is_over());
            courier.handle_quiesced(CoreId(0), number);
            assert!(ticket.is_over());
        });
    }

    #[test]
    fn publications_behind_one_that_waits_for_room_become_one() {
        let (courier, [first, other]) = bench();
        courier.send(1, Message::Drain);
        let publish =
            |volume| courier.publish(Served::default(), Vec::new(), vec![VolumeId(volume)]);
        std::thread::scope(|scope| {
            let _end = End(&courier);
            let published = [1, 2, 3].map(|volume| scope.spawn(move || publish(volume)));
            until(|| (courier.lock().tickets.len() == 3).then_some(()));
            scope.spawn(|| courier.run());
            assert!(other.has_drain());
            for number in [1, 3] {
                assert_eq!(until(|| other.publication()), number);
                courier.handle_shown(CoreId(1), number);
                courier.handle_quiesced(CoreId(1), number);
                assert_eq!(until(|| first.publication()), number);
                courier.handle_shown(CoreId(0), number);
                courier.handle_quiesced(CoreId(0), number);
            }
            assert!(published.into_iter().all(|it| it.join().unwrap().is_over()));
        });
    }

    #[test]
    fn a_message_comes_after_what_was_published_before_it() {
        let (courier, [_, other]) = bench();
        courier.send(1, Message::Drain);
        std::thread::scope(|scope| {
            let _end = End(&courier);
            scope.spawn(|| courier.publish(Served::default(), Vec::new(), Vec::new()));
            until(|| (courier.lock().tickets.len() == 1).then_some(()));
            courier.send(1, Message::Stop);
            scope.spawn(|| courier.run());
            assert!(other.has_drain());
            assert_eq!(until(|| other.publication()), 1);
            assert!(matches!(until(|| other.take()), Message::Stop));
        });
    }

    #[test]
    fn cores_that_have_ended_are_not_waited_for() {
        let (courier, [_, other]) = bench();
        std::thread::scope(|scope| {
            let published =
                scope.spawn(|| courier.publish(Served::default(), Vec::new(), Vec::new()));
            until(|| other.take());
            courier.end();
            assert!(published.join().unwrap().is_over());
        });
        assert!(courier.publish(Served::default(), Vec::new(), Vec::new()).is_over());
    }
}
