//! Traces: the times at which every n-th request passed the stages of its life, kept while somebody asks.
//!
//! The driver decides which requests are traced and reads the clock, because the engine has none. It tells the
//! time with [`Tracer::tick`], and each moment that is marked has the time that was told last. So the moments
//! of a request are in order, and the stages between them add up to the whole.
//!
//! While nobody asks, a request costs one comparison of a field at each place where a moment would be marked.
//! A record has a fixed size, and its memory comes with the [`TraceOrder`]: the path neither allocates nor
//! locks. When the memory is full, no further request is traced.
//!
//! A moment that a request does not pass stays empty: a flush that waits for the operation of another flush
//! submits none, and a request that is refused has no operation at all.

use nearflash_device::Owner;
use nearflash_request::{Operation, Request, VolumeId};
use nearflash_units::{ByteLen, Nanos};

use crate::meters::Asking;
use crate::stamp::{IDS, MeterId, TraceId};

/// The maximum number of records of a trace on one core.
pub const TRACE_RECORDS_MAX: usize = 16_384;

/// A moment in the life of a request, in their order.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Moment {
    /// The node has read the last bytes that the request needed, from a socket or a ring.
    Received,
    /// The session has decoded the request, and hands it over.
    Decoded,
    /// The request has left the admission, and begins.
    Admitted,
    /// Its first operation is handed to a device, or to another node.
    Submitted,
    /// The core has seen the end of its last operation.
    Completed,
    /// The session has the answer.
    Answered,
    /// The socket or the ring has taken the answer.
    Sent,
}

impl Moment {
    /// Every moment.
    pub const ALL: [Self; 7] = [
        Self::Received,
        Self::Decoded,
        Self::Admitted,
        Self::Submitted,
        Self::Completed,
        Self::Answered,
        Self::Sent,
    ];
}

/// The times of a request's moments; `None` for those that it has not passed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Moments([Option<Nanos>; 7]);

impl Moments {
    /// The time of a moment.
    pub fn at(&self, moment: Moment) -> Option<Nanos> {
        self.0[moment as usize]
    }

    fn set(&mut self, moment: Moment, at: Nanos) {
        self.0[moment as usize] = Some(at);
    }
}

// The numbers of three earlier traces are none of the next one.
const _: () = assert!(TRACE_RECORDS_MAX * 4 <= IDS as usize + 1);

/// An order to trace requests. It brings the memory, so that the core allocates none.
#[derive(Debug)]
pub struct TraceOrder {
    number: u64,
    every: u32,
    volume: Option<VolumeId>,
    records_max: usize,
    records: Vec<TraceRecord>,
    unsent: Vec<(Owner, TraceId)>,
}

impl TraceOrder {
    /// Traces one in `every` requests on a volume, or on all volumes, until `records_max` are traced. The number is
    /// the driver's for the trace.
    ///
    /// # Panics
    /// If `every` is zero, or `records_max` exceeds [`TRACE_RECORDS_MAX`].
    pub fn new(number: u64, every: u32, volume: Option<VolumeId>, records_max: usize) -> Self {
        assert!(every > 0, "one in a number of requests is traced");
        assert!(records_max <= TRACE_RECORDS_MAX, "the records of a trace are bounded");
        let (records, unsent) = (Vec::with_capacity(records_max), Vec::with_capacity(records_max));
        Self { number, every, volume, records_max, records, unsent }
    }
}

/// The record of one request.
#[derive(Clone, Copy, Debug)]
pub struct TraceRecord {
    /// The connection.
    pub owner: Owner,
    /// The driver's number for the protocol of the connection.
    pub protocol: u8,
    /// The volume.
    pub volume: VolumeId,
    /// The name of the operation.
    pub operation: &'static str,
    /// The length of the range; zero if the volume does not exist.
    pub len: ByteLen,
    /// The requests of the core in flight when this one came, without it.
    pub in_flight: u32,
    /// Its moments.
    pub moments: Moments,
    /// The number of its host in the trace.
    host: u32,
}

