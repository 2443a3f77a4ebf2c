//! The owners of the files of the nodes: the part of the control side that answers FILES. They answer in any
//! order, and are held up at times. Some answers come after their connection is gone.
//!
//! Checked: a message comes from a client that may read a volume whose files have an owner, and from a connection that is not known to be
//! gone; the end of each connection with messages is told once.

use std::collections::BTreeSet;

use nearflash_direct::Status;
use nearflash_direct::serving::FilesDemand;
use nearflash_direct::wire::{FILES_LEN_MAX, Rights};
use nearflash_engine::{CoreId, Owner};
use nearflash_shard::{ClientPlace, Message};
use nearflash_units::Nanos;

use crate::Dice;
use crate::machine::NodeId;
use crate::outside::{Happening, Outside};
use crate::sim::Sim;

/// How long an answer takes.
const WORK: [Nanos; 4] =
    [Nanos(0), Nanos::from_micros(1), Nanos::from_micros(100), Nanos::from_millis(20)];
/// How long an owner is held up.
const PAUSE: Nanos = Nanos::from_millis(300);
/// The share of the messages that hold the owner up.
const PAUSE_PERMILLE: u32 = 10;

/// A connection of a node.
type Caller = (NodeId, CoreId, Owner);

/// A message that is not answered.
#[derive(Debug)]
struct Call {
    due: Nanos,
    caller: Caller,
    demand: FilesDemand,
}

/// The owners of the files of all nodes.
#[derive(Debug)]
pub(crate) struct FilesOwners {
    dice: Dice,
    calls: Vec<Call>,
    callers: BTreeSet<Caller>,
    gone: BTreeSet<Caller>,
    /// By [`NodeId`].
    paused_until: Vec<Nanos>,
}

impl FilesOwners {
    pub(crate) fn new(nodes: usize, dice: Dice) -> Self {
        Self {
            dice,
            calls: Vec::new(),
            callers: BTreeSet::new(),
            gone: BTreeSet::new(),
            paused_until: vec![Nanos(0); nodes],
        }
    }

    /// Takes a message.
    pub(crate) fn take(
        &mut self,
        node: NodeId,
        place: ClientPlace,
        demand: FilesDemand,
        outside: &mut Outside,
    ) {
        let caller = (node, place.core, place.owner);
        assert!(!self.gone.contains(&caller), "{caller:?} is gone, and has a message");
        assert_eq!(demand.volume.0, node.files_id(), "a message is for a volume with an owner");
        assert!(demand.rights.has(Rights::READ) || !demand.files.is_empty(), "{demand:?}");
        self.callers.insert(caller);
        let now = outside.now;
        let paused_until = &mut self.paused_until[node.0];
        if self.dice.permille(PAUSE_PERMILLE) {
            outside.note("owner of files held up", &[]);
            *paused_until = now.plus(PAUSE);
        }
        let due = now.max(*paused_until).plus(self.dice.pick(&WORK));
        outside.agenda.push(due, Happening::FilesAnswer);
        self.calls.push(Call { due, caller, demand });
    }

    /// A connection with messages is gone. An answer that is under way may still come.
    pub(crate) fn end(&mut self, node: NodeId, place: ClientPlace) {
        let caller = (node, place.core, place.owner);
        assert!(self.callers.contains(&caller), "{caller:?} has sent no message");
        assert!(self.gone.insert(caller), "{caller:?} is gone for the second time");
    }

    /// A node has lost its power.
    pub(crate) fn forget(&mut self, id: NodeId) {
        self.calls.retain(|call| call.caller.0 != id);
        self.callers.retain(|caller| caller.0 != id);
        self.gone.retain(|caller| caller.0 != id);
    }

    /// The number of connections whose end the owners have not heard of.
    pub(crate) fn callers_left(&self) -> usize {
        self.callers.len() - self.gone.len()
    }
}

/// The answer to a message, which both ends can compute.
pub(crate) fn answer_to(message: &[u8]) -> Result<Box<[u8]>, Status> {
    let max = usize::try_from(FILES_LEN_MAX).expect("a length");
    match message.first() {
        Some(first) if first % 16 == 15 => Err(Status::UNSUPPORTED),
        _ => Ok(message
            .iter()
            .rev()
            .map(|byte| !byte)
            .chain(message.iter().copied())
            .take(max)
            .collect()),
    }
}

impl Sim {
    /// Answers the messages that are due.
    pub(crate) fn answer_files(&mut self) {
        let now = self.outside.now;
        let calls = std::mem::take(&mut self.files.calls);
        let (due, later): (Vec<Call>, Vec<Call>) =
            calls.into_iter().partition(|call| call.due <= now);
        self.files.calls = later;
        for Call { caller: (node, core, owner), demand, .. } in due {
            let answer = (demand.number, answer_to(&demand.payload));
            self.outside.post(node, None, core, Message::FilesAnswered(owner, answer));
        }
    }
}
