//! The tenure of an owner: which of its connections may write.
//!
//! Each role has one connection. After a loss, the owner reads the term before it claims the role
//! again, so that a former owner does not end the connections of its successor. It reads the term
//! once more after the claim: only this second read allows writes.

use super::block::Term;

/// The next step of a role.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum TenureStep {
    /// Read the term over a connection with an identity of its own; then call
    /// [`Tenure::handle_term`].
    ReadTerm,
    /// Connect and claim the role; then call [`Tenure::handle_claimed`].
    Claim,
}

/// The state of an owner with `K` roles, from the swap of the term on.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Tenure<const K: usize> {
    term: Term,
    /// Another owner's term, once it was read.
    successor: Option<Term>,
    roles: [Role; K],
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Role {
    state: State,
    /// Whether the role was claimed in this term, so that the former owner's connection has ended.
    was_claimed: bool,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum State {
    /// The connection was lost.
    Lost,
    /// The term was read after the loss.
    Known,
    /// The role is claimed.
    Claimed,
    /// The term was read after the claim.
    Held,
}

impl<const K: usize> Tenure<K> {
    /// The tenure of the process that has just taken `term`.
    pub fn new(term: Term) -> Self {
        // The swap of the term was as good as a read.
        let role = Role { state: State::Known, was_claimed: false };
        Self { term, successor: None, roles: [role; K] }
    }

    /// The owner's term.
    pub fn term(&self) -> Term {
        self.term
    }

    /// The term of another owner, which ends this tenure.
    pub fn successor(&self) -> Option<Term> {
        self.successor
    }

    /// The next step of a role; `None` if it holds its connection or the tenure is over.
    pub fn step(&self, role: usize) -> Option<TenureStep> {
        match self.roles[role].state {
            _ if self.successor.is_some() => None,
            State::Held => None,
            State::Known => Some(TenureStep::Claim),
            State::Lost | State::Claimed => Some(TenureStep::ReadTerm),
        }
    }

    /// Whether the connection of a role may write.
    pub fn may_write(&self, role: usize) -> bool {
        self.successor.is_none()
            && self.roles[role].state == State::Held
            && self.roles.iter().all(|role| role.was_claimed)
    }

    /// The term was read for a role. Any other term than the owner's ends the tenure.
    pub fn handle_term(&mut self, role: usize, term: Term) {
        if term != self.term {
            self.successor = Some(term);
            return;
        }
        let role = &mut self.roles[role];
        role.state = match role.state {
            State::Lost => State::Known,
            State::Claimed => State::Held,
            state => state,
        };
    }

    /// The claim of a role is answered.
    pub fn handle_claimed(&mut self, role: usize) {
        let role = &mut self.roles[role];
        role.was_claimed = true;
        // A claim whose connection was lost meanwhile counts only for the former owner.
        if role.state == State::Known {
            role.state = State::Claimed;
        }
    }

    /// The connection of a role is lost, or its claim failed.
    pub fn handle_lost(&mut self, role: usize) {
        self.roles[role].state = State::Lost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> Tenure<2> {
        let mut tenure = Tenure::new(Term(7));
        for role in 0..2 {
            assert_eq!(tenure.step(role), Some(TenureStep::Claim));
            tenure.handle_claimed(role);
            assert_eq!(tenure.step(role), Some(TenureStep::ReadTerm));
            tenure.handle_term(role, Term(7));
        }
        tenure
    }

    #[test]
    fn no_role_writes_before_every_role_is_claimed() {
        let mut tenure = Tenure::<2>::new(Term(7));
        tenure.handle_claimed(0);
        tenure.handle_term(0, Term(7));
        assert!(!tenure.may_write(0));
        tenure.handle_claimed(1);
        assert!(tenure.may_write(0) && !tenure.may_write(1));
        tenure.handle_term(1, Term(7));
        assert!(tenure.may_write(1));
    }

    #[test]
    fn a_lost_connection_reads_the_term_before_and_after_its_claim() {
        let mut tenure = begun();
        tenure.handle_lost(1);
        assert!(tenure.may_write(0) && !tenure.may_write(1));
        assert_eq!(tenure.step(1), Some(TenureStep::ReadTerm));
        tenure.handle_term(1, Term(7));
        assert_eq!(tenure.step(1), Some(TenureStep::Claim));
        tenure.handle_claimed(1);
        assert!(!tenure.may_write(1));
        assert_eq!(tenure.step(1), Some(TenureStep::ReadTerm));
        tenure.handle_term(1, Term(7));
        assert!(tenure.may_write(1));
        assert_eq!(tenure.step(1), None);
    }

    #[test]
    fn a_connection_that_is_lost_between_claim_and_read_does_not_write() {
        let mut tenure = begun();
        tenure.handle_lost(0);
        tenure.handle_term(0, Term(7));
        tenure.handle_claimed(0);
        tenure.handle_lost(0);
        // The answer to the read that was under way.
        tenure.handle_term(0, Term(7));
        assert!(!tenure.may_write(0));
        assert_eq!(tenure.step(0), Some(TenureStep::Claim));
    }

    #[test]
    fn another_term_ends_every_role_for_good() {
        for term in [6, 8] {
            let mut tenure = begun();
            tenure.handle_lost(0);
            tenure.handle_term(0, Term(term));
            assert_eq!(tenure.successor(), Some(Term(term)));
            tenure.handle_term(0, Term(7));
            assert!(!tenure.may_write(0) && !tenure.may_write(1));
            assert_eq!((tenure.step(0), tenure.step(1)), (None, None));
        }
    }
}
