//! Failed proofs of initiators, by the address that they come from. CHAP secrets are chosen by people, and
//! connections are cheap, so the delay of each answer alone does not bound the guesses of an address.
//!
//! An address with too many failed proofs within a minute gets no new initiator in until the minute is over: a
//! right proof is refused as a wrong one is, so that the guesses of this minute are worth nothing. An account that
//! has logged in from that address before still gets in, and so does everybody at other addresses.

use std::collections::{HashMap, VecDeque};

use nearflash_session::Origin;
use nearflash_units::Nanos;

/// The failed proofs of an address within [`SPAN`] after which none counts any more.
pub(crate) const FAILURES_MAX: u32 = 120;

/// The time over which failed proofs are counted.
const SPAN: Nanos = Nanos::from_secs(60);

/// The addresses whose failed proofs are counted. If there are more, those whose time is over are forgotten, and
/// then all.
const ORIGINS_MAX: usize = 1024;

/// The accounts that are remembered with an address from which they logged in.
const KNOWN_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Guesses {
    /// The failures of each address, and when their time began.
    failures: HashMap<Origin, (u32, Nanos)>,
    /// The accounts that have logged in, the latest last.
    known: VecDeque<(Origin, Box<str>)>,
}

impl Guesses {
    /// A proof from that address was wrong.
    pub(crate) fn failed(&mut self, origin: Origin, now: Nanos) {
        if self.failures.len() >= ORIGINS_MAX && !self.failures.contains_key(&origin) {
            self.failures.retain(|_, (_, since)| now.since(*since) < SPAN);
            if self.failures.len() >= ORIGINS_MAX {
                self.failures.clear();
            }
        }
        let (count, since) = self.failures.entry(origin).or_insert((0, now));
        if now.since(*since) >= SPAN {
            (*count, *since) = (0, now);
        }
        *count = count.saturating_add(1);
    }

    /// Whether a right proof of the account counts.
    pub(crate) fn may_enter(&self, origin: Origin, account: &str, now: Nanos) -> bool {
        let is_guessing = self
            .failures
            .get(&origin)
            .is_some_and(|(count, since)| *count >= FAILURES_MAX && now.since(*since) < SPAN);
        !is_guessing || self.known.iter().any(|(at, known)| *at == origin && **known == *account)
    }

    /// The account has logged in.
    pub(crate) fn entered(&mut self, origin: Origin, account: &str) {
        self.known.retain(|(at, known)| *at != origin || **known != *account);
        if self.known.len() >= KNOWN_MAX {
            self.known.pop_front();
        }
        self.known.push_back((origin, account.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(last: u8) -> Origin {
        Origin::of([192, 0, 2, last].into())
    }

    #[test]
    fn guesses_of_an_address_count_for_nothing_and_keep_no_rightful_host_out() {
        let mut guesses = Guesses::default();
        let start = Nanos::from_secs(9);
        guesses.entered(at(1), "friend");
        for _ in 1..FAILURES_MAX {
            guesses.failed(at(1), start);
        }
        assert!(guesses.may_enter(at(1), "new", start));
        guesses.failed(at(1), start);
        assert!(!guesses.may_enter(at(1), "new", start));
        assert!(
            guesses.may_enter(at(1), "friend", start) && guesses.may_enter(at(2), "new", start)
        );
        let later = start.plus(SPAN);
        assert!(guesses.may_enter(at(1), "new", later));
        guesses.failed(at(1), later);
        assert!(guesses.may_enter(at(1), "new", later), "the count begins anew");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut guesses = Guesses::default();
        for number in 0..3000u32 {
            let origin = Origin::User(number);
            guesses.failed(origin, Nanos(0));
            guesses.entered(origin, "account");
        }
        assert!(guesses.failures.len() <= ORIGINS_MAX && guesses.known.len() == KNOWN_MAX);
    }
}
