//! The engine of one core: takes requests, gives device operations, takes their results, gives
//! answers.
//!
//! Invariants: every request is answered exactly once; a write's buffers return to the pool with
//! its answer; a read's buffer passes to the owner with a successful answer and to the pool
//! otherwise; nothing is answered before all its device operations are.

use std::collections::VecDeque;
use std::sync::Arc;

use nearflash_device::{DeviceProperties, DeviceRequest, DeviceResult, Health, OperationId};
use nearflash_layout::{BlockIo, IoId, Layout};
use nearflash_request::{
    BlockRange, BufferId, Completion, Nexus, Operation, Outcome, Payload, Request, Usage, VolumeId,
};
use nearflash_space::{VolumeEntry, VolumeTable};
use nearflash_units::{Blocks, ByteLen};
use slab::Slab;

use crate::change::Part;
use crate::edges::{Units, edges_len};
use crate::fence::{Arbiter, CoreId, FenceId, FenceMessage, Fenced, Holds, Outbox};
use crate::job::{Job, Work};
use crate::pool::Pool;
use crate::traffic::traffic_of;
use crate::waits::{Age, Older, Waits, volumes_of};

/// Who asked: the driver's number for a connection. Comes back with every answer.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Owner(pub u64);

/// An answer to a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Answer {
    /// Who asked.
    pub owner: Owner,
    /// How it ended.
    pub completion: Completion,
    /// Pool bytes charged to the owner that are free again: all of the request's, unless the
    /// completion hands over a buffer.
    pub returned: ByteLen,
    /// The request's need was [`crate::Need::Scratch`].
    pub had_scratch: bool,
}

/// What an engine has answered since its start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Reads.
    pub reads: u64,
    /// Writes, of payload or of zeroes.
    pub writes: u64,
    /// Bytes that reads succeeded with.
    pub read_bytes: u64,
    /// Bytes that writes succeeded with.
    pub written_bytes: u64,
    /// Requests of any kind that did not succeed.
    pub errors: u64,
}

/// What an engine is made with.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Which core it runs on.
    pub core: CoreId,
    /// How many cores the node has.
    pub core_count: u16,
    /// The node's devices, by [`nearflash_device::DeviceId`].
    pub devices: Arc<[DeviceProperties]>,
    /// Whether they are believed, by the same number: the same for all cores.
    pub health: Arc<[Arc<Health>]>,
    /// The node's volumes.
    pub volumes: Arc<VolumeTable>,
    /// Where it counts what it does with each volume.
    pub usage: Arc<Usage>,
}

/// One core's engine.
#[derive(Debug)]
pub struct Engine {
    core: CoreId,
    pub(crate) volumes: Arc<VolumeTable>,
    pub(crate) layout: Layout,
    waits: Waits,
    counters: Counters,
    usage: Arc<Usage>,
    pub(crate) jobs: Slab<Job>,
    /// Jobs that wait for a pool buffer, oldest first.
    pub(crate) starved: VecDeque<usize>,
    /// Jobs that wait for a hold to be lifted, oldest first.
    pub(crate) held_back: VecDeque<usize>,
    holds: Holds,
    arbiter: Option<Arbiter>,
    answers: VecDeque<Answer>,
    pub(crate) fence_messages: Outbox,
    /// Lets one comparison or change at a time go on when the pool is full of payload that waits for
    /// that, and nothing else would ever come back.
    pub(crate) reserve: Option<BufferId>,
    pub(crate) units: Units,
    devices: Arc<[DeviceProperties]>,
    /// How long a buffer for edges is; `None` if no device of the node leaves any.
    pub(crate) edges_len: Option<ByteLen>,
    /// The same as the reserve, for edges.
    pub(crate) edges_reserve: Option<BufferId>,
    /// Jobs that wait for a buffer for edges, with what they do then.
    pub(crate) edgeless: VecDeque<(usize, BlockIo)>,
}

impl Engine {
    /// An engine without requests. Takes one largest buffer of the pool as its reserve.
    pub fn new(config: EngineConfig, pool: &mut Pool) -> Self {
        let is_arbiter = config.core == CoreId::FIRST;
        let edges_len = edges_len(&config.devices);
        Self {
            core: config.core,
            layout: Layout::new(config.devices.clone(), config.health, config.volumes.clone()),
            units: Units::new(&config.volumes, &config.devices),
            devices: config.devices,
            volumes: config.volumes,
            waits: Waits::default(),
            counters: Counters::default(),
            usage: config.usage,
            jobs: Slab::new(),
            starved: VecDeque::new(),
            held_back: VecDeque::new(),
            holds: Holds::default(),
            arbiter: is_arbiter.then(|| Arbiter::new(config.core_count)),
            answers: VecDeque::new(),
            fence_messages: VecDeque::new(),
            reserve: pool.take(Pool::LEN_MAX),
            edges_len,
            edges_reserve: edges_len.and_then(|len| pool.take(len)),
            edgeless: VecDeque::new(),
        }
    }

