//! The loops of both sides, and a run of them.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nearflash_units::{ByteLen, Nanos};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};

use super::exchange::{Exchange, MessageCounter};
use crate::cpu::CpuMeter;
use crate::placement::{CoreId, PlacementError, elapsed, pin};
use crate::recorder::{CpuTime, new_histogram, per_second};

/// The cores of both sides.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FloorCores {
    /// The server's core.
    pub server: CoreId,
    /// The client's core.
    pub client: CoreId,
}

impl Default for FloorCores {
    fn default() -> Self {
        Self { server: CoreId(0), client: CoreId(1) }
    }
}

/// Parameters of the loops, whose best values depend on the machine; see [`Tuning::default`].
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Maximum length of one receive.
    pub receive_len: usize,
    /// Maximum number of receives per turn, as long as they fill the buffer.
    pub receives_max: usize,
    /// Maximum length of one send.
    pub send_len: usize,
    /// Length of the buffer that a send repeats.
    pub send_buffer_len: usize,
    /// SO_RCVBUF and SO_SNDBUF; `None` for the kernel's autotuning.
    pub socket_buffer_len: Option<usize>,
    /// TCP_NODELAY.
    pub no_delay: bool,
    /// TCP_CONGESTION.
    pub congestion: Option<&'static str>,
}

impl Default for Tuning {
    /// Values found by measurement with near cores; medians of few runs of about 100 ms each:
    ///
    /// - 128 KiB answers at depth 16: 39 k/s with sends of up to 256 KiB, 46 k/s with 1 MiB, 53 k/s
    ///   with 2 MiB and with 4 MiB. One call for everything that is due lets the other side copy at
    ///   the same time. Repeating a small buffer, which stays in the cache, makes little
    ///   difference, with 32 KiB as with 128 KiB.
    /// - Receiving until nothing is left before answering: 2 to 3 % more at 128 KiB.
    /// - Receives of 64 KiB to 2 MiB: no difference beyond the noise at any length and depth; with
    ///   32 KiB, 4 KiB answers at depth 32 fall from 1.0 M/s to 0.7 M/s. With far cores: 128 KiB
    ///   answers at 14 k/s with 256 KiB, 17 k/s with 1 MiB.
    /// - Socket buffers of 256 KiB to 4 MiB are no better than the kernel's autotuning.
    /// - TCP_NODELAY makes no difference: a turn's bytes are sent in one call.
    /// - cubic instead of bbr, where bbr is the system's default: 1 to 5 % more at 4 KiB, 52 k/s
    ///   instead of 39 k/s at 128 KiB, since pacing does not help on a loopback. reno equals cubic.
    fn default() -> Self {
        Self {
            receive_len: 1 << 20,
            receives_max: 2,
            send_len: 2 << 20,
            send_buffer_len: 64 << 10,
            socket_buffer_len: None,
            no_delay: true,
            congestion: Some("cubic"),
        }
    }
}

/// The parameters of a floor.
#[derive(Clone, Debug)]
pub struct FloorSpec {
    /// Lengths of request and answer.
    pub exchange: Exchange,
    /// Number of connections. Each side has one thread for all of them.
    pub connections: u32,
    /// Requests in flight per connection.
    pub depth: u32,
    /// Time before counting starts.
    pub ramp: Nanos,
    /// Time counted.
    pub runtime: Nanos,
    /// The cores of both sides.
    pub cores: FloorCores,
    /// Maximum number of answers taken before as many requests are sent, in a call of their own;
    /// `None` for all that have arrived. Like [`DriveSpec::batch`](crate::job::DriveSpec::batch).
    pub batch: Option<NonZeroUsize>,
    /// Parameters of the loops.
    pub tuning: Tuning,
}

/// The result of a floor.
#[derive(Clone, Debug)]
pub struct FloorRun {
    /// Answers within the counted time.
    pub answers: u64,
    /// The counted time.
    pub elapsed: Nanos,
    /// Time from request to complete answer, in nanoseconds.
    pub latency: Histogram<u64>,
    /// Processor time of the client's thread within the counted time.
    pub client_cpu: CpuTime,
    /// The smaller fraction of its core that a side had. Below one, another program ran there, and
    /// the figure is distorted.
    pub core_share: f64,
}

impl FloorRun {
    /// Exchanges per second.
    pub fn rate(&self) -> f64 {
        per_second(self.answers, self.elapsed)
    }
}

