//! The engine of one core: takes requests, emits device operations, takes their results, and emits
//! answers.
//!
//! Invariants: every request is answered exactly once; a write's buffers return to the pool with
//! its answer; a read's buffer passes to the owner with a successful answer and to the pool
//! otherwise; a request is answered only after all of its device operations have ended.

use std::collections::VecDeque;
use std::sync::Arc;

use nearflash_device::{
    Cause, DeviceProperties, DeviceRequest, DeviceResult, Health, OperationId, Owner,
};
use nearflash_layout::{IoId, Layout};
use nearflash_request::{
    Access, BlockRange, BufferId, Completion, Due, Nexus, Operation, Outcome, Payload, Request,
    VolumeId,
};
use nearflash_space::{Sharing, VolumeEntry, VolumeTable};
use nearflash_units::{Blocks, ByteLen, Nanos, index};
use slab::Slab;

use crate::accounts::{AccountId, Accounts};
use crate::admission::{Admission, Asker, Grant, Taken, Verdict, Waiting, Want};
use crate::change::Part;
use crate::edges::Edges;
use crate::fence::{Arbiter, CoreId, FenceId, FenceMessage, Fenced, Holds, Outbox};
use crate::job::Job;
use crate::meters::{Meters, Opened};
use crate::need::{Spare, brings_payload};
use crate::pool::Pool;
use crate::stamp::TraceId;
use crate::trace::{Moment, TraceOrder, Traced, Tracer};
use crate::waits::{Older, Waits, volumes_of};

/// An answer to a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Answer {
    /// The connection that sent the request.
    pub owner: Owner,
    /// The result of the request.
    pub completion: Completion,
    /// Pool bytes charged to the owner that are free again: all of the request's, unless the
    /// completion hands over a buffer.
    pub returned: ByteLen,
    /// The request's need was `Need::Scratch`.
    pub had_scratch: bool,
    /// The request brought payload.
    pub had_payload: bool,
    /// The record of the request, if it is traced.
    pub trace: TraceId,
}

/// The configuration of an engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The core that the engine runs on.
    pub core: CoreId,
    /// The number of cores of the node.
    pub core_count: u16,
    /// The node's devices, by [`nearflash_device::DeviceId`].
    pub devices: Arc<[DeviceProperties]>,
    /// The health of each device, by the same number. All cores share it.
    pub health: Arc<[Arc<Health>]>,
    /// The node's volumes.
    pub volumes: Arc<VolumeTable>,
    /// The maximum number of requests of this core that a device has at a time:
    /// [`crate::DEVICE_DEPTH`].
    pub device_depth: u32,
}

/// One core's engine.
#[derive(Debug)]
pub struct Engine {
    core: CoreId,
    /// The clock, as it was read last.
    pub(crate) clock: Nanos,
    pub(crate) volumes: Arc<VolumeTable>,
    pub(crate) layout: Layout,
    waits: Waits,
    pub(crate) meters: Meters,
    pub(crate) tracer: Tracer,
    pub(crate) jobs: Slab<Job>,
    pub(crate) admission: Admission,
    pub(crate) holds: Holds,
    arbiter: Option<Arbiter>,
    answers: VecDeque<Answer>,
    pub(crate) fence_messages: Outbox,
    /// A spare scratch buffer.
    pub(crate) spare: Spare,
    pub(crate) edges: Edges,
    devices: Arc<[DeviceProperties]>,
}

impl Engine {
    /// An engine without requests. Takes one largest buffer of the pool as its reserve, and a short one if a
    /// device has large blocks.
    ///
    /// # Panics
    /// When the pool is too short to leave a free buffer of [`Pool::LEN_MAX`]. A transfer of that length would
    /// wait forever.
    pub fn new(config: EngineConfig, pool: &mut Pool) -> Self {
        let is_arbiter = config.core == CoreId::FIRST;
        let spare = Spare::new(Pool::LEN_MAX, pool);
        let edges = Edges::new(&config.volumes, &config.devices, pool);
        assert!(pool.has_free(Pool::LEN_MAX), "{} bytes are too few for a pool", pool.free_len().0);
        let admission = Admission::new(config.device_depth, config.devices.len(), pool);
        Self {
            core: config.core,
            clock: Nanos(0),
            layout: Layout::new(config.devices.clone(), config.health, config.volumes.clone()),
            devices: config.devices,
            volumes: config.volumes,
            waits: Waits::default(),
            meters: Meters::default(),
            tracer: Tracer::default(),
            jobs: Slab::new(),
            admission,
            holds: Holds::default(),
            arbiter: is_arbiter.then(|| Arbiter::new(config.core_count)),
            answers: VecDeque::new(),
            fence_messages: VecDeque::new(),
            spare,
            edges,
        }
    }

