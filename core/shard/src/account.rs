//! What a connection holds of its core's pool.
//!
//! Invariant: what is given back was charged before. A breach would let one connection take what others
//! are owed, so that it ends the process.

use nearflash_engine::Need;
use nearflash_units::ByteLen;

/// One connection's account.
#[derive(Debug, Default)]
pub(crate) struct Account {
    held: ByteLen,
    /// Requests in the engine that take scratch.
    scratches: usize,
}

impl Account {
    /// Payload received, answers not yet sent, and what the engine takes for its requests.
    #[inline]
    pub(crate) fn held(&self) -> ByteLen {
        self.held
    }

    /// Whether none of its requests in the engine takes scratch.
    #[inline]
    pub(crate) fn has_no_scratch(&self) -> bool {
        self.scratches == 0
    }

    /// A buffer is taken.
    #[inline]
    pub(crate) fn charge(&mut self, len: ByteLen) {
        self.held.0 += len.0;
    }

    /// A request goes to the engine.
    #[inline]
    pub(crate) fn charge_request(&mut self, need: Need) {
        self.charge(need.len());
        self.scratches += usize::from(matches!(need, Need::Scratch(_)));
    }

    /// A buffer is back in the pool.
    #[inline]
    pub(crate) fn give_back(&mut self, len: ByteLen) {
        assert!(len <= self.held, "{len} given back, {} held", self.held);
        self.held.0 -= len.0;
    }

    /// A request has left the engine.
    #[inline]
    pub(crate) fn give_back_request(&mut self, len: ByteLen, had_scratch: bool) {
        self.give_back(len);
        if had_scratch {
            assert!(self.scratches > 0, "scratch is given back once");
            self.scratches -= 1;
        }
    }

    /// All of it is back, but for what the engine has.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: ByteLen = ByteLen(4096);

    #[test]
    fn an_account_is_empty_when_all_is_given_back() {
        let mut account = Account::default();
        account.charge(PAGE);
        account.charge_request(Need::Scratch(PAGE));
        assert!(!account.has_no_scratch());
        account.give_back_request(PAGE, true);
        account.give_back(PAGE);
        assert!(account.has_no_scratch() && account.held() == ByteLen(0));
    }

    #[test]
    #[should_panic(expected = "given back")]
    fn what_was_not_charged_is_not_given_back() {
        let mut account = Account::default();
        account.charge(PAGE);
        account.give_back(ByteLen(8192));
    }

    #[test]
    #[should_panic(expected = "once")]
    fn scratch_is_not_given_back_twice() {
        Account::default().give_back_request(ByteLen(0), true);
    }
}
