//! Making slices know what happens to the memberships of their mirrors, before it counts.

use std::collections::BTreeMap;

use nearflash_device::MirrorKey;

use super::mirror::{Joiner, Mirror, Stage, Standing};
use super::note::Note;
use super::record::{Known, Token};
use super::{Action, Membership, Pulse, SliceKey};
use crate::mutant::Mutant;

impl Mirror {
    /// The note that the slice should have.
    fn wanted_note(&self) -> Note {
        let record = &self.known.record;
        let own = self.own.ordinal;
        let nothing = Note::of_term(own, record.term);
        let known = self.asked_note.unwrap_or(nothing);
        let mut note =
            if known.ordinal == own { known } else { Note { term: known.term, ..nothing } };
        // A slice that knows a later term than the record has its bytes, too. It is used only if the state of a
        // restored store was accepted, and goes by that from now on.
        let is_ahead = known.ordinal == own && known.term > record.term;
        note.term = record.term;
        let is_in_sync = matches!(self.standing(), Standing::Primary | Standing::Secondary);
        // The bytes of a replica in sync count: no other process has had them since it came into sync.
        if (is_in_sync || is_ahead) && !note.has(record.token) {
            note = note.with(record.token, record.token);
        }
        if let Some(token) = self.next_token().filter(|token| !note.has(*token)) {
            note = note.with(token, record.token);
        }
        if let Some(Known { record, .. }) = &self.coming {
            note.term = note.term.max(record.term);
            if !note.has(record.token) {
                note = note.with(record.token, record.token);
            }
        }
        note
    }

    /// The token of an addition that is about to be proposed, by this replica or for it.
    fn next_token(&self) -> Option<Token> {
        match self.standing() {
            Standing::Primary => self.joiner.and_then(|joiner| joiner.token),
            Standing::Out => self.keeps,
            Standing::Secondary | Standing::Suspect => None,
        }
    }

    /// Whether the slice knows all that it should.
    pub(super) fn is_noted(&self) -> bool {
        self.note == Some(self.wanted_note())
    }

    /// Whether the slice has this token.
    pub(super) fn has_noted(&self, token: Token) -> bool {
        self.note.is_some_and(|note| note.ordinal == self.own.ordinal && note.has(token))
    }

    /// Whether the slice vouches for the bytes that the record counts on. Otherwise they may be older.
    pub(super) fn may_propose(&self) -> bool {
        let token = self.known.record.token;
        let is_new = token == Token::FIRST && self.standing() == Standing::Suspect;
        self.has_noted(token) || is_new && self.note.is_some()
    }

    /// Whether the slice knows of a term in which this replica is alone.
    fn has_noted_coming(&self) -> bool {
        let is_known = |Known { record, .. }: &Known| {
            let knows_term = self.note.is_some_and(|note| note.term >= record.term);
            knows_term && self.has_noted(record.token)
        };
        self.coming.as_ref().is_some_and(is_known)
    }
}

impl Membership {
    /// Holds a record back in which this replica is alone in sync, until the slice knows its term: from
    /// then on, no other replica has all that is answered.
    pub(super) fn holds_back(&mut self, key: MirrorKey, known: &Known) -> bool {
        if self.is(Mutant::AloneUnnoted) {
            return false;
        }
        let Some(mirror) = self.mirrors.get_mut(&key) else { return false };
        let own = mirror.element();
        mirror.coming = known.record.is_alone(own).then(|| known.clone());
        mirror.coming.is_some() && !mirror.has_noted_coming()
    }

    /// Asks for the notes that slices should have.
    pub(super) fn note(&mut self) {
        let mut notes: BTreeMap<SliceKey, Vec<(MirrorKey, Note)>> = BTreeMap::new();
        for (key, mirror) in &mut self.mirrors {
            let note = mirror.wanted_note();
            if mirror.asked_note != Some(note) {
                mirror.asked_note = Some(note);
                notes.entry(mirror.own.slice).or_default().push((*key, note));
            }
        }
        self.actions.extend(notes.into_iter().map(|(slice, notes)| Action::Note(slice, notes)));
    }

    /// Does what has waited for the slices.
    pub(super) fn begin_noted(&mut self) {
        let mut begun = Vec::new();
        for (key, mirror) in &mut self.mirrors {
            let kept = mirror.keeps.filter(|token| mirror.has_noted(*token));
            if mirror.standing() == Standing::Out && kept.is_some() {
                mirror.keeps = None;
                let kept = Pulse::Kept { mirror: *key, session: mirror.session };
                self.actions.extend(mirror.primary_node().map(|to| Action::Send(to, kept)));
            }
            if mirror.has_noted_coming() {
                begun.extend(mirror.coming.take().map(|known| (*key, known)));
            }
        }
        for (key, known) in begun {
            self.adopt(key, known);
            self.tell(key);
        }
    }

    /// Tells the replica that returns which token its slice is to have.
    pub(super) fn ask_to_keep(&mut self, key: MirrorKey) {
        let Some(mirror) = self.mirrors.get(&key) else { return };
        let is_due = |it: &Joiner| it.stage == Stage::Copied && !it.has_kept;
        let Some((joiner, peer)) = mirror.joining().filter(|(it, _)| is_due(it)) else { return };
        if let Some(token) = joiner.token {
            let keep = Pulse::Keep { mirror: key, session: joiner.session, token };
            self.actions.push_back(Action::Send(peer.replica.node, keep));
        }
    }
}
