//! The connections of an owner: how they are established, and how they come back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use nearflash_direct::Status;
use nearflash_direct::ownership::{OwnerBlock, ROLES, Tenure, TenureStep, Term, role_identity};

use super::super::client::Client;
use super::super::error::{Error, LATE, Lost};
use super::super::options::QueueOptions;
use super::super::queue_pair::QueuePair;
use super::super::worker::{Owner, Reconnection, WORKER_DEPTH, Worker};
use super::described;
use super::taking::{observer, read_block};
use crate::backoff::Backoff;

/// The state that an owner's connections share.
pub(super) struct Holding {
    client: Client,
    volume: Box<str>,
    /// The offset of the owner block.
    offset: u64,
    tenure: Mutex<Tenure<ROLES>>,
    /// Whether another owner is known.
    is_over: AtomicBool,
    /// The name and address of the other owner, once it has written them.
    successor: OnceLock<String>,
}

impl Holding {
    pub(super) fn new(client: Client, volume: &str, offset: u64, term: Term) -> Self {
        Self {
            client,
            volume: volume.into(),
            offset,
            tenure: Mutex::new(Tenure::new(term)),
            is_over: AtomicBool::new(false),
            successor: OnceLock::new(),
        }
    }

    pub(super) fn term(&self) -> Term {
        self.tenure().term()
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Carries out the steps of a role until its connection may write. Tries again after a transient
    /// error, as a queue pair that reconnects does.
    fn establish(
        &self,
        role: usize,
        deadline: Option<Instant>,
        mut claim: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let begin = Instant::now();
        let mut backoff = Backoff::default();
        loop {
            let (step, is_over) = {
                let tenure = self.tenure();
                (tenure.step(role), tenure.successor().is_some())
            };
            let done = match step {
                None if is_over => return Err(self.superseded(deadline)),
                None => return Ok(()),
                Some(TenureStep::ReadTerm) => self.read_term(role, deadline),
                Some(TenureStep::Claim) => claim().map(|()| self.tenure().handle_claimed(role)),
            };
            let Err(error) = done else { continue };
            self.tenure().handle_lost(role);
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(LATE);
            }
            let reconnect_max = self.client.options().reconnect_max;
            let wait = backoff.next_wait().to_duration();
            let left = reconnect_max.saturating_sub(begin.elapsed());
            if !error.is_transient() || left.is_zero() {
                return Err(error);
            }
            std::thread::sleep(wait.min(left));
        }
    }

    fn read_term(&self, role: usize, deadline: Option<Instant>) -> Result<(), Error> {
        let block = self.read(deadline)?;
        let mut tenure = self.tenure();
        tenure.handle_term(role, block.term);
        if tenure.successor().is_some() {
            self.is_over.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Reads the owner block over a connection with an identity of its own.
    fn read(&self, deadline: Option<Instant>) -> Result<OwnerBlock, Error> {
        let mut worker = observer(&self.client, &self.volume, deadline)?;
        Ok(OwnerBlock::decode(&read_block(&mut worker, self.offset)?))
    }

    /// The error of every call after another process took over.
    fn superseded(&self, deadline: Option<Instant>) -> Error {
        if self.successor.get().is_none()
            && let Ok(block) = self.read(deadline)
            && let Some(owner) = block.owner()
        {
            // Another thread may have read the same.
            let _ = self.successor.set(described(Some(owner)));
        }
        let owner = self.successor.get().cloned().unwrap_or_else(|| described(None));
        Error::Superseded { volume: self.volume.to_string(), owner }
    }

    fn tenure(&self) -> MutexGuard<'_, Tenure<ROLES>> {
        self.tenure.lock().expect("nothing panics while it holds the tenure")
    }
}

/// A connection of the owner, by the number of its role.
struct Role {
    holding: Arc<Holding>,
    number: usize,
}

impl Owner for Role {
    fn check(&self, deadline: Option<Instant>) -> Result<(), Error> {
        if self.holding.is_over() { Err(self.holding.superseded(deadline)) } else { Ok(()) }
    }

    fn reconnect(&self, pair: &mut QueuePair, deadline: Option<Instant>) -> Result<(), Error> {
        let Self { holding, number } = self;
        holding.tenure().handle_lost(*number);
        let established = holding.establish(*number, deadline, || pair.reconnect_once(deadline));
        if established.is_err() {
            // The connection may have claimed the role without a read of the term afterwards.
            pair.lose(Lost::Closed);
        }
        established
    }
}

/// Claims every role for a process that has just taken the term.
pub(super) fn establish_all(holding: &Arc<Holding>, uuid: [u8; 16]) -> Result<Vec<Worker>, Error> {
    let client = &holding.client;
    let mut pairs = Vec::new();
    for role in 0..ROLES {
        let identity = role_identity(uuid, u8::try_from(role).expect("a small constant"));
        let options = QueueOptions::default().depth(WORKER_DEPTH).identity(Some(identity));
        let mut pair = None;
        holding.establish(role, None, || {
            pair = Some(client.queue_pair(&holding.volume, options)?);
            Ok(())
        })?;
        pairs.push(pair.expect("an established role has a connection"));
    }
    if pairs.iter().any(|pair| pair.info().uuid != uuid) {
        let status = Status::NO_SUCH_VOLUME;
        return Err(Error::Open { volume: holding.volume.to_string(), status });
    }
    assert!((0..ROLES).all(|role| holding.tenure().may_write(role)), "every role is established");
    let spin_max = client.options().spin_max;
    let owned = |(number, pair)| {
        let role = Role { holding: Arc::clone(holding), number };
        Worker::new(pair, spin_max, Reconnection::AsOwner(Box::new(role)))
    };
    Ok(pairs.into_iter().enumerate().map(owned).collect())
}