    /// Replaces the volumes. Requests in flight keep the layout that they began with. Returns the
    /// volumes whose entries differ from before.
    pub fn set_volumes(&mut self, volumes: Arc<VolumeTable>) -> Box<[VolumeId]> {
        let changed = volumes.changed_since(&self.volumes);
        self.layout.set_volumes(volumes.clone());
        self.edges.set(&volumes, &self.devices);
        self.meters.keep(&volumes);
        self.admission.accounts.forget_meters();
        self.volumes = volumes;
        self.admission.note_change();
        changed
    }

    /// Replaces the devices by the same ones and further ones, which are volumes of other nodes: no
    /// volume on them has smaller blocks, so none of them needs a buffer for edges.
    ///
    /// # Panics
    /// When there are fewer devices than before.
    pub fn set_devices(&mut self, devices: Arc<[DeviceProperties]>, health: Arc<[Arc<Health>]>) {
        self.layout.set_devices(devices.clone(), health);
        self.admission.set_device_count(devices.len());
        self.edges.set(&self.volumes, &devices);
        self.devices = devices;
    }

    /// Reserves parts of the pool for the requests of other nodes.
    pub fn reserve_for_faces(&mut self, pool: &mut Pool) {
        self.admission.note_reserved(pool.reserve());
    }

    /// Waits until these requests have ended; [`Self::poll_over`] then returns `number`.
    pub fn await_older(&mut self, number: u64, older: Older) {
        let Self { waits, jobs, admission, .. } = self;
        waits.begin(number, older, |older| {
            let begun = jobs.iter().filter(|(_, job)| older.counts_begun(job.volumes())).count();
            let volumes = |it: &Request| volumes_of(it.volume, &it.operation);
            begun + admission.count(|request| older.counts_came(volumes(request)))
        });
    }

    /// The number of a wait that is over.
    #[inline]
    pub fn poll_over(&mut self) -> Option<u64> {
        self.waits.poll_over()
    }

    /// The core that the engine runs on.
    pub fn core(&self) -> CoreId {
        self.core
    }

    /// The number of requests in flight, including those that wait to begin.
    pub fn jobs_len(&self) -> usize {
        self.jobs.len() + self.admission.len()
    }

    /// The pool bytes that each connection holds.
    #[inline]
    pub fn accounts(&mut self) -> &mut Accounts {
        &mut self.admission.accounts
    }

    /// Takes a request. [`Self::poll_answer`] returns its answer, possibly at once.
    #[inline]
    pub fn submit(&mut self, asker: Asker, request: Request, pool: &mut Pool) {
        self.submit_traced(asker, request, TraceId::NONE, pool);
    }

    /// Takes a request that may have a record: [`Self::trace`].
    #[inline]
    pub fn submit_traced(
        &mut self,
        asker: Asker,
        request: Request,
        trace: TraceId,
        pool: &mut Pool,
    ) {
        let came = self.waits.generation();
        let accounts = &mut self.admission.accounts;
        let stamp = self.meters.stamp(accounts, (asker.account, &request), &self.volumes, trace);
        if trace.is_some() {
            self.tracer.host(trace, stamp.meter);
        }
        if brings_payload(&request.operation) {
            accounts.note_payload(asker.account);
        }
        let waiting = Waiting { asker, request, came, stamp };
        if !self.admission.is_idle() {
            return self.enqueue(waiting);
        }
        match self.judge(&waiting, false, pool) {
            Verdict::Begins(taken) => self.begin_admitted(waiting, taken, pool),
            Verdict::Ends(outcome) => self.end_unbegun(waiting, outcome, pool),
            Verdict::Waits | Verdict::NoRoom(_) | Verdict::GivesWay => self.enqueue(waiting),
        }
    }

