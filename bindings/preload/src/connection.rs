//! A connection of the process: its nodes, and the seals of the files that were used last.

mod asking;
mod node;
mod pieces;
mod syncing;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nearflash::direct::{Handle, Handover, Status, WRITTEN_IOCTL};
use rustix::fs::OFlags;
use rustix::ioctl::{NoArg, Opcode, ioctl};
use rustix::rand::{GetRandomFlags, getrandom};

use self::node::{Node, NodeTrouble};
use self::syncing::Size;
use crate::file::{FileId, Known};
use crate::report::Way;
use crate::work::{DSYNC, Work};

/// The most files whose seals a connection keeps. The one that was not used for longest is given up first.
const FILES_MAX: usize = 1024;
const NODES_MAX: usize = 4;
/// The number of calls behind the end of a seal after which another seal is asked for, if the file has
/// grown.
const MISSES_MAX: u32 = 4;
/// The numbers of calls after which a refused seal is asked for again.
const REFUSED_CALLS: std::ops::RangeInclusive<u32> = 16..=4096;
/// The interval at which a writer tells the mount that it has written.
const TELL_PERIOD: Duration = Duration::from_secs(1);
/// The length of a whole block, which a seal covers.
const BLOCK_LEN: u64 = 4096;

/// A call, and what the kernel knows of its descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) file: Known<'a>,
    pub(crate) flags: OFlags,
    pub(crate) work: Work<'a>,
}

/// The reason why a call was not carried out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Trouble {
    /// The file is not one of a mount with seals.
    Foreign,
    /// The mount carries the call out.
    Through(Way),
    /// It is unknown whether a write has taken effect.
    Unknown,
}

/// A file, and the access mode of the descriptors that use the seal.
type Key = (FileId, u32);

enum Entry {
    Open(Open),
    /// The mount, or the node, has given no seal.
    Refused {
        /// The number of calls until it is asked again.
        left: u32,
        /// The number of calls after the next refusal.
        next: u32,
    },
}

#[derive(Clone, Copy, Debug)]
struct Open {
    node: usize,
    handle: Handle,
    reach: u64,
    /// Whether the seal is void when the kernel keeps pages: no call looks for them.
    is_without_pages: bool,
    /// The calls behind the reach since the seal was given.
    misses: u32,
    /// The number of the last call.
    used: u64,
    /// The last time that the mount was told of a write.
    told_at: Option<Instant>,
    /// For fdatasync(2).
    size: Size,
    /// For writes with `O_DSYNC`. They do not report what earlier calls have failed to do, so they know less.
    size_written: Size,
}

/// Nodes and seals. One call uses it at a time.
pub(crate) struct Connection {
    /// The life of the process that made it.
    life: u64,
    /// The identity that it claims at nodes, so that a later link ends the writes of an earlier one.
    identity: [u8; 16],
    nodes: [Option<Node>; NODES_MAX],
    files: BTreeMap<Key, Entry>,
    calls: u64,
}

impl Connection {
    fn new(life: u64) -> Option<Self> {
        let mut identity = [0; 16];
        let drawn = getrandom(&mut identity[..], GetRandomFlags::empty());
        (drawn == Ok(identity.len())).then(|| Self {
            life,
            identity,
            nodes: [const { None }; NODES_MAX],
            files: BTreeMap::new(),
            calls: 0,
        })
    }

    /// The connection of a slot, made in this life.
    pub(crate) fn renewed(slot: &mut Option<Box<Self>>, life: u64) -> Result<&mut Self, Trouble> {
        if slot.as_ref().is_some_and(|it| it.life != life)
            && let Some(parents) = slot.take()
        {
            parents.end();
        }
        if slot.is_none() {
            *slot = Self::new(life).map(Box::new);
        }
        slot.as_deref_mut().ok_or(Trouble::Through(Way::Lost))
    }

    /// Ends it. The parent's connections go on.
    fn end(self) {
        self.nodes.into_iter().flatten().for_each(Node::end);
    }

