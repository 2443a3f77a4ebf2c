//! A namespace over NVMe/TCP, through our own host.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

use nearflash::nvme_tcp::{
    BufferId, Controller, Digests, HostError, HostIdentity, Io, IoCompletion, Namespace,
    NamespaceId, Nqn, Options, QueueId, QueueOptions, QueuePair, Tls, Token,
};
use nearflash_units::{Blocks, ByteLen, Lba, Nanos};
use rustix::event::PollFd;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{Done, Engine, EngineError, Opener, Slot, waker};
use crate::BenchError;
use crate::options_error::OptionsError;
use crate::subject::{NvmeTcpTarget, PskFile};
use crate::workload::{Direction, Op};

/// The token of a flush, which no slot has.
const FLUSH: Token = Token::MAX;

/// The requirements of a run on a remote target.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Length of one operation.
    pub op_len: ByteLen,
    /// A length that a block size divides only if it divides the start of every range.
    pub offset: ByteLen,
    /// Operations in flight per job.
    pub depth: usize,
    /// The number of jobs.
    pub job_count: u32,
}

/// Connected controllers and the namespace to measure; opens [`NvmeTcpEngine`]s.
pub struct Remote {
    /// As many as are needed to have queues for all jobs.
    controllers: Vec<Mutex<Controller>>,
    jobs_per_controller: u16,
    namespace: Namespace,
    queues_per_job: u16,
    digests: Digests,
    /// The cipher suite, with TLS.
    suite: Option<&'static str>,
    next_job: AtomicU16,
}

impl Needs {
    /// One operation at a time, of one job.
    pub(crate) fn for_a_look(self) -> Self {
        Self { depth: 1, job_count: 1, ..self }
    }
}

impl Remote {
    /// Connects, and checks that the target supports the run.
    ///
    /// # Errors
    /// When the target cannot be reached, refuses, or does not support the run.
    pub fn connect(target: &NvmeTcpTarget, needs: Needs) -> Result<Self, BenchError> {
        let options = options(target)?;
        let mut first = Controller::connect(&options)?;
        let namespace = first.namespace(NamespaceId(target.namespace))?;
        let wanted = u32::from(target.queues) * needs.job_count;
        let granted = first.request_queue_pairs(u16::try_from(wanted).unwrap_or(u16::MAX))?;
        if granted < target.queues {
            return Err(OptionsError::TooManyQueues { wanted: target.queues, granted }.into());
        }
        let jobs_per_controller = granted / target.queues;
        let mut controllers = vec![Mutex::new(first)];
        let mut placed = u32::from(jobs_per_controller);
        while placed < needs.job_count {
            controllers.push(Mutex::new(another(&options, jobs_per_controller * target.queues)?));
            placed += u32::from(jobs_per_controller);
        }
        let remote = Self {
            controllers,
            jobs_per_controller,
            namespace,
            queues_per_job: target.queues,
            digests: options.digests,
            suite: options.tls.as_ref().map(Tls::suite),
            next_job: AtomicU16::new(0),
        };
        remote.check(needs)?;
        Ok(remote)
    }

    /// The namespace's size.
    pub fn len(&self) -> ByteLen {
        self.namespace.len()
    }

    /// The cipher suite of all connections; `None` without TLS.
    pub fn suite(&self) -> Option<&'static str> {
        self.suite
    }

    /// Whether the namespace has no blocks.
    pub fn is_empty(&self) -> bool {
        self.namespace.is_empty()
    }

    fn check(&self, needs: Needs) -> Result<(), OptionsError> {
        let block_size = self.namespace.block_size;
        if !(block_size.divides(needs.op_len) && block_size.divides(needs.offset)) {
            let block_len = ByteLen(u64::from(block_size.bytes()));
            return Err(OptionsError::PartOfBlock { op_len: needs.op_len, block_len });
        }
        let (op_max, depth_max) = {
            let controller = self.lock(0);
            (controller.transfer_len_max(), controller.depth_max())
        };
        let op_max = op_max.min(block_size.len(Blocks(1 << 16)).unwrap_or(op_max));
        if needs.op_len > op_max {
            return Err(OptionsError::OpTooLong { op_len: needs.op_len, max: op_max });
        }
        let depth = slots_per_pair(needs.depth, self.queues_per_job);
        if depth > usize::from(depth_max) {
            return Err(OptionsError::TooDeep { depth, max: depth_max });
        }
        Ok(())
    }

    fn lock(&self, controller: usize) -> std::sync::MutexGuard<'_, Controller> {
        let controller = self.controllers[controller].lock();
        controller.expect("nothing panics while it holds the controller")
    }
}

