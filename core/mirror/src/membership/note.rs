//! A slice's note of a mirror whose replica is on it.
//!
//! The records of the cluster's store and the bytes of a slice can go back independently of each other:
//! the store is restored from a snapshot, a slice from a copy. So a slice keeps a [`Note`] of each mirror,
//! durably, next to the bytes. A node compares it with the record before it uses the slice.
//!
//! The *term* shows that the store has gone back. A replica that is alone in sync answers nothing in a
//! term that its slice does not know; every other term is noted soon after it has begun.
//!
//! The *token* shows that the bytes have gone back. It is drawn at random when a replica is added to the
//! membership, when both replicas are equal and flushed, and both slices have it before the record does.
//! What a slice with this token lacks was therefore written later, while the other replica was in sync.

use super::record::{Record, Token};
use crate::table::Term;

/// The tokens that a slice has of a mirror: that of the record, and the one of an addition that may have
/// taken effect or not.
pub type Tokens = [Option<Token>; 2];

/// A slice's note of a mirror.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Note {
    /// The ordinal of the replica on the slice.
    pub ordinal: u32,
    /// The highest term that this replica knew.
    pub term: Term,
    /// The tokens that its bytes have.
    pub tokens: Tokens,
}

/// Whether a slice and a record fit each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoteVerdict {
    /// They do.
    Good,
    /// The slice knows a later term. The store has gone back.
    RecordIsOlder(Term),
    /// The record counts on bytes that the slice does not have. The slice has gone back.
    SliceIsOlder,
}

/// The term that begins with the mirror. A slice may know nothing of it.
const FIRST_TERM: Term = Term(1);

impl Note {
    /// The note of a slice that knows no more than the term.
    pub(super) fn of_term(ordinal: u32, term: Term) -> Self {
        Self { ordinal, term, tokens: [None; 2] }
    }

    /// Whether the slice has the bytes that belong to this token.
    pub fn has(&self, token: Token) -> bool {
        self.tokens.contains(&Some(token))
    }

    /// The note of a slice that gets this token, too. The other one stays if the record names it.
    pub(super) fn with(self, token: Token, recorded: Token) -> Self {
        let kept = (recorded != token && self.has(recorded)).then_some(recorded);
        Self { tokens: [Some(token), kept], ..self }
    }

    /// Compares what a slice knows, as it was found, with the record. `ordinal` is that of the replica
    /// that the store has on this slice.
    pub fn verdict(found: Option<&Self>, ordinal: u32, record: &Record) -> NoteVerdict {
        if let Some(Self { term, .. }) = found.filter(|it| it.term > record.term) {
            return NoteVerdict::RecordIsOlder(*term);
        }
        let is_counted_on = record.element(ordinal).is_some();
        let own = found.filter(|it| it.ordinal == ordinal);
        let is_vouched_for = match own {
            Some(own) => own.has(record.token) || record.token == Token::FIRST,
            // A replica notes the first term before it proposes another one, and before one is handed over to it.
            None => record.term == FIRST_TERM,
        };
        match is_counted_on && !is_vouched_for {
            true => NoteVerdict::SliceIsOlder,
            false => NoteVerdict::Good,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::Element;

    fn record(term: u32, replicas: &[u32], token: Token) -> Record {
        let element = |replica: &u32| Element { replica: *replica, incarnation: 1 };
        let in_sync = replicas.iter().map(element).collect();
        let (term, primary, kept_since) = (Term(term), replicas[0], Term(0));
        Record { term, primary, in_sync, kept_since, token }
    }

    fn note(term: u32, tokens: [u64; 2]) -> Note {
        let tokens = tokens.map(|token| Some(Token(token)));
        Note { ordinal: 0, term: Term(term), tokens }
    }

    #[test]
    fn a_record_that_is_older_than_a_term_of_the_slice_is_refused() {
        let note = note(3, [7, 6]);
        let verdict = |record| Note::verdict(Some(&note), 0, &record);
        assert_eq!(verdict(record(3, &[0], Token(7))), NoteVerdict::Good);
        assert_eq!(verdict(record(4, &[0, 1], Token(6))), NoteVerdict::Good);
        let older = NoteVerdict::RecordIsOlder(Term(3));
        assert_eq!(verdict(record(2, &[0, 1], Token(7))), older);
        assert_eq!(verdict(record(2, &[1], Token(7))), older, "also if it is out of sync there");
        let of_another = Note { ordinal: 4, ..note };
        assert_eq!(Note::verdict(Some(&of_another), 0, &record(2, &[1], Token(7))), older);
    }

    #[test]
    fn a_slice_without_the_token_of_a_record_that_counts_on_it_is_refused() {
        let note = note(3, [7, 6]);
        let verdict = |record| Note::verdict(Some(&note), 0, &record);
        assert_eq!(verdict(record(5, &[0], Token(8))), NoteVerdict::SliceIsOlder);
        assert_eq!(verdict(record(5, &[1], Token(8))), NoteVerdict::Good, "it is out of sync");
        let of_another = Note { ordinal: 4, ..note };
        let found = Note::verdict(Some(&of_another), 0, &record(5, &[0, 1], Token(7)));
        assert_eq!(found, NoteVerdict::SliceIsOlder);
    }

    #[test]
    fn a_slice_that_knows_nothing_fits_a_mirror_that_has_never_changed_and_no_other() {
        let verdict = |record| Note::verdict(None, 0, &record);
        assert_eq!(verdict(record(1, &[0, 1], Token::FIRST)), NoteVerdict::Good);
        assert_eq!(verdict(record(2, &[0], Token::FIRST)), NoteVerdict::SliceIsOlder);
        assert_eq!(verdict(record(2, &[1], Token::FIRST)), NoteVerdict::Good);
    }
}