    /// Carries a call out.
    pub(crate) fn carry_out(&mut self, wanted: &Wanted<'_>) -> Result<(), Trouble> {
        let open = self.opened(wanted)?;
        check_pages(wanted, open)?;
        let is_write = wanted.work.is_write;
        let is_durable = is_write && wanted.flags.contains(DSYNC);
        if is_durable && !self.is_settled(&wanted.file, wanted.flags) {
            return Err(Trouble::Through(Way::Unsettled));
        }
        let can = |node: &&mut Node| if is_write { node.is_ours() } else { node.can_read() };
        let Some(node) = self.nodes[open.node].as_mut().filter(can) else {
            // The program has closed the descriptors.
            self.drop_node(open.node);
            return Err(Trouble::Through(Way::Lost));
        };
        let Work { memory, offset, .. } = wanted.work;
        let done = match is_write {
            true => node.write(open.handle, memory, offset, is_durable),
            false => node.read(open.handle, memory, offset),
        };
        match done {
            Ok(()) if is_write => {
                self.tell(wanted);
                // A page that came during the write may have the old bytes.
                check_pages(wanted, open)?;
            }
            Ok(()) => {}
            Err(trouble) => {
                return Err(self.failed(key(&wanted.file, wanted.flags), open, trouble));
            }
        }
        Ok(())
    }

    /// The seal for a call.
    fn opened(&mut self, wanted: &Wanted<'_>) -> Result<Open, Trouble> {
        self.calls += 1;
        let (key, calls) = (key(&wanted.file, wanted.flags), self.calls);
        let end = wanted.work.offset.checked_add(len(wanted)).ok_or(Trouble::Foreign)?;
        let is_within = end <= wanted.file.size / BLOCK_LEN * BLOCK_LEN;
        let renews = match self.files.get_mut(&key) {
            Some(Entry::Open(open)) if end <= open.reach => {
                open.used = calls;
                return Ok(*open);
            }
            Some(Entry::Open(open)) => {
                // A file that grows all the time is not sealed anew for each call.
                open.misses += u32::from(is_within);
                open.misses >= MISSES_MAX
            }
            Some(Entry::Refused { left, .. }) if *left > 0 => {
                *left -= 1;
                return Err(Trouble::Through(Way::Refused));
            }
            Some(Entry::Refused { .. }) => true,
            None => is_within,
        };
        if !renews || !is_within {
            return Err(Trouble::Through(Way::Beyond));
        }
        let open = self.ask(wanted)?;
        if end <= open.reach { Ok(open) } else { Err(Trouble::Through(Way::Beyond)) }
    }

    /// Asks the mount for a seal, and opens it.
    fn ask(&mut self, wanted: &Wanted<'_>) -> Result<Open, Trouble> {
        let key = key(&wanted.file, wanted.flags);
        if node::is_too_early() {
            return Err(Trouble::Through(Way::Lost));
        }
        if !wanted.file.is_fuse() {
            return Err(Trouble::Foreign);
        }
        let Ok(asked) = asking::handover(wanted) else {
            wanted.file.is_of_foreign();
            return Err(Trouble::Foreign);
        };
        let Some((handover, is_without_pages)) = asked else { return Err(self.refused(key)) };
        let number = self.node_of(&handover)?;
        let node = self.nodes[number].as_mut().expect("it was just found");
        let handle = match node.open(&handover.seal) {
            Ok(handle) => handle,
            Err(NodeTrouble::Status(_)) => return Err(self.refused(key)),
            Err(_) => {
                self.drop_node(number);
                return Err(Trouble::Through(Way::Lost));
            }
        };
        self.make_room();
        let reach = handover.seal.terms().len();
        let used = self.calls;
        let open = Open {
            node: number,
            handle,
            reach,
            is_without_pages,
            misses: 0,
            used,
            told_at: None,
            size: Size::default(),
            size_written: Size::default(),
        };
        if let Some(Entry::Open(old)) = self.files.insert(key, Entry::Open(open)) {
            self.close(&old);
        }
        Ok(open)
    }

    /// The number of the node of a seal, which is connected to if it is a new one.
    fn node_of(&mut self, handover: &Handover) -> Result<usize, Trouble> {
        let known = self.nodes.iter().position(|node| {
            node.as_ref().is_some_and(|node| node.is_for(handover) && node.is_ours())
        });
        if let Some(known) = known {
            return Ok(known);
        }
        let number = self.nodes.iter().position(Option::is_none).unwrap_or_else(|| {
            self.drop_node(0);
            0
        });
        let node = Node::connect(handover, self.identity);
        self.nodes[number] = Some(node.ok_or(Trouble::Through(Way::Lost))?);
        Ok(number)
    }

