//! Hosts and initiators that compete for a volume: they register, reserve, preempt one another and
//! release, each with a key of its own.

use nearflash_request::ReservationType;

use crate::Dice;

/// One of several peers that compete for the same volumes.
#[derive(Clone, Debug)]
pub(crate) struct Rival {
    pub(crate) own: u64,
    /// The keys of all rivals, and some that nobody has.
    pub(crate) all: Vec<u64>,
}

impl Rival {
    /// `count` rivals.
    pub(crate) fn several(count: u64) -> impl Iterator<Item = Self> {
        let all: Vec<u64> = (0..=count + 1).collect();
        (1..=count).map(move |own| Self { own, all: all.clone() })
    }
}

/// A reservation command of a rival. It includes keys where they may be wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Move {
    /// Registers, whatever the earlier registration.
    Register {
        persist: bool,
    },
    Unregister,
    Reserve(ReservationType),
    Release(ReservationType),
    Clear,
    Preempt {
        victim: u64,
        reservation: ReservationType,
        abort: bool,
    },
}

impl Move {
    pub(crate) fn draw(dice: &mut Dice, rival: &Rival) -> Self {
        let reservation = dice.pick(&ReservationType::ALL);
        match dice.between(0, 11) {
            0..=3 => Self::Register { persist: dice.coin() },
            4 => Self::Unregister,
            5..=7 => Self::Reserve(reservation),
            8 => Self::Release(reservation),
            9 | 10 => {
                let victim = dice.pick(&rival.all);
                Self::Preempt { victim, reservation, abort: dice.coin() }
            }
            _ => Self::Clear,
        }
    }
}