impl Opener for Remote {
    type Engine = NvmeTcpEngine;

    fn open(&self, depth: usize, op_len: ByteLen) -> Result<NvmeTcpEngine, BenchError> {
        let per_pair = slots_per_pair(depth, self.queues_per_job);
        let pair_depth = u16::try_from(per_pair).expect("it was checked against the target's");
        let queue_options = QueueOptions::for_ops(pair_depth, op_len);
        let job = self.next_job.fetch_add(1, Ordering::Relaxed);
        let controller = usize::from(job / self.jobs_per_controller) % self.controllers.len();
        let first = 1 + job % self.jobs_per_controller * self.queues_per_job;
        let pairs = (first..first + self.queues_per_job)
            .map(|queue| QueuePair::connect(&self.lock(controller), QueueId(queue), queue_options))
            .collect::<Result<Vec<_>, HostError>>()?;
        if pairs.iter().any(|pair| pair.digests() != self.digests) {
            return Err(OptionsError::NoDigests.into());
        }
        Ok(NvmeTcpEngine::new(pairs, self.namespace, depth, op_len))
    }

    fn tend(&self) -> Result<(), BenchError> {
        for controller in 0..self.controllers.len() {
            self.lock(controller).tend()?;
        }
        Ok(())
    }
}

/// Connects another controller, for jobs for which the first has no queues left.
fn another(options: &Options, queues: u16) -> Result<Controller, BenchError> {
    let mut controller = Controller::connect(options)?;
    let granted = controller.request_queue_pairs(queues)?;
    if granted < queues {
        return Err(OptionsError::TooManyQueues { wanted: queues, granted }.into());
    }
    Ok(controller)
}

/// Slots per queue pair when they are distributed evenly, rounded up.
fn slots_per_pair(depth: usize, pairs: u16) -> usize {
    depth.div_ceil(usize::from(pairs))
}

/// The name of a bench as a host, before the machine's identifier: one host in metrics, however often it runs.
const HOST_NQN_PREFIX: &str = "nqn.2026-11.io.nearflash:bench:";

/// The identifier of this machine as a host, which does not reveal the machine-id; a random one without that.
fn host_id() -> Uuid {
    match std::fs::read("/etc/machine-id") {
        Ok(machine) if !machine.is_empty() => {
            let hash =
                Sha256::new().chain_update(b"nearflash bench").chain_update(machine).finalize();
            let bytes = hash.first_chunk::<16>().expect("a hash has 32 bytes");
            uuid::Builder::from_random_bytes(*bytes).into_uuid()
        }
        _ => Uuid::new_v4(),
    }
}

fn options(target: &NvmeTcpTarget) -> Result<Options, BenchError> {
    let resolved = nearflash::resolve(&target.host, target.port);
    let failed = |source| HostError::Resolve { host: target.host.clone(), source };
    let address = resolved.map_err(failed)?[0];
    let nqn = |name: &str| {
        Nqn::new(name).map_err(|source| BenchError::Nqn { name: name.to_owned(), source })
    };
    let id = host_id();
    let name = target.host_nqn.clone().unwrap_or_else(|| format!("{HOST_NQN_PREFIX}{id}"));
    let identity = HostIdentity { nqn: nqn(&name)?, id };
    let tls = target.tls.as_ref().map(|PskFile { path, derivation }| {
        Tls::from_file(path).map(|tls| tls.derivation(*derivation))
    });
    let digests = Digests { header: target.header_digest, data: target.data_digest };
    let options = Options::new(address, nqn(&target.nqn)?, identity);
    Ok(options.digests(digests).tls(tls.transpose()?))
}

/// The engine: slots are distributed over queue pairs in turn.
pub struct NvmeTcpEngine {
    pairs: Vec<QueuePair>,
    namespace: Namespace,
    /// By slot: the index of its queue pair, and its buffer there.
    seats: Vec<(usize, BufferId)>,
    op_len: usize,
    completions: Vec<IoCompletion>,
}