    /// Begins an admitted request with the buffers that were taken for it.
    #[inline]
    pub(crate) fn begin_admitted(&mut self, waiting: Waiting, taken: Taken, pool: &mut Pool) {
        if waiting.stamp.trace.is_some() {
            self.tracer.mark(waiting.stamp.trace, Moment::Admitted);
        }
        let job = self.jobs.insert(Job::new(waiting, self.waits.generation(), taken, pool));
        self.begin(job, pool);
    }

    /// Answers a request that has not begun.
    pub(crate) fn end_unbegun(&mut self, waiting: Waiting, outcome: Outcome, pool: &mut Pool) {
        let taken = Taken::NOTHING;
        let job = self.jobs.insert(Job::new(waiting, self.waits.generation(), taken, pool));
        self.end(job, outcome, pool);
    }

    /// Sets the time, once in each turn, before results are handed in.
    #[inline]
    pub fn set_now(&mut self, now: Nanos) {
        self.meters.now = now;
        self.clock = now;
        self.tracer.begin_turn(now);
        self.layout.set_now(now);
    }

    /// The clock was read again within the turn.
    #[inline]
    pub fn set_clock(&mut self, now: Nanos) {
        self.clock = now;
    }

    /// The clock, as it was read last.
    #[inline]
    pub fn clock(&self) -> Nanos {
        self.clock
    }

    /// Takes the result of a device operation.
    #[inline]
    pub fn handle_device(&mut self, id: OperationId, result: DeviceResult, pool: &mut Pool) {
        let mut ended = self.layout.handle_device(id, result);
        while let Some((io, result)) = ended {
            self.end_io(index(io.0), result, pool);
            ended = self.layout.poll_ended();
        }
    }

    /// Whether an IO waits for operations of other cores. If so, [`Self::resume`] must be called to
    /// check them.
    #[inline]
    pub fn awaits_others(&self) -> bool {
        self.layout.awaits_others()
    }

    /// Takes a message about a fence.
    pub fn handle_fence(&mut self, message: FenceMessage, pool: &mut Pool) {
        match message {
            FenceMessage::Acquire(fence, fenced) => {
                self.arbitrate(|arbiter, out| arbiter.acquire(fence, fenced, out));
            }
            FenceMessage::Held(fence) => self.arbitrate(|arbiter, out| arbiter.held(fence, out)),
            FenceMessage::Release(fence) => {
                self.arbitrate(|arbiter, out| arbiter.release(fence, out));
            }
            FenceMessage::Hold(fence, fenced) => {
                self.holds.add(fence, fenced);
                self.answer_holds();
            }
            FenceMessage::Granted(fence) => {
                self.start_work(index(fence.job), pool);
            }
            FenceMessage::Lift(fence) => {
                self.holds.lift(fence);
                self.admission.note_change();
                self.resume(pool);
            }
        }
    }

    /// Ends IOs whose awaited operations of other cores have ended, and begins waiting requests
    /// that can begin now. Call it after requests have ended and buffers have come back.
    #[inline]
    pub fn resume(&mut self, pool: &mut Pool) {
        if self.awaits_others() {
            self.layout.prove();
            while let Some((io, result)) = self.layout.poll_ended() {
                self.end_io(index(io.0), result, pool);
            }
        }
        if !self.admission.is_idle() {
            self.admit(pool);
        }
    }

    /// The next device operation to submit, and the request that it is for: [`Cause::NONE`] for a flush
    /// that several requests share.
    #[inline]
    pub fn poll_device(&mut self) -> Option<(DeviceRequest, Cause)> {
        self.layout.poll_device()
    }

    /// The device operation that is submitted next, if it is on blocks.
    #[inline]
    pub fn peek_device(&self) -> Option<&DeviceRequest> {
        self.layout.peek_device()
    }

    /// The next answer.
    #[inline]
    pub fn poll_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// The next message about a fence, and its receiving core (possibly this one).
    #[inline]
    pub fn poll_fence(&mut self) -> Option<(CoreId, FenceMessage)> {
        self.fence_messages.pop_front()
    }

    /// The next meter that was opened. Poll this before the answers, so that the meter of an answer
    /// is always known.
    #[inline]
    pub fn poll_opened(&mut self) -> Option<Opened> {
        self.meters.poll_opened()
    }

