//! A logical unit over iSCSI, through our own initiator.
//!
//! The initiator repeats commands that the target answers with TASK SET FULL, BUSY or a unit
//! attention; their latency counts from the first submission. A unit that grows during the run is
//! measured at its old size.

use std::sync::Arc;

use nearflash::iscsi::{
    Account, Buffer, ConnectionOptions, Digests, InitiatorError, Io, IoCompletion, LogicalUnit,
    Options, Session, Token, account_from_file, mutual_account_from_files,
};
use nearflash_units::{ByteLen, Lba, Nanos};
use rustix::event::PollFd;

use super::{Done, Engine, EngineError, Needs, Opener, Slot, waker};
use crate::BenchError;
use crate::options_error::OptionsError;
use crate::subject::IscsiTarget;
use crate::workload::{Direction, Op};

/// The token of a flush, which no slot has.
const FLUSH: Token = Token::MAX;
/// InitiatorName, for targets that admit initiators by name.
const INITIATOR: &str = "iqn.2026-11.io.nearflash:bench";
/// Maximum number of operations in flight per connection.
const DEPTH_MAX: usize = 4095;

/// A reachable target and the logical unit to measure; opens [`IscsiEngine`]s.
pub struct IscsiRemote {
    options: Options,
    sessions_per_job: usize,
    unit: LogicalUnit,
}

impl IscsiRemote {
    /// Connects, and checks that the target supports the run.
    ///
    /// # Errors
    /// When the target cannot be reached, refuses, or does not support the run.
    pub fn connect(target: &IscsiTarget, needs: Needs) -> Result<Self, BenchError> {
        let options = options(target)?;
        let asking = ConnectionOptions::for_ops(1, ByteLen(0)).buffer_count(0);
        let mut session = Session::connect(&options, asking)?;
        let unit = session.logical_unit(target.lun)?;
        let window = session.window();
        session.log_out()?;
        let sessions_per_job = usize::from(target.sessions);
        let remote = Self { options, sessions_per_job, unit };
        remote.check(needs, window)?;
        Ok(remote)
    }

    /// The unit's size.
    pub fn len(&self) -> ByteLen {
        self.unit.len()
    }

    /// Whether the unit has no blocks.
    pub fn is_empty(&self) -> bool {
        self.unit.is_empty()
    }

    fn check(&self, needs: Needs, window: u32) -> Result<(), OptionsError> {
        let LogicalUnit { block_size, transfer_len_max: max, .. } = self.unit;
        if !(block_size.divides(needs.op_len) && block_size.divides(needs.offset)) {
            let block_len = ByteLen(u64::from(block_size.bytes()));
            return Err(OptionsError::PartOfBlock { op_len: needs.op_len, block_len });
        }
        if needs.op_len > max {
            return Err(OptionsError::OpTooLong { op_len: needs.op_len, max });
        }
        let depth = needs.depth.div_ceil(self.sessions_per_job);
        let window = usize::try_from(window).expect("usize is at least 32 bits wide");
        let depth_max = window.min(DEPTH_MAX);
        if depth > depth_max {
            return Err(OptionsError::DeeperThanWindow { depth, max: depth_max });
        }
        Ok(())
    }
}

impl Opener for IscsiRemote {
    type Engine = IscsiEngine;

    fn open(&self, depth: usize, op_len: ByteLen) -> Result<IscsiEngine, BenchError> {
        let links = self.sessions_per_job * usize::from(self.options.connections);
        let link_depth = u16::try_from(depth.div_ceil(links)).expect("checked: a session's window");
        // One more for a flush, which has no slot.
        let room = ConnectionOptions::for_ops(link_depth, op_len).depth(link_depth + 1);
        let mut sessions = (0..self.sessions_per_job)
            .map(|_| Session::connect(&self.options, room))
            .collect::<Result<Vec<_>, InitiatorError>>()?;
        // Clears pending unit attentions before the first read or write.
        for session in &mut sessions {
            session.logical_unit(self.unit.lun)?;
        }
        let target = format!("{} at {}", self.options.target, self.options.address);
        Ok(IscsiEngine::new(sessions, target, self.unit, (depth, op_len)))
    }
}

fn options(target: &IscsiTarget) -> Result<Options, BenchError> {
    let resolved = nearflash::resolve(&target.host, target.port);
    let failed = |source| InitiatorError::Resolve { host: target.host.clone(), source };
    let address = resolved.map_err(failed)?[0];
    Ok(Options::new(address, &target.name)
        .initiator(INITIATOR.to_owned())
        .account(account(target)?.map(Arc::new))
        .digests(Digests { header: target.header_digest, data: target.data_digest })
        .connections(target.connections))
}