impl NvmeTcpEngine {
    fn new(mut pairs: Vec<QueuePair>, namespace: Namespace, depth: usize, op_len: ByteLen) -> Self {
        let pair_count = pairs.len();
        let seats = (0..depth)
            .map(|slot| {
                let pair = slot % pair_count;
                let buffer = pairs[pair].take_buffer(op_len);
                (pair, buffer.expect("a queue pair has memory for its slots"))
            })
            .collect();
        let completions = Vec::with_capacity(depth);
        Self { pairs, namespace, seats, op_len: op_len.to_usize(), completions }
    }
}

impl Engine for NvmeTcpEngine {
    fn buffer(&self, slot: Slot) -> &[u8] {
        let (pair, buffer) = self.seats[slot];
        &self.pairs[pair].bytes(buffer)[..self.op_len]
    }

    fn buffer_mut(&mut self, slot: Slot) -> &mut [u8] {
        let (pair, buffer) = self.seats[slot];
        &mut self.pairs[pair].bytes_mut(buffer)[..self.op_len]
    }

    #[inline]
    fn submit(&mut self, slot: Slot, op: Op) {
        let (pair, buffer) = self.seats[slot];
        let start = Lba(op.offset.0 >> self.namespace.block_size.shift());
        let count = self.namespace.block_size.blocks_in(op.len);
        let io = match op.direction {
            Direction::Read => Io::Read { start, count, buffer },
            Direction::Write => Io::Write { start, count, buffer, force_unit_access: false },
        };
        let token = ByteLen::from_usize(slot).0;
        // A lost queue refuses the command; the next poll reports the reason.
        let _ = self.pairs[pair].submit(token, &self.namespace, io);
    }

    #[inline]
    fn poll(&mut self, done: &mut Vec<Done>) -> Result<(), EngineError> {
        for pair in &mut self.pairs {
            pair.poll(&mut self.completions)?;
        }
        done.extend(self.completions.iter().map(|completion| Done {
            slot: ByteLen(completion.token).to_usize(),
            result: match completion.status {
                status if status.is_success() => Ok(()),
                status => Err(EngineError::Status(status)),
            },
        }));
        self.completions.clear();
        Ok(())
    }

    #[inline]
    fn hand_over(&mut self) -> Result<(), EngineError> {
        for pair in &mut self.pairs {
            pair.send()?;
        }
        Ok(())
    }

    fn doze(&mut self) -> Result<bool, EngineError> {
        self.hand_over()?;
        Ok(!self.pairs.iter().any(QueuePair::holds_input))
    }

    fn wakers<'a>(&'a self, wakers: &mut Vec<PollFd<'a>>) {
        let pairs = self.pairs.iter();
        wakers.extend(pairs.map(|pair| waker(pair.socket(), pair.has_unsent())));
    }

    fn awake(&mut self) {}

    /// One Flush covers the commands completed on all queues: NVM Command Set 1.0, 3.2.1.
    fn flush(&mut self) -> Result<(), EngineError> {
        let pair = &mut self.pairs[0];
        pair.submit(FLUSH, &self.namespace, Io::Flush).map_err(HostError::from)?;
        loop {
            pair.poll(&mut self.completions)?;
            if let Some(flush) = self.completions.iter().find(|done| done.token == FLUSH) {
                let status = flush.status;
                self.completions.clear();
                return if status.is_success() { Ok(()) } else { Err(EngineError::Status(status)) };
            }
            QueuePair::wait_any(std::slice::from_ref(pair), Nanos::from_secs(1))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_is_one_host_however_often_it_runs() {
        let target = |text: &str| match text.parse::<crate::subject::Target>().unwrap() {
            crate::subject::Target::NvmeTcp(target) => target,
            other => panic!("{other:?}"),
        };
        let of = |text| options(&target(text)).unwrap().host;
        let (one, other) = (of("nvme-tcp://127.0.0.1/data"), of("nvme-tcp://127.0.0.1:4421/other"));
        if std::fs::read("/etc/machine-id").is_ok_and(|it| !it.is_empty()) {
            assert_eq!((&one.nqn, one.id), (&other.nqn, other.id));
        }
        assert!(one.nqn.to_string().starts_with("nqn.2026-11.io.nearflash:bench:"), "{}", one.nqn);
        assert_eq!(of("nvme-tcp://127.0.0.1/data?host-nqn=nqn.x:h").nqn.to_string(), "nqn.x:h");
    }
}