/// The records of a trace, and the names of hosts.
#[derive(Clone, Debug, Default)]
pub struct Traced {
    /// In the order of arrival. Those of requests under way are not complete.
    pub records: Vec<TraceRecord>,
    /// By number.
    pub(crate) hosts: Vec<(u32, Option<VolumeId>, Asking)>,
}

impl Traced {
    /// The host of a request; [`Asking::Others`] if its volume is removed.
    pub fn host(&self, record: &TraceRecord) -> Asking {
        let found = self.hosts.binary_search_by_key(&record.host, |(number, ..)| *number);
        let host = found.ok().map(|at| &self.hosts[at]);
        // The number of a host on a removed volume may have been used again.
        let host = host.filter(|(_, volume, _)| *volume == Some(record.volume));
        host.map_or(Asking::Others, |(.., host)| host.clone())
    }
}

/// Decides which requests are traced, and keeps their records.
#[derive(Debug)]
pub struct Tracer {
    /// The requests up to and including the next one that is traced; 0 if none will be.
    left: u32,
    /// Records are kept.
    is_on: bool,
    now: Nanos,
    received: Nanos,
    number: u64,
    every: u32,
    volume: Option<VolumeId>,
    /// The number of the first record.
    first: TraceId,
    records_max: usize,
    records: Vec<TraceRecord>,
    /// Records that are answered and whose answer has not been sent.
    unsent: Vec<(Owner, TraceId)>,
    /// The number of records that are complete.
    complete: usize,
}

/// Traces nothing.
impl Default for Tracer {
    fn default() -> Self {
        Self {
            left: 0,
            is_on: false,
            now: Nanos(0),
            received: Nanos(0),
            number: 0,
            every: 0,
            volume: None,
            first: TraceId(0),
            records_max: 0,
            records: Vec::new(),
            unsent: Vec::new(),
            complete: 0,
        }
    }
}

impl Tracer {
    /// Whether moments are marked.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// A turn begins. Requests that are decoded in it without a call of [`Self::receive`] count as received now.
    #[inline]
    pub(crate) fn begin_turn(&mut self, now: Nanos) {
        self.tick(now);
        self.received = now;
    }

    /// The requests that are decoded from now on were received at this time.
    #[inline]
    pub fn receive(&mut self, at: Nanos) {
        self.tick(at);
        self.received = at;
    }

    /// Tells the time. It never goes back.
    #[inline]
    pub fn tick(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }

    /// Whether this request on a volume is to be traced. Counts it.
    #[inline]
    pub fn is_due(&mut self, volume: VolumeId) -> bool {
        self.left != 0 && self.count(volume)
    }

    #[cold]
    fn count(&mut self, volume: VolumeId) -> bool {
        if self.volume.is_some_and(|wanted| wanted != volume) {
            return false;
        }
        self.left -= 1;
        let is_due = self.left == 0;
        if is_due {
            self.left = self.every;
        }
        is_due
    }

    /// Begins to trace. An earlier trace is dropped.
    pub(crate) fn begin(&mut self, order: TraceOrder) {
        self.end();
        let TraceOrder { number, every, volume, records_max, records, unsent } = order;
        let left = if records_max == 0 { 0 } else { every };
        let Self { now, received, first, .. } = *self;
        *self = Self {
            left,
            is_on: true,
            now,
            received,
            number,
            every,
            volume,
            first,
            records_max,
            records,
            unsent,
            complete: 0,
        };
    }

    /// Ends the trace, and returns its records.
    pub(crate) fn end(&mut self) -> Vec<TraceRecord> {
        let (now, received) = (self.now, self.received);
        let first = self.first.plus(self.records.len());
        std::mem::replace(self, Self { now, received, first, ..Self::default() }).records
    }