/// The reason why there is no floor.
#[derive(Debug, thiserror::Error)]
pub enum FloorError {
    /// A core cannot be used.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The loopback connection failed.
    #[error("the floor's loopback connection failed: {0}")]
    Socket(#[from] io::Error),
    /// The other side closed the connection.
    #[error("the floor's other side closed its connection before the run ended")]
    Closed,
}

/// Measures the floor.
///
/// # Errors
/// When a core cannot be used or loopback TCP does not work.
pub fn measure(spec: &FloorSpec) -> Result<FloorRun, FloorError> {
    let pairs = (0..spec.connections.max(1)).map(|_| connected_pair());
    let pairs = pairs.collect::<io::Result<Vec<_>>>()?;
    let (servers, clients): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    for socket in servers.iter().chain(&clients) {
        apply(&spec.tuning, socket)?;
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let answering = scope.spawn(|| {
            let pinned = pin(spec.cores.server).map_err(FloorError::from);
            let answered = pinned.and_then(|()| answer(&servers, spec, &stop));
            stop.store(true, Ordering::Relaxed);
            answered
        });
        let asking = scope.spawn(|| {
            let run = pin(spec.cores.client).map_err(FloorError::from);
            let run = run.and_then(|()| ask(&clients, spec, &stop));
            stop.store(true, Ordering::Relaxed);
            run
        });
        let asked = asking.join().expect("the asking side has no panic");
        let answered = answering.join().expect("the answering side has no panic");
        // Reports the cause before its consequence: a failed server closes the client's connection.
        let core_share = answered?;
        let mut run = asked?;
        run.core_share = run.core_share.min(core_share);
        Ok(run)
    })
}

fn connected_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    Ok((server, client))
}

fn apply(tuning: &Tuning, stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(tuning.no_delay)?;
    let socket = socket2::SockRef::from(stream);
    if let Some(len) = tuning.socket_buffer_len {
        socket.set_recv_buffer_size(len)?;
        socket.set_send_buffer_size(len)?;
    }
    if let Some(name) = tuning.congestion {
        // A kernel without this algorithm keeps its default.
        let _ = socket.set_tcp_congestion(name.as_bytes());
    }
    Ok(())
}

/// The state that all connections of a side share.
struct Side {
    inbox: Vec<u8>,
    receives_max: usize,
    /// The bytes that are sent repeatedly. Their values do not matter, and a small buffer stays in
    /// the cache.
    outgoing: Box<[u8]>,
    /// Maximum number of repetitions per send.
    repeats_max: usize,
}

impl Side {
    fn new(tuning: &Tuning) -> Self {
        Self {
            inbox: vec![0; tuning.receive_len],
            receives_max: tuning.receives_max,
            outgoing: vec![0x5A; tuning.send_buffer_len].into_boxed_slice(),
            repeats_max: tuning.send_len / tuning.send_buffer_len,
        }
    }

    fn send_repeated(&self, socket: &TcpStream, due: usize) -> Result<usize, Errno> {
        let whole = due / self.outgoing.len();
        let mut slices = vec![IoSlice::new(&self.outgoing); whole.min(self.repeats_max)];
        if whole < self.repeats_max {
            slices.push(IoSlice::new(&self.outgoing[..due % self.outgoing.len()]));
        }
        sendmsg(socket, &slices, &mut SendAncillaryBuffer::default(), SendFlags::DONTWAIT)
    }
}

/// One end of a connection.
struct End<'a> {
    socket: &'a TcpStream,
    incoming: MessageCounter,
    /// Bytes to be sent.
    due: usize,
}

impl<'a> End<'a> {
    fn new(socket: &'a TcpStream, incoming_len: ByteLen) -> Self {
        Self { socket, incoming: MessageCounter::new(incoming_len), due: 0 }
    }

    /// Receives the available data; returns the number of bytes and of messages completed.
    #[inline]
    fn receive(&mut self, side: &mut Side) -> Result<(usize, usize), FloorError> {
        let received = receive_all(self.socket, &mut side.inbox, side.receives_max)?;
        Ok((received, self.incoming.take(received)))
    }

    /// Sends everything that is due, or as much as one call takes.
    #[inline]
    fn send(&mut self, side: &Side) -> Result<(), FloorError> {
        if self.due == 0 {
            return Ok(());
        }
        let sent = if self.due <= side.outgoing.len() {
            send(self.socket, &side.outgoing[..self.due], SendFlags::DONTWAIT)
        } else {
            side.send_repeated(self.socket, self.due)
        };
        self.due -= moved(sent)?;
        Ok(())
    }
}

