//! The plan of a direct client.

use nearflash_direct::Digests;
use nearflash_units::Nanos;

use crate::Dice;
use crate::misbehaviour::Misbehaviour;
use crate::workload::Mix;

/// A direct client.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// The total number of its requests.
    pub requests: u32,
    /// The maximum number of requests that it has in flight.
    pub depth: usize,
    /// The kind of its requests.
    pub digests: Digests,
    /// It is on the node's machine and asks for shared-memory rings.
    pub rings: bool,
    /// The time between two steps.
    pub think: (Nanos, Nanos),
    /// The permille of its requests that are reads of the greatest length.
    pub long_read_permille: u32,
    /// The share of its other requests that address another client's bytes. Needs keys.
    pub trespass_permille: u32,
    /// The share of its other requests that go to the blocks of hosts and initiators.
    pub field_permille: u32,
    /// Its mix of commands there. It reads in place of commands that direct does not have.
    pub mix: Mix,
    /// The share of its changes that are durable.
    pub durable_permille: u32,
    /// How often it ends its connection after making requests.
    pub leave_permille: u32,
    /// It claims the same identity for each of its connections.
    pub claims: bool,
    /// It mints seals for the blocks of hosts and initiators, uses them there, and revokes them.
    pub seals: bool,
    /// It sends messages to the owner of the files of a volume.
    pub files: bool,
    /// Some of its connections have a bearer and its own seal, in place of its key.
    pub bearers: bool,
    /// It stops receiving answers after this many requests.
    pub deaf_after: Option<u32>,
    /// It violates the protocol. The checks ignore its answers.
    pub crooked: Option<Misbehaviour>,
}

impl ClientPlan {
    /// A client that keeps the protocol and stays connected.
    pub fn plain(requests: u32) -> Self {
        Self {
            requests,
            depth: 8,
            digests: Digests::NONE,
            rings: false,
            think: (Nanos(500), Nanos::from_micros(50)),
            long_read_permille: 0,
            trespass_permille: 0,
            field_permille: 400,
            mix: Mix { tails: 0, ..Mix::USUAL },
            durable_permille: 100,
            leave_permille: 0,
            claims: true,
            seals: false,
            files: false,
            bearers: false,
            deaf_after: None,
            crooked: None,
        }
    }

    /// From the seed.
    pub fn draw(dice: &mut Dice) -> Self {
        let crooked = dice.permille(150).then(|| Misbehaviour::draw(dice, 300, &[0, 32, 64, 200]));
        let digests = Digests { header: dice.coin(), data: dice.coin() };
        Self {
            requests: u32::try_from(dice.between(20, 300)).expect("a small number"),
            depth: dice.pick(&[1, 4, 8, 32]),
            digests,
            rings: dice.permille(400),
            think: (Nanos(100), Nanos::from_micros(dice.pick(&[1, 50, 2_000]))),
            long_read_permille: dice.pick(&[0, 0, 200]),
            trespass_permille: dice.pick(&[0, 30]),
            field_permille: dice.pick(&[0, 300, 300, 900]),
            mix: Mix::draw(dice),
            durable_permille: dice.pick(&[0, 100, 1_000]),
            leave_permille: dice.pick(&[0, 0, 5, 20]),
            claims: digests.header,
            seals: dice.permille(600),
            files: !digests.header,
            bearers: digests.data,
            deaf_after: None,
            crooked,
        }
    }
}