    /// Takes a buffer for payload and charges it to the connection, if nothing waits and one is
    /// free.
    #[inline]
    pub fn take_for_payload(
        &mut self,
        account: AccountId,
        due: Due,
        len: ByteLen,
        pool: &mut Pool,
    ) -> Option<BufferId> {
        self.admission.take_for_payload(account, due, len, pool)
    }

    /// Queues a want until its turn. A connection has at most one want for each [`Due`].
    pub fn want(&mut self, asker: Asker, want: Want) {
        self.admission.want(asker, want);
    }

    /// The next want that has ended.
    #[inline]
    pub fn poll_grant(&mut self) -> Option<Grant> {
        self.admission.poll_grant()
    }

    /// Drops the wants of a connection.
    pub fn withdraw(&mut self, owner: Owner, pool: &mut Pool) {
        self.admission.withdraw(owner, pool);
    }

    /// The tracer, for the driver.
    #[inline]
    pub fn tracer(&mut self) -> &mut Tracer {
        &mut self.tracer
    }

    /// Begins to trace. An earlier trace is dropped.
    pub fn begin_trace(&mut self, order: TraceOrder) {
        self.tracer.begin(order);
    }

    /// Ends the trace, and returns its records.
    pub fn end_trace(&mut self) -> Traced {
        let records = self.tracer.end();
        let hosts = if records.is_empty() { Vec::new() } else { self.meters.hosts() };
        Traced { records, hosts }
    }

    /// Begins the record of a request that [`Tracer::is_due`], of a connection with this number of its protocol.
    /// The request is decoded now.
    #[cold]
    pub fn trace(&mut self, from: (Owner, u8), request: &Request) -> TraceId {
        let entry = self.volumes.get(request.volume);
        let len = entry.and_then(|entry| entry.block_size.len(request.range.count));
        self.tracer.decoded(from, request, len.unwrap_or_default(), self.jobs_len())
    }

    /// A device or another node has got an operation. A flush that several requests share is of none of them.
    #[cold]
    pub fn trace_submission(&mut self, request: &DeviceRequest) {
        if let Some(job) = self.jobs.get(index(request.id.io)) {
            self.tracer.submitted(job.stamp.trace);
        }
    }

    /// Whether an operation is for a traced request.
    #[inline]
    pub fn is_traced(&self, request: &DeviceRequest) -> bool {
        let job = self.jobs.get(index(request.id.io));
        job.is_some_and(|job| job.stamp.trace.is_some())
    }

    /// The outcome of a request that cannot begin; `None` if it can.
    pub(crate) fn refusal(
        &self,
        entry: Option<&VolumeEntry>,
        nexus: Nexus,
        request: &Request,
    ) -> Option<Outcome> {
        let Some(entry) = entry else { return Some(Outcome::VolumeGone) };
        if let Some(restriction) = &entry.restriction
            && let Some(refusal) = restriction.refusal(nexus, request.operation.access())
        {
            return Some(refusal);
        }
        let is_forwarded_part = entry.sharing == Sharing::Forwarded
            && matches!(request.operation, Operation::WriteBytes { .. });
        if !is_forwarded_part && !entry.sharing.support().has(&request.operation) {
            return Some(Outcome::Unsupported);
        }
        if let Operation::Copy { source, from } = request.operation
            && let Some(refusal) = self.refusal_of_source(nexus, source, from, request)
        {
            return Some(refusal);
        }
        let fits = |range: &BlockRange| entry.blocks.contains(range.start, range.count);
        let in_range = match &request.operation {
            Operation::Flush | Operation::Admit(_) => true,
            Operation::Allocation => fits(&request.range) && request.range.count != Blocks(0),
            Operation::Deallocate { ranges, .. } => ranges.iter().all(fits),
            Operation::WriteBytes { skip, len, .. } => {
                let part = Part { skip: *skip, len: *len };
                let range_len = entry.block_size.len(request.range.count);
                fits(&request.range)
                    && range_len.is_some_and(|range_len| part.fits(entry.block_size, range_len))
            }
            Operation::CompareAndSwap { word, .. } | Operation::FetchAdd { word, .. } => {
                let lies_in_block = word % 8 == 0 && *word < entry.block_size.bytes();
                fits(&request.range) && request.range.count == Blocks(1) && lies_in_block
            }
            _ => fits(&request.range),
        };
        (!in_range).then_some(Outcome::OutOfRange)
    }

