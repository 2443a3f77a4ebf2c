//! Peers that violate their protocol.

use crate::Dice;

/// A kind of protocol violation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Misbehaviour {
    /// Sends this many bytes of a valid stream, then nothing, and waits.
    Silence(usize),
    /// Sends this many valid bytes, then random bytes.
    Noise(usize),
    /// Sends the whole valid stream, with one wrong bit in this many of 100,000 bytes.
    Damage(u32),
}

impl Misbehaviour {
    /// Drawn from the seed: silence after up to `silence_max` bytes, noise after one of `noise`, or
    /// damage.
    pub(crate) fn draw(dice: &mut Dice, silence_max: usize, noise: &[usize]) -> Self {
        match dice.between(0, 2) {
            0 => Self::Silence(dice.len(0, silence_max)),
            1 => Self::Noise(dice.pick(noise)),
            _ => Self::Damage(dice.pick(&[1, 20])),
        }
    }
}

/// One connection of such a peer.
#[derive(Debug)]
pub(crate) struct Crook {
    how: Misbehaviour,
    /// Bytes of the valid stream that it still sends.
    left: usize,
    dice: Dice,
}

impl Crook {
    pub(crate) fn new(how: Misbehaviour, dice: Dice) -> Self {
        let left = match how {
            Misbehaviour::Silence(len) | Misbehaviour::Noise(len) => len,
            Misbehaviour::Damage(_) => usize::MAX,
        };
        Self { how, left, dice }
    }

    /// Whether it still sends bytes of the valid stream.
    pub(crate) fn speaks(&self) -> bool {
        self.left > 0
    }

    /// Applies the misbehaviour to bytes that are to be sent.
    pub(crate) fn spoil(&mut self, bytes: &mut Vec<u8>) {
        bytes.truncate(self.left);
        let Misbehaviour::Damage(rate) = self.how else { return };
        for byte in bytes {
            if self.dice.between(0, 99_999) < u64::from(rate) {
                *byte ^= 1 << self.dice.between(0, 7);
            }
        }
    }

    /// `len` bytes were sent.
    pub(crate) fn sent(&mut self, len: usize) {
        self.left -= len;
    }

    /// The bytes that it sends after the valid stream.
    pub(crate) fn noise(&mut self) -> Vec<u8> {
        let is_noisy = matches!(self.how, Misbehaviour::Noise(_)) && !self.speaks();
        let words = std::iter::repeat_with(|| self.dice.roll().to_le_bytes());
        words.take(if is_noisy { 8 } else { 0 }).flatten().collect()
    }
}
