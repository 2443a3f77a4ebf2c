//! The loops of both sides, and a run of them.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nearflash_units::Nanos;

use super::end::{End, Side, Sleeper};
use super::error::FloorError;
use super::exchange::Exchange;
use super::relay::relay;
use super::spec::{FloorSpec, Tuning};
use super::usage::{Usage, share};
use crate::cpu::CpuMeter;
use crate::placement::{CoreId, elapsed, pin};
use crate::recorder::{CpuTime, new_histogram, per_second};

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
    /// Processor time of the server and the third party within the counted time: their part of the
    /// whole run.
    pub server_cpu: CpuTime,
    /// The smallest fraction of its core that a side had. Below one, another program ran there, and
    /// the figure is distorted. One if the sides sleep.
    pub core_share: f64,
}

impl FloorRun {
    /// Exchanges per second.
    pub fn rate(&self) -> f64 {
        per_second(self.answers, self.elapsed)
    }
}

/// Measures the floor.
///
/// # Errors
/// When a core cannot be used or loopback TCP does not work.
pub fn measure(spec: &FloorSpec) -> Result<FloorRun, FloorError> {
    let count = usize::try_from(spec.connections.max(1)).expect("usize is at least 32 bits wide");
    let (servers, clients) = connected(count, &spec.tuning)?;
    let further = if spec.relayed.is_some() { count } else { 0 };
    let (thirds, relays) = connected(further, &spec.tuning)?;
    let stop = AtomicBool::new(false);
    let on = |core: CoreId, side: &dyn Fn() -> Result<Usage, FloorError>| {
        let used = pin(core).map_err(FloorError::from).and_then(|()| side());
        stop.store(true, Ordering::Relaxed);
        used
    };
    let third_core = spec.cores.third.unwrap_or(spec.cores.client);
    std::thread::scope(|scope| {
        let third = spec.relayed.map(|exchange| {
            let (thirds, stop, on) = (&thirds, &stop, &on);
            scope.spawn(move || on(third_core, &|| answer(thirds, exchange, spec, stop)))
        });
        let answering = scope.spawn(|| {
            on(spec.cores.server, &|| match spec.relayed {
                Some(relayed) => relay((&servers, &relays), relayed, spec, &stop),
                None => answer(&servers, spec.exchange, spec, &stop),
            })
        });
        let asking = scope.spawn(|| {
            let run = pin(spec.cores.client).map_err(FloorError::from);
            let run = run.and_then(|()| ask(&clients, spec, &stop));
            stop.store(true, Ordering::Relaxed);
            run
        });
        let asked = asking.join().expect("the asking side has no panic");
        let answered = answering.join().expect("the answering side has no panic");
        let third = third.map(|third| third.join().expect("the third party has no panic"));
        // Reports the cause before its consequence: a failed party closes the others' connections.
        let usages = [third.unwrap_or_else(|| Ok(Usage::none()))?, answered?];
        let mut run = asked?;
        for Usage { cpu, core_share } in usages {
            run.server_cpu = run.server_cpu.plus(cpu);
            run.core_share = run.core_share.min(core_share);
        }
        let all = spec.ramp.plus(run.elapsed);
        run.server_cpu = run.server_cpu.share(run.elapsed.0, all.0.max(1));
        Ok(run)
    })
}

/// Pairs of connected sockets: the ends that accepted, and those that connected.
fn connected(count: usize, tuning: &Tuning) -> io::Result<(Vec<TcpStream>, Vec<TcpStream>)> {
    let pairs = (0..count).map(|_| connected_pair()).collect::<io::Result<Vec<_>>>()?;
    let (servers, clients): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    for socket in servers.iter().chain(&clients) {
        apply(tuning, socket)?;
    }
    Ok((servers, clients))
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

/// The loop of a side that answers by itself, until `stop`.
fn answer(
    sockets: &[TcpStream],
    exchange: Exchange,
    spec: &FloorSpec,
    stop: &AtomicBool,
) -> Result<Usage, FloorError> {
    let answer_len = exchange.answer_len.to_usize();
    let mut side = Side::new(&spec.tuning);
    let mut sleeper = Sleeper::new(spec.waits);
    let mut ends: Vec<End<'_>> =
        sockets.iter().map(|socket| End::new(socket, exchange.request_len)).collect();
    let (start, cpu) = (Instant::now(), CpuMeter::start());
    while !stop.load(Ordering::Relaxed) {
        sleeper.rest(&mut ends, |end| end)?;
        for end in &mut ends {
            let (_, whole) = end.receive(&mut side)?;
            end.due += whole * answer_len;
            end.send(&side)?;
        }
    }
    Ok(Usage::since(start, &cpu, spec.waits))
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
        server_cpu: CpuTime::default(),
        core_share: share(client_cpu.total, counted, spec.waits),
    })
}

struct Asker<'a> {
    side: Side,
    clients: Vec<Client<'a>>,
    sleeper: Sleeper<'a>,
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
            sleeper: Sleeper::new(spec.waits),
            tally: Tally { latency: new_histogram(), answers: 0 },
        }
    }

    /// Runs turns until `span` has passed; returns the exact time.
    fn turns(&mut self, span: Nanos, stop: &AtomicBool) -> Result<Nanos, FloorError> {
        let start = Instant::now();
        let end = start + span.to_duration();
        let mut idle = 0u32;
        for client in &mut self.clients {
            client.ask_allowed(start);
            client.end.send(&self.side)?;
        }
        loop {
            self.sleeper.rest(&mut self.clients, |client| &mut client.end)?;
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
                let looks = idle.is_multiple_of(IDLE_TURNS_PER_CLOCK) || self.sleeper.sleeps();
                if looks && stalled(end, stop) {
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
    use crate::floor::{FloorCores, Headers, Waits};
    use crate::placement::allowed_cores;
    use nearflash_units::ByteLen;

    #[test]
    fn every_counted_answer_has_a_latency_in_either_direction_and_at_any_length() {
        let cores = allowed_cores();
        let (server, client) = (cores[0], cores[cores.len() - 1]);
        let cores = FloorCores { server, client, third: None };
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
                relayed: None,
                cores,
                waits: Waits::Spinning,
                batch: NonZeroUsize::new(connections - 1),
                tuning: Tuning::default(),
            };
            check(&spec);
            check(&FloorSpec { waits: Waits::Asleep, ..spec.clone() });
            check(&FloorSpec { waits: Waits::Asleep, relayed: Some(exchange), ..spec });
        }
    }

    fn check(spec: &FloorSpec) {
        let run = measure(spec).unwrap_or_else(|error| panic!("{spec:?}: {error}"));
        assert!(run.answers > 0, "{spec:?}");
        assert_eq!(run.latency.len(), run.answers, "{spec:?}");
        assert!(run.server_cpu.total > Nanos(0), "{spec:?}");
    }

    #[test]
    fn a_core_that_is_not_there_ends_the_measurement_by_name() {
        let spec = FloorSpec {
            exchange: Exchange::read(Headers::NVME_TCP, ByteLen(4096)),
            connections: 1,
            depth: 1,
            ramp: Nanos(0),
            runtime: Nanos::from_millis(1),
            relayed: None,
            cores: FloorCores { server: CoreId(u16::MAX), client: allowed_cores()[0], third: None },
            waits: Waits::Spinning,
            batch: None,
            tuning: Tuning::default(),
        };
        let message = measure(&spec).unwrap_err().to_string();
        assert!(message.contains("core 65535"), "{message}");
    }
}
