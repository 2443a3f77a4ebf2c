//! Peers that violate their protocol, whichever it is.

use crate::Dice;

/// A kind of protocol violation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Misbehaviour {
    /// Sends so many bytes of a valid stream, then nothing, and waits.
    Silence(usize),
    /// Sends so many valid bytes, then bytes at random.
    Noise(usize),
    /// Says all that there is to say, and one bit is wrong in so many of a hundred thousand bytes.
    Damage(u32),
}

impl Misbehaviour {
    /// From the seed: silent after any number of bytes up to `silence_max`, or noisy after one of
    /// `noise`.
    pub(crate) fn draw(dice: &mut Dice, silence_max: usize, noise: &[usize]) -> Self {
        match dice.between(0, 2) {
            0 => Self::Silence(dice.len(0, silence_max)),
            1 => Self::Noise(dice.pick(noise)),
            _ => Self::Damage(dice.pick(&[1, 20])),
        }
    }
}

/// One connection of such a one.
#[derive(Debug)]
pub(crate) struct Crook {
    how: Misbehaviour,
    /// Bytes that it still sends of what it has to say.
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

    /// Whether anything of what it has to say is still sent.
    pub(crate) fn speaks(&self) -> bool {
        self.left > 0
    }

    /// What becomes of bytes that should be sent.
    pub(crate) fn spoil(&mut self, bytes: &mut Vec<u8>) {
        bytes.truncate(self.left);
        let Misbehaviour::Damage(rate) = self.how else { return };
        for byte in bytes {
            if self.dice.between(0, 99_999) < u64::from(rate) {
                *byte ^= 1 << self.dice.between(0, 7);
            }
        }
    }

    /// So many of them were sent.
    pub(crate) fn sent(&mut self, len: usize) {
        self.left -= len;
    }

    /// What it sends when it has nothing more to say.
    pub(crate) fn noise(&mut self) -> Vec<u8> {
        let is_noisy = matches!(self.how, Misbehaviour::Noise(_)) && !self.speaks();
        let words = std::iter::repeat_with(|| self.dice.roll().to_le_bytes());
        words.take(if is_noisy { 8 } else { 0 }).flatten().collect()
    }
}