    /// Replaces the volumes. Requests under way go on as they were laid out. Returns the volumes whose
    /// entries differ from before.
    pub fn set_volumes(&mut self, volumes: Arc<VolumeTable>) -> Box<[VolumeId]> {
        let changed = volumes.changed_since(&self.volumes);
        self.layout.set_volumes(volumes.clone());
        self.units = Units::new(&volumes, &self.devices);
        self.volumes = volumes;
        changed
    }

    /// Waits until the older requests on these volumes have ended; [`Self::poll_over`] then gives the
    /// number. `in_front` is the number of such requests that have not been submitted yet.
    pub fn await_older(
        &mut self,
        number: u64,
        older: Older,
        volumes: Box<[VolumeId]>,
        in_front: usize,
    ) {
        let is_meant = |(_, job): &(usize, &Job)| {
            let (volume, source) = job.volumes();
            volumes.contains(&volume) || source.is_some_and(|source| volumes.contains(&source))
        };
        let left = in_front + self.jobs.iter().filter(is_meant).count();
        self.waits.begin(number, older, volumes, left);
    }

    /// The number of a wait that is over.
    #[inline]
    pub fn poll_over(&mut self) -> Option<u64> {
        self.waits.poll_over()
    }

    /// How many waits have begun: when a request came, as [`Self::submit_as_of`] wants to know it.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.waits.generation()
    }

    /// A request that came in that generation ends without having been submitted.
    pub fn give_up(&mut self, request: &Request, came: u64) {
        let begun = self.waits.generation();
        self.waits.ended(volumes_of(request), Age { came, begun });
    }

    /// What was answered so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The volumes as of now.
    pub fn volumes(&self) -> &VolumeTable {
        &self.volumes
    }

    /// How many requests are in flight.
    pub fn jobs_len(&self) -> usize {
        self.jobs.len()
    }

    /// Takes a request of whoever asks for `nexus`, as reservations know it. Its answer comes from
    /// [`Self::poll_answer`], perhaps at once.
    #[inline]
    pub fn submit(&mut self, owner: Owner, nexus: Nexus, request: Request, pool: &mut Pool) {
        self.submit_as_of(owner, nexus, request, self.generation(), pool);
    }

    /// The same for a request that came in an earlier generation and has waited since.
    #[inline]
    pub fn submit_as_of(
        &mut self,
        owner: Owner,
        nexus: Nexus,
        request: Request,
        came: u64,
        pool: &mut Pool,
    ) {
        let age = Age { came, begun: self.waits.generation() };
        let entry = self.volumes.get(request.volume);
        let need = self.need_on(entry, &request);
        let refusal = self.refusal(entry, nexus, &request);
        let job = self.jobs.insert(Job::new(owner, request, age, need, pool));
        match refusal {
            Some(outcome) => self.end(job, outcome, pool),
            None => self.begin(job, pool),
        }
    }

    /// Takes the result of a device operation.
    #[inline]
    pub fn handle_device(&mut self, id: OperationId, result: DeviceResult, pool: &mut Pool) {
        let mut ended = self.layout.handle_device(id, result);
        while let Some((io, result)) = ended {
            self.end_io(index_of(io), result, pool);
            ended = self.layout.poll_ended();
        }
    }

    /// Whether something ends by what other cores see end; [`Self::resume`] then has to look.
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
                self.begin_granted(index_of(IoId(fence.job)), pool);
            }
            FenceMessage::Lift(fence) => {
                self.holds.lift(fence);
                self.retry_held_back(pool);
            }
        }
    }

    /// Tries again what waited for pool buffers. Call it after buffers came back.
    ///
    /// Reads keep their order; what compares or changes may pass them, because it can use the
    /// reserve.
    #[inline]
    pub fn resume(&mut self, pool: &mut Pool) {
        if !self.edgeless.is_empty() {
            self.resume_edgeless(pool);
        }
        if self.awaits_others() {
            self.layout.prove();
            while let Some((io, result)) = self.layout.poll_ended() {
                self.end_io(index_of(io), result, pool);
            }
        }
        if self.starved.is_empty() {
            return;
        }
        let mut reads_wait = false;
        for job in std::mem::take(&mut self.starved) {
            let is_read = self.jobs[job].work == Work::Read;
            if (is_read && reads_wait) || !self.start_with_buffer(job, pool) {
                reads_wait |= is_read;
                self.starved.push_back(job);
            }
        }
    }

    /// Ends, as aborted, the owner's requests that have not begun. Those under way end by
    /// themselves.
    pub fn cancel_waiting(&mut self, owner: Owner, pool: &mut Pool) {
        let jobs = &self.jobs;
        let is_owners = |job: &usize| jobs[*job].owner == owner;
        let ended: Vec<usize> =
            self.starved.iter().chain(&self.held_back).copied().filter(is_owners).collect();
        self.starved.retain(|job| !ended.contains(job));
        self.held_back.retain(|job| !ended.contains(job));
        for job in ended {
            self.end(job, Outcome::Aborted, pool);
        }
    }

    /// The next device operation to submit.
    #[inline]
    pub fn poll_device(&mut self) -> Option<DeviceRequest> {
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

    /// The next message about a fence, and the core it is for (possibly this one).
    #[inline]
    pub fn poll_fence(&mut self) -> Option<(CoreId, FenceMessage)> {
        self.fence_messages.pop_front()
    }

    /// Why a request cannot even begin.
    fn refusal(
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

    /// Answers a job and lets go of all it holds.
    #[inline]
    pub(crate) fn end(&mut self, index: usize, outcome: Outcome, pool: &mut Pool) {
        let job = self.jobs.remove(index);
        assert!(!self.layout.is_busy(io_of(index)), "nothing is answered before its IO has ended");
        self.waits.ended(job.volumes(), job.age);
        self.count(&job, outcome);
        let mut returned = job.charge;
        let mut payload = match (&job.work, job.buffer) {
            (Work::Read, Some(buffer)) if outcome == Outcome::Success => {
                returned = ByteLen(0);
                Payload::Buffer(buffer)
            }
            (Work::Read, None) if outcome == Outcome::Success => Payload::Zeroes,
            (_, Some(buffer)) => {
                pool.give_back(buffer);
                Payload::None
            }
            (_, None) => Payload::None,
        };
        match (&job.work, outcome) {
            (Work::Atomic { .. }, Outcome::Success | Outcome::Miscompare) => {
                payload = Payload::Word(job.found);
            }
            (_, Outcome::Miscompare) => payload = Payload::Differs(job.found),
            (Work::Allocation { mapped }, Outcome::Success) => {
                payload = Payload::Allocation { mapped: *mapped, blocks: Blocks(job.found) };
            }
            _ => {}
        }
        if let Some(compare) = job.compare {
            pool.give_back(compare);
        }
        if let Some(scratch) = job.scratch {
            self.give_back_scratch(scratch, pool);
        }
        if let Some(parts) = job.parts {
            self.give_back_edges(&parts, pool);
        }
        let completion = Completion { tag: job.tag, outcome, payload };
        let had_scratch = job.needs_scratch;
        self.answers.push_back(Answer { owner: job.owner, completion, returned, had_scratch });
        if job.fenced {
            let release = FenceMessage::Release(self.fence_of(index));
            self.fence_messages.push_back((CoreId::FIRST, release));
        }
        if !self.holds.is_empty() && job.work.writes() {
            self.answer_holds();
        }
    }

    #[inline]
    fn count(&mut self, job: &Job, outcome: Outcome) {
        let block_size = self.volumes.get(job.volume).map(|entry| entry.block_size);
        let len = block_size.and_then(|size| size.len(job.range.count)).unwrap_or_default();
        self.usage.count(self.core.0, job.volume, traffic_of(&job.work, outcome, len));
        let counters = &mut self.counters;
        if outcome != Outcome::Success {
            // A word that another changed first is no error: who wanted to swap it tries again.
            let lost_a_race = outcome == Outcome::Miscompare && job.work.is_atomic();
            counters.errors += u64::from(!lost_a_race);
            return;
        }
        match job.work {
            Work::Read => {
                counters.reads += 1;
                counters.read_bytes += len.0;
            }
            Work::Write { .. }
            | Work::WriteZeroes { .. }
            | Work::WriteSame { .. }
            | Work::OrWrite { .. }
            | Work::Copy { .. }
            | Work::WriteAndVerify { .. }
            | Work::CompareAndWrite { .. } => {
                counters.writes += 1;
                counters.written_bytes += len.0;
            }
            Work::WriteBytes { part, .. } => {
                counters.writes += 1;
                counters.written_bytes += u64::from(part.len);
            }
            Work::Atomic { .. } => {
                counters.writes += 1;
                counters.written_bytes += 8;
            }
            Work::Flush
            | Work::Deallocate { .. }
            | Work::Verify { .. }
            | Work::Allocation { .. }
            | Work::Compare
            | Work::CompareSame { .. }
            | Work::Admit => {}
        }
    }

    pub(crate) fn is_held_back(&self, index: usize) -> bool {
        if self.holds.is_empty() {
            return false;
        }
        let (job, fence) = (&self.jobs[index], self.fence_of(index));
        let stopped = |range| self.holds.stops(fence, &Fenced { volume: job.volume, range });
        match &job.work {
            Work::Deallocate { ranges, .. } => ranges.iter().any(|r| stopped(*r)),
            _ => stopped(job.range),
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

    fn retry_held_back(&mut self, pool: &mut Pool) {
        for index in std::mem::take(&mut self.held_back) {
            if self.is_held_back(index) {
                self.held_back.push_back(index);
            } else {
                self.write(index, pool);
            }
        }
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

#[inline]
fn index_of(io: IoId) -> usize {
    usize::try_from(io.0).expect("usize is at least 32 bits wide")
}