/// The number of bytes that a call transferred; 0 if it would have blocked.
#[inline]
fn moved(result: Result<usize, Errno>) -> Result<usize, FloorError> {
    match result {
        Ok(len) => Ok(len),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(Errno::PIPE | Errno::CONNRESET) => Err(FloorError::Closed),
        Err(errno) => Err(FloorError::Socket(errno.into())),
    }
}

/// Receives once; `Ok(0)` if no data is available.
#[inline]
fn receive(socket: &TcpStream, buffer: &mut [u8]) -> Result<usize, FloorError> {
    match recv(socket, &mut *buffer, RecvFlags::DONTWAIT) {
        Ok((0, _)) => Err(FloorError::Closed),
        other => moved(other.map(|(len, _)| len)),
    }
}

/// Receives until no more data is available, at most `times_max` times.
#[inline]
fn receive_all(
    socket: &TcpStream,
    buffer: &mut [u8],
    times_max: usize,
) -> Result<usize, FloorError> {
    let mut sum = 0;
    for _ in 0..times_max {
        let received = receive(socket, buffer)?;
        sum += received;
        if received < buffer.len() {
            break;
        }
    }
    Ok(sum)
}

/// The server's loop, until `stop`. Returns the fraction of its core that it had.
fn answer(sockets: &[TcpStream], spec: &FloorSpec, stop: &AtomicBool) -> Result<f64, FloorError> {
    let answer_len = spec.exchange.answer_len.to_usize();
    let mut side = Side::new(&spec.tuning);
    let mut ends: Vec<End<'_>> =
        sockets.iter().map(|socket| End::new(socket, spec.exchange.request_len)).collect();
    let (start, cpu) = (Instant::now(), CpuMeter::start());
    while !stop.load(Ordering::Relaxed) {
        for end in &mut ends {
            let (_, whole) = end.receive(&mut side)?;
            end.due += whole * answer_len;
            end.send(&side)?;
        }
    }
    Ok(share(cpu.used().total, elapsed(start)))
}

/// The fraction of a time that a thread ran.
fn share(cpu: Nanos, elapsed: Nanos) -> f64 {
    if elapsed.0 == 0 { 1.0 } else { cpu.0 as f64 / elapsed.0 as f64 }
}

/// The client's loop: ramp, then the counted run.
fn ask(sockets: &[TcpStream], spec: &FloorSpec, stop: &AtomicBool) -> Result<FloorRun, FloorError> {
    let mut asker = Asker::new(sockets, spec);
    asker.turns(spec.ramp, stop)?;
    asker.tally.latency.reset();
    asker.tally.answers = 0;
    let cpu = CpuMeter::start();
    let counted = asker.turns(spec.runtime, stop)?;
    let client_cpu = cpu.used();
    Ok(FloorRun {
        answers: asker.tally.answers,
        elapsed: counted,
        latency: asker.tally.latency,
        client_cpu,
        core_share: share(client_cpu.total, counted),
    })
}

struct Asker<'a> {
    side: Side,
    clients: Vec<Client<'a>>,
    tally: Tally,
}

/// Counts over all connections.
struct Tally {
    latency: Histogram<u64>,
    answers: u64,
}

/// The client's end of a connection.
struct Client<'a> {
    end: End<'a>,
    request_len: usize,
    /// Time and number of requests sent together, oldest first. Answers arrive in the same order.
    asked: VecDeque<(Instant, usize)>,
    /// Requests that the depth allows to be sent.
    allowed: usize,
    /// See [`FloorSpec`].
    batch: usize,
}

/// Number of idle turns between two readings of the clock.
const IDLE_TURNS_PER_CLOCK: u32 = 256;

impl<'a> Asker<'a> {
    fn new(sockets: &'a [TcpStream], spec: &FloorSpec) -> Self {
        Self {
            side: Side::new(&spec.tuning),
            clients: sockets.iter().map(|socket| Client::new(socket, spec)).collect(),
            tally: Tally { latency: new_histogram(), answers: 0 },
        }
    }

    /// Runs turns until `span` has passed; returns the exact time.
    fn turns(&mut self, span: Nanos, stop: &AtomicBool) -> Result<Nanos, FloorError> {
        let start = Instant::now();
        let end = start + span.to_duration();
        let mut idle = 0u32;
        self.clients.iter_mut().for_each(|client| client.ask_allowed(start));
        loop {
            let mut received = 0;
            for client in &mut self.clients {
                let (bytes, now) = client.turn(&mut self.side, &mut self.tally)?;
                if now.is_some_and(|now| now >= end) {
                    return Ok(elapsed(start));
                }
                received += bytes;
            }
            if received == 0 {
                idle += 1;
                if idle.is_multiple_of(IDLE_TURNS_PER_CLOCK) && stalled(end, stop) {
                    return Err(FloorError::Closed);
                }
            }
        }
    }
}