    /// The outcome of a copy whose source does not permit it; `None` if it does.
    fn refusal_of_source(
        &self,
        nexus: Nexus,
        source: VolumeId,
        from: BlockRange,
        request: &Request,
    ) -> Option<Outcome> {
        let Some(entry) = self.volumes.get(source) else { return Some(Outcome::VolumeGone) };
        if let Some(restriction) = &entry.restriction
            && let Some(refusal) = restriction.refusal(nexus, Access::Read)
        {
            return Some(refusal);
        }
        let destination = self.volumes.get(request.volume)?;
        let len = entry.block_size.len(from.count);
        let is_as_long = len.is_some_and(|len| {
            len <= Pool::LEN_MAX && Some(len) == destination.block_size.len(request.range.count)
        });
        let is_there = entry.blocks.contains(from.start, from.count);
        (!is_as_long || !is_there).then_some(Outcome::OutOfRange)
    }

    /// Answers a job and releases everything that it holds.
    #[inline]
    pub(crate) fn end(&mut self, index: usize, outcome: Outcome, pool: &mut Pool) {
        let job = self.jobs.remove(index);
        assert!(!self.layout.is_busy(io_of(index)), "nothing is answered before its IO has ended");
        self.waits.ended(job.volumes(), job.age);
        self.admission.note_end(&job.devices);
        self.meters.note_answer(&job, outcome, &self.volumes);
        let mut returned = job.charge;
        let is_read = matches!(job.operation, Operation::Read | Operation::ReadInto { .. });
        let mut payload = match job.buffer {
            Some(buffer) if is_read && outcome == Outcome::Success => {
                returned = ByteLen(0);
                Payload::Buffer(buffer)
            }
            None if is_read && outcome == Outcome::Success => Payload::Zeroes,
            Some(buffer) => {
                pool.give_back(buffer);
                Payload::None
            }
            None => Payload::None,
        };
        match (&job.operation, outcome) {
            (_, Outcome::Success | Outcome::Miscompare) if job.is_atomic() => {
                payload = Payload::Word(job.found);
            }
            (_, Outcome::Miscompare) => payload = Payload::Differs(job.found),
            (Operation::Allocation, Outcome::Success) => {
                payload = Payload::Allocation { mapped: job.mapped, blocks: Blocks(job.found) };
            }
            _ => {}
        }
        if let Some(compare) = job.compare {
            pool.give_back(compare);
        }
        if let Some(scratch) = job.scratch {
            self.spare.give_back(scratch, pool);
        }
        if let Some(edges) = job.edges {
            self.edges.give_back(edges, pool);
        }
        let completion = Completion { tag: job.cause.tag, outcome, payload };
        let had_scratch = job.needs_scratch;
        let had_payload = !is_read && (job.buffer.is_some() || job.compare.is_some());
        let owner = job.cause.owner;
        let trace = job.stamp.trace;
        let answer = Answer { owner, completion, returned, had_scratch, had_payload, trace };
        self.answers.push_back(answer);
        if job.fenced {
            let release = FenceMessage::Release(self.fence_of(index));
            self.fence_messages.push_back((CoreId::FIRST, release));
        }
        if !self.holds.is_empty() && job.writes() {
            self.answer_holds();
        }
    }

    fn answer_holds(&mut self) {
        let (jobs, core) = (&self.jobs, self.core);
        let busy = |fence: &FenceId, fenced: &Fenced| {
            jobs.iter()
                .any(|(index, job)| *fence != fence_id(core, index) && job.is_writing_in(fenced))
        };
        self.holds.answer_quiet(busy, &mut self.fence_messages);
    }

    fn arbitrate(&mut self, act: impl FnOnce(&mut Arbiter, &mut Outbox)) {
        let arbiter = self.arbiter.as_mut().expect("such messages are sent to the first core");
        act(arbiter, &mut self.fence_messages);
    }

    pub(crate) fn fence_of(&self, index: usize) -> FenceId {
        fence_id(self.core, index)
    }
}

fn fence_id(core: CoreId, index: usize) -> FenceId {
    FenceId { core, job: io_of(index).0 }
}

/// The number of a job's IO: a job has one at a time.
#[inline]
pub(crate) fn io_of(index: usize) -> IoId {
    IoId(u32::try_from(index).expect("jobs are bounded by the queues' entries"))
}
