//! The simulator: the node's cores and the hosts around it in one thread, with sockets, devices,
//! mail between cores and time all drawn from one seed.
//!
//! The shards are those of production, under another [`World`](nearflash_shard::World). A run draws
//! from its seed how bad the world is ([`Faults`]), who is there ([`WorkerPlan`],
//! [`InitiatorPlan`], [`ClientPlan`], [`Misbehaviour`]) and what happens to the node ([`Plan`]); then everything that happens is one
//! list of events in the order of their moments, and the same seed gives the same run to the last
//! byte ([`Trace`]).
//!
//! What is checked, always:
//!
//! - every command is answered once, with a status that it can have, or its connection was lost; a
//!   command fails because of a device only when one of its own operations failed (`failures`), and is
//!   aborted only while a function that may end it is under way (`judge/endings`);
//! - a read returns what some order of events allows, per block, and never another volume's bytes,
//!   whichever of the three doors it and the writes came in by (`history`); counters changed by
//!   compare-and-write alone lose no step (`increments`);
//! - on a volume of theirs, each byte that one direct client alone writes is what it wrote last,
//!   whatever others write beside it in the same block, and words are what some order of atomic
//!   operations makes them (`ownership`, `words`); once a revocation is confirmed, nothing of its
//!   client has any effect;
//! - a comparison fails only if something else may have been there (`history`);
//! - whom a reservation shuts out is shut out, by every door, from the moment on that its command is
//!   answered, and nobody else (`reservations`); of what it had under way nothing lands after that
//!   answer (`history`, `witness`, `changes`), and who is told that it has its way has it;
//! - when the power goes, nothing durable is lost, sector by sector (`sectors`, `history`);
//! - each block that was written lies at its place in its volume, and where no volume is, there is
//!   nothing (`sim/places`);
//! - each write is given to a device at most once, and never when it was answered as not done; none
//!   begins after its connection was closed, and who comes back, by whichever door, finds nothing of
//!   its last visit under way (`witness`);
//! - buffers that a device uses are used by nobody else; all of them return; memory that a client
//!   shares is kept until nothing uses it (`ring`);
//! - a host that keeps the protocol is never said to have broken it, whatever its neighbours do; a
//!   host that says nothing is given up; draining ends, and leaves nothing.
//!
//! That all of this comes up, and by far more often than once, is a test of the seeds themselves
//! (`tests/seeds.rs`): a run that ends early, or a fault that nobody draws any more, is a failure too.
//!
//! Knows nothing of real sockets, files, clocks or threads.

mod agenda;
mod changes;
mod client;
mod dice;
mod disk;
mod failures;
mod faults;
mod history;
mod host;
mod increments;
mod initiator;
mod judge;
mod line;
mod memory;
mod misbehaviour;
mod network;
mod node;
mod outside;
mod pipe;
mod plan;
mod reservations;
mod ring;
mod rivalry;
mod run;
mod sectors;
mod sim;
mod stamp;
mod trace;
mod witness;
mod workload;
mod world;

pub use client::client_plan::ClientPlan;
pub use dice::Dice;
pub use faults::{Betrayal, CoreFaults, DiskFaults, Faults, NetworkFaults};
pub use host::misfit::MisfitPlan;
pub use host::worker_plan::WorkerPlan;
pub use initiator::initiator_plan::InitiatorPlan;
pub use misbehaviour::Misbehaviour;
pub use node::NodeConfig;
pub use plan::Plan;
pub use run::{Report, run};
pub use sim::Sim;
pub use trace::Trace;
pub use workload::Mix;