impl<'a> Client<'a> {
    fn new(socket: &'a TcpStream, spec: &FloorSpec) -> Self {
        let depth = usize::try_from(spec.depth).expect("usize is at least 32 bits wide");
        Self {
            end: End::new(socket, spec.exchange.answer_len),
            request_len: spec.exchange.request_len.to_usize(),
            asked: VecDeque::with_capacity(depth + 1),
            allowed: depth,
            batch: spec.batch.map_or(usize::MAX, NonZeroUsize::get),
        }
    }

    /// Takes the available answers and sends new requests. Returns the number of bytes received,
    /// and the time if there were answers.
    #[inline]
    fn turn(
        &mut self,
        side: &mut Side,
        tally: &mut Tally,
    ) -> Result<(usize, Option<Instant>), FloorError> {
        let (received, mut whole) = self.end.receive(side)?;
        let mut last = None;
        while whole > 0 {
            let (now, part) = (Instant::now(), whole.min(self.batch));
            self.count(now, part, tally);
            self.ask_allowed(now);
            whole -= part;
            last = Some(now);
            if whole > 0 {
                self.end.send(side)?;
            }
        }
        self.end.send(side)?;
        Ok((received, last))
    }

    fn ask_allowed(&mut self, now: Instant) {
        if self.allowed > 0 {
            self.asked.push_back((now, self.allowed));
            self.end.due += self.allowed * self.request_len;
            self.allowed = 0;
        }
    }

    fn count(&mut self, now: Instant, whole: usize, tally: &mut Tally) {
        let mut left = whole;
        while left > 0 {
            let (asked_at, waiting) = self.asked.front_mut().expect("no answer without request");
            let matched = left.min(*waiting);
            let latency = u64::try_from((now - *asked_at).as_nanos()).unwrap_or(u64::MAX);
            let count = u64::try_from(matched).expect("usize is at most 64 bits wide");
            tally.latency.saturating_record_n(latency, count);
            *waiting -= matched;
            left -= matched;
            if *waiting == 0 {
                self.asked.pop_front();
            }
            tally.answers += count;
        }
        self.allowed += whole;
    }
}

/// Whether the other side has ended, or the run is long overdue.
fn stalled(end: Instant, stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed) || Instant::now() > end + Duration::from_secs(5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floor::Headers;
    use crate::placement::allowed_cores;

    #[test]
    fn every_counted_answer_has_a_latency_in_either_direction_and_at_any_length() {
        let cores = allowed_cores();
        let (server, client) = (cores[0], cores[cores.len() - 1]);
        let exchanges = [
            Exchange::read(Headers::NVME_TCP, ByteLen(4096)),
            Exchange::write(Headers::DIRECT, ByteLen(4096)),
            Exchange::read(Headers::NVME_TCP, ByteLen(128 << 10)),
            // Longer than the maximum send.
            Exchange::read(Headers::NVME_TCP, ByteLen(1 << 20)),
        ];
        for (exchange, connections) in exchanges.into_iter().zip([1_usize, 1, 3, 2]) {
            let spec = FloorSpec {
                exchange,
                connections: u32::try_from(connections).unwrap(),
                depth: 8,
                ramp: Nanos(0),
                runtime: Nanos::from_millis(10),
                cores: FloorCores { server, client },
                batch: NonZeroUsize::new(connections - 1),
                tuning: Tuning::default(),
            };
            let run = measure(&spec).unwrap();
            assert!(run.answers > 0);
            assert_eq!(run.latency.len(), run.answers);
        }
    }

    #[test]
    fn a_core_that_is_not_there_ends_the_measurement_by_name() {
        let spec = FloorSpec {
            exchange: Exchange::read(Headers::NVME_TCP, ByteLen(4096)),
            connections: 1,
            depth: 1,
            ramp: Nanos(0),
            runtime: Nanos::from_millis(1),
            cores: FloorCores { server: CoreId(u16::MAX), client: allowed_cores()[0] },
            batch: None,
            tuning: Tuning::default(),
        };
        let message = measure(&spec).unwrap_err().to_string();
        assert!(message.contains("core 65535"), "{message}");
    }
}