    /// Remembers that there is no seal for now.
    fn refused(&mut self, key: Key) -> Trouble {
        let calls = match self.files.get(&key) {
            Some(Entry::Refused { next, .. }) => *next,
            _ => *REFUSED_CALLS.start(),
        };
        self.make_room();
        let entry =
            Entry::Refused { left: calls, next: calls.saturating_mul(2).min(*REFUSED_CALLS.end()) };
        if let Some(Entry::Open(old)) = self.files.insert(key, entry) {
            self.close(&old);
        }
        Trouble::Through(Way::Refused)
    }

    /// Gives up the file that was not used for longest, if there are too many.
    fn make_room(&mut self) {
        if self.files.len() < FILES_MAX {
            return;
        }
        let used = |entry: &Entry| match entry {
            Entry::Open(open) => open.used,
            Entry::Refused { .. } => 0,
        };
        let oldest = self.files.iter().min_by_key(|(_, entry)| used(entry)).map(|(key, _)| *key);
        if let Some(Entry::Open(old)) = oldest.and_then(|key| self.files.remove(&key)) {
            self.close(&old);
        }
    }

    fn close(&mut self, open: &Open) {
        if let Some(node) = self.nodes[open.node].as_mut().filter(|node| node.is_ours()) {
            node.close(open.handle);
        }
    }

    /// The link to a node is over.
    fn drop_node(&mut self, number: usize) {
        if let Some(node) = self.nodes[number].take() {
            node.end();
        }
        self.files.retain(|_, entry| !matches!(entry, Entry::Open(open) if open.node == number));
    }

    fn failed(&mut self, key: Key, open: Open, trouble: NodeTrouble) -> Trouble {
        match trouble {
            NodeTrouble::Status(status) => {
                self.files.remove(&key);
                self.close(&open);
                // The mount repeats the call, and reports the reason if it fails, too.
                let is_void = [Status::STALE_EPOCH, Status::NOT_GRANTED].contains(&status);
                Trouble::Through(if is_void { Way::Revoked } else { Way::Lost })
            }
            NodeTrouble::Lost => {
                self.drop_node(open.node);
                Trouble::Through(Way::Lost)
            }
            NodeTrouble::Unknown => {
                if let Some(node) = &mut self.nodes[open.node] {
                    node.settle();
                }
                self.drop_node(open.node);
                Trouble::Unknown
            }
        }
    }

    /// Tells the mount, once a second, that the file was written.
    fn tell(&mut self, wanted: &Wanted<'_>) {
        let Some(Entry::Open(open)) = self.files.get_mut(&key(&wanted.file, wanted.flags)) else {
            return;
        };
        let now = Instant::now();
        if open.told_at.is_none_or(|at| now.duration_since(at) >= TELL_PERIOD) {
            open.told_at = Some(now);
            // SAFETY: the command has no argument, and changes nothing of this process.
            let command = unsafe { NoArg::<{ WRITTEN_IOCTL as Opcode }>::new() };
            // SAFETY: as above. A mount that has ended does not record the time.
            let _ = unsafe { ioctl(wanted.file.fd, command) };
        }
    }
}

/// Leaves calls to the kernel whose range has pages: changed ones for a read, any for a write.
fn check_pages(wanted: &Wanted<'_>, open: Open) -> Result<(), Trouble> {
    if open.is_without_pages {
        return Ok(());
    }
    let cached = wanted.file.cached(wanted.work.offset, len(wanted));
    let is_free = match wanted.work.is_write {
        true => cached.is_some_and(|cached| cached.pages == 0),
        // A file that this process may not write is taken as it is in the volume.
        false => cached.is_none_or(|cached| cached.dirty == 0),
    };
    if is_free { Ok(()) } else { Err(Trouble::Through(Way::Cached)) }
}

fn key(file: &Known<'_>, flags: OFlags) -> Key {
    (file.file, (flags & OFlags::ACCMODE).bits())
}

fn len(wanted: &Wanted<'_>) -> u64 {
    u64::try_from(wanted.work.memory.len()).unwrap_or(u64::MAX)
}
