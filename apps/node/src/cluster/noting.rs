//! The threads that make slices know what happens to their mirrors.
//!
//! Each slice has one. It takes all notes that wait, and makes them durable with one flush: a node that
//! takes thousands of mirrors over waits for a few flushes, and not for thousands.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, sleep};
use std::time::Duration;

use nearflash_device::MirrorKey;
use nearflash_media::SliceNotes;
use nearflash_mirror::Term;
use nearflash_mirror::membership::{Note, Token};
use nearflash_space::slice::MirrorNote;

use crate::end_of_panic::EndOfPanic;

/// The time between two attempts to write to a device that fails.
const RETRY: Duration = Duration::from_secs(1);

/// Takes what a slice knows now.
pub(super) type OnNoted = Box<dyn FnMut(Vec<(MirrorKey, Note)>) + Send>;

/// The way to the notes of a slice.
pub(super) struct Noting {
    notes: Arc<SliceNotes>,
    sender: Sender<Order>,
}

struct Order {
    notes: Vec<(MirrorKey, Note)>,
    /// The mirrors of the node.
    current: Arc<BTreeSet<MirrorKey>>,
}

impl Noting {
    /// Begins to take notes. The thread ends when this value is gone.
    pub(super) fn start(notes: Arc<SliceNotes>, on_noted: OnNoted) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let slice = Arc::clone(&notes);
        let run = move || {
            let _guard = EndOfPanic;
            keep(&slice, &receiver, on_noted);
        };
        Builder::new().name("slice-notes".to_owned()).spawn(run)?;
        Ok(Self { notes, sender })
    }

    /// The slice's note of a mirror.
    pub(super) fn get(&self, mirror: &MirrorKey) -> Option<Note> {
        self.notes.get(mirror).map(|note| note_of(&note))
    }

    /// Makes the slice know this, durably.
    pub(super) fn note(&self, notes: Vec<(MirrorKey, Note)>, current: &Arc<BTreeSet<MirrorKey>>) {
        // The thread takes orders for as long as this value lives.
        let _ = self.sender.send(Order { notes, current: Arc::clone(current) });
    }
}

fn keep(slice: &SliceNotes, receiver: &Receiver<Order>, mut on_noted: OnNoted) {
    while let Ok(first) = receiver.recv() {
        let mut noted = Vec::new();
        for order in std::iter::once(first).chain(receiver.try_iter()) {
            noted.extend(set(slice, order));
        }
        while let Err(error) = slice.write() {
            let name = slice.device().name();
            tracing::error!(
                "cannot write the metadata of slice '{name}': {error}: check the device"
            );
            sleep(RETRY);
        }
        on_noted(noted);
    }
}

/// Changes the notes of a slice. Returns those for which there was room.
fn set(slice: &SliceNotes, Order { notes, current }: Order) -> Vec<(MirrorKey, Note)> {
    let is_current = |it: &MirrorKey| current.contains(it);
    let has_room = |(key, note): &(MirrorKey, Note)| {
        let set = slice.set(*key, note_on_slice(note), is_current);
        if let Err(error) = &set {
            tracing::error!("a mirror on slice '{}' is not served: {error}", slice.device().name());
        }
        set.is_ok()
    };
    notes.into_iter().filter(has_room).collect()
}

/// A note, as the membership knows it.
pub(crate) fn note_of(note: &MirrorNote) -> Note {
    let MirrorNote { ordinal, term, tokens } = *note;
    Note { ordinal, term: Term(term), tokens: tokens.map(|token| token.map(Token)) }
}

fn note_on_slice(note: &Note) -> MirrorNote {
    let Note { ordinal, term, tokens } = *note;
    MirrorNote { ordinal, term: term.0, tokens: tokens.map(|token| token.map(|it| it.0)) }
}