    /// Adds a record, for which there is room: [`Self::is_due`] is false otherwise.
    fn add(&mut self, record: TraceRecord) -> TraceId {
        let id = self.first.plus(self.records.len());
        self.records.push(record);
        if self.records.len() == self.records_max {
            self.left = 0;
        }
        id
    }

    fn record(&mut self, id: TraceId) -> Option<&mut TraceRecord> {
        self.records.get_mut(id.slot(self.first))
    }

    /// Marks a moment of a request with the time that was told last.
    #[cold]
    pub fn mark(&mut self, id: TraceId, moment: Moment) {
        let now = self.now;
        if let Some(record) = self.record(id) {
            record.moments.set(moment, now);
        }
    }

    /// The session of a connection has the answer to a request, and will send it.
    #[cold]
    pub fn answered(&mut self, owner: Owner, id: TraceId) {
        let now = self.now;
        if let Some(record) = self.record(id) {
            record.moments.set(Moment::Answered, now);
            // A request is answered once, so there is room.
            self.unsent.push((owner, id));
        }
    }

    /// Whether an answer of a traced request has not been sent.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// A connection has sent all its output. Returns the number of the trace if all the records that there is room
    /// for are now complete.
    #[cold]
    pub fn sent(&mut self, owner: Owner) -> Option<u64> {
        let Self { unsent, records, first, now, complete, .. } = self;
        let before = *complete;
        unsent.retain(|(of, id)| {
            let is_sent = *of == owner;
            if is_sent && let Some(record) = records.get_mut(id.slot(*first)) {
                record.moments.set(Moment::Sent, *now);
                *complete += 1;
            }
            !is_sent
        });
        (*complete > before && *complete == self.records_max).then_some(self.number)
    }

    /// Begins the record of a request that [`Self::is_due`], of a connection with this number of its protocol.
    #[cold]
    pub(crate) fn decoded(
        &mut self,
        (owner, protocol): (Owner, u8),
        request: &Request,
        len: ByteLen,
        in_flight: usize,
    ) -> TraceId {
        let mut moments = Moments::default();
        moments.set(Moment::Received, self.received.min(self.now));
        moments.set(Moment::Decoded, self.now);
        self.add(TraceRecord {
            owner,
            protocol,
            volume: request.volume,
            operation: name(&request.operation),
            len,
            in_flight: u32::try_from(in_flight).unwrap_or(u32::MAX),
            moments,
            host: u32::MAX,
        })
    }

    /// The host of a traced request is known.
    #[cold]
    pub(crate) fn host(&mut self, id: TraceId, MeterId(host): MeterId) {
        if let Some(record) = self.record(id) {
            record.host = host;
        }
    }

    /// The first operation of a request is submitted.
    pub(crate) fn submitted(&mut self, id: TraceId) {
        if id.is_some()
            && let Some(record) = self.record(id)
            && record.moments.at(Moment::Submitted).is_none()
        {
            self.mark(id, Moment::Submitted);
        }
    }
}

/// The name of an operation, as users know it.
fn name(operation: &Operation) -> &'static str {
    match operation {
        Operation::Read | Operation::ReadInto { .. } => "read",
        Operation::Write { .. } => "write",
        Operation::WriteBytes { .. } => "write-bytes",
        Operation::CompareAndSwap { .. } => "compare-and-swap",
        Operation::FetchAdd { .. } => "fetch-add",
        Operation::Flush => "flush",
        Operation::WriteZeroes { .. } => "write-zeroes",
        Operation::WriteSame { .. } => "write-same",
        Operation::WriteAndVerify { .. } => "write-and-verify",
        Operation::OrWrite { .. } => "or-write",
        Operation::Copy { .. } => "copy",
        Operation::Deallocate { .. } => "deallocate",
        Operation::Verify => "verify",
        Operation::Allocation => "allocation",
        Operation::Admit(_) => "admit",
        Operation::Compare { .. } => "compare",
        Operation::CompareSame { .. } => "compare-same",
        Operation::CompareAndWrite { .. } => "compare-and-write",
    }
}