fn account(target: &IscsiTarget) -> Result<Option<Account>, BenchError> {
    let Some(account) = &target.account else { return Ok(None) };
    let own = (account.user.as_str(), account.secret_file.as_path());
    Ok(Some(match &target.mutual {
        None => account_from_file(own.0, own.1)?,
        Some(node) => mutual_account_from_files(own, (&node.user, &node.secret_file))?,
    }))
}

/// The engine: slots are distributed over sessions, and over the connections of each.
pub struct IscsiEngine {
    sessions: Vec<Session>,
    /// Name and address of the target.
    target: Arc<str>,
    unit: LogicalUnit,
    /// By slot.
    buffers: Vec<Buffer>,
    op_len: usize,
    completions: Vec<IoCompletion>,
}

impl IscsiEngine {
    fn new(
        mut sessions: Vec<Session>,
        target: String,
        unit: LogicalUnit,
        (depth, op_len): (usize, ByteLen),
    ) -> Self {
        let count = sessions.len();
        let buffers = (0..depth)
            .map(|slot| {
                let session = &mut sessions[slot % count];
                let connection = slot / count % session.connections();
                let buffer = session.take_buffer(connection, op_len);
                buffer.expect("a connection has memory for its slots")
            })
            .collect();
        let completions = Vec::with_capacity(depth);
        let (target, op_len) = (target.into(), op_len.to_usize());
        Self { sessions, target, unit, buffers, op_len, completions }
    }

    fn session_of(&self, slot: Slot) -> usize {
        slot % self.sessions.len()
    }
}

impl Engine for IscsiEngine {
    fn buffer(&self, slot: Slot) -> &[u8] {
        &self.sessions[self.session_of(slot)].bytes(self.buffers[slot])[..self.op_len]
    }

    fn buffer_mut(&mut self, slot: Slot) -> &mut [u8] {
        let session = self.session_of(slot);
        &mut self.sessions[session].bytes_mut(self.buffers[slot])[..self.op_len]
    }

    #[inline]
    fn submit(&mut self, slot: Slot, op: Op) {
        let session = self.session_of(slot);
        let start = Lba(op.offset.0 >> self.unit.block_size.shift());
        let count = self.unit.block_size.blocks_in(op.len);
        let buffer = self.buffers[slot];
        let io = match op.direction {
            Direction::Read => Io::Read { start, count, buffer },
            Direction::Write => Io::Write { start, count, buffer, force_unit_access: false },
        };
        let token = ByteLen::from_usize(slot).0;
        // A lost session refuses the command; the next poll reports the reason.
        let _ = self.sessions[session].submit(token, &self.unit, io);
    }

    #[inline]
    fn poll(&mut self, done: &mut Vec<Done>) -> Result<(), EngineError> {
        for session in &mut self.sessions {
            session.poll(&mut self.completions)?;
        }
        done.extend(self.completions.drain(..).map(|completion| Done {
            slot: ByteLen(completion.token).to_usize(),
            result: match completion.status {
                status if status.is_good() => Ok(()),
                status => Err(EngineError::Task { target: Arc::clone(&self.target), status }),
            },
        }));
        Ok(())
    }

    #[inline]
    fn hand_over(&mut self) -> Result<(), EngineError> {
        for session in &mut self.sessions {
            session.send()?;
        }
        Ok(())
    }

    fn doze(&mut self) -> Result<bool, EngineError> {
        self.hand_over()?;
        // Commands to be repeated are due soon, even if nothing arrives.
        Ok(self.sessions.iter().all(|session| session.poll_timeout().is_none()))
    }

    fn wakers<'a>(&'a self, wakers: &mut Vec<PollFd<'a>>) {
        let sockets = self.sessions.iter().flat_map(Session::sockets);
        wakers.extend(sockets.map(|(socket, has_unsent)| waker(socket, has_unsent)));
    }

    fn awake(&mut self) {}

    /// One SYNCHRONIZE CACHE covers the commands completed on all connections: SBC-3, 5.22.
    fn flush(&mut self) -> Result<(), EngineError> {
        let session = &mut self.sessions[0];
        session.submit(FLUSH, &self.unit, Io::Flush).map_err(InitiatorError::from)?;
        loop {
            session.poll(&mut self.completions)?;
            if let Some(flush) = self.completions.iter().find(|done| done.token == FLUSH) {
                let status = flush.status;
                self.completions.clear();
                return match status.is_good() {
                    true => Ok(()),
                    false => Err(EngineError::Task { target: Arc::clone(&self.target), status }),
                };
            }
            Session::wait_any(std::slice::from_ref(session), Nanos::from_secs(1))?;
        }
    }
}
