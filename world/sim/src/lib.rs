//! The simulator: the cores of one node or of several and the hosts around them in one thread, with
//! sockets, devices, mail between cores and time all drawn from one seed.
//!
//! The shards are those of production, on another [`World`](nearflash_shard::World). A run draws
//! from its seed the faults ([`Faults`]), the peers ([`WorkerPlan`], [`InitiatorPlan`],
//! [`ClientPlan`], [`Misbehaviour`]) and the fate of the nodes ([`Plan`]). Everything that happens is
//! one list of events in the order of their times, and the same seed gives the same run to the last
//! byte ([`Trace`]).
//!
//! Each node has a machine of its own (`machine`), with its devices, its volumes and its [`Clock`],
//! which drifts. Machines lose their power, pause, and are cut off from their hosts one by one
//! ([`MachineFaults`]). The network, the trace, the checks and the order of events are common to all.
//!
//! Each run checks the following:
//!
//! - Every command is answered once, with a possible status, or its connection was lost. A command
//!   fails because of a device only if one of its own operations failed (`failures`), and is aborted
//!   only while a function that may abort it is under way (`judge/endings`).
//! - A read returns a value that some order of events allows, for each block, over any protocol, and
//!   never another volume's bytes (`history`). Counters that only compare-and-write changes lose no
//!   step (`increments`).
//! - On the direct clients' own volume, each byte that only one client writes holds its last write,
//!   whatever others write in the same block. Words hold a value that some order of atomic operations
//!   explains (`ownership`, `words`). Once a revocation is confirmed, no request of its client has
//!   any effect. The same holds for the requests through a seal that was revoked (`witness`).
//! - A comparison fails only if the block may have held something else (`history`).
//! - From the answer to a reservation command on, exactly the excluded peers are excluded, over every
//!   protocol (`reservations`), and none of their earlier commands takes effect (`history`, `witness`,
//!   `changes`). A command answered with success has had its effect.
//! - A loss of power loses nothing durable, sector by sector (`sectors`, `history`).
//! - Each written block is at its place in its volume, and outside volumes there is nothing
//!   (`sim/places`).
//! - Each write is given to a device at most once, and never if it was answered as not done. None
//!   begins after its connection was closed. A peer that returns, over any protocol, finds none of
//!   its earlier operations under way (`witness`).
//! - While a device uses a buffer, nobody else does, and all buffers are returned. Memory that a
//!   client shares is kept until nobody uses it (`ring`).
//! - A host that keeps the protocol is never reported to have broken it, whatever other hosts do. A
//!   silent host is given up. A drain ends, and leaves nothing behind.
//!
//! A test of the seeds themselves (`tests/seeds.rs`) fails if any of this occurs too rarely: a run ended
//! early, or a fault is no longer drawn.
//!
//! This crate knows nothing about real sockets, files, clocks or threads.

mod agenda;
mod changes;
mod client;
mod dice;
mod disk;
mod failures;
mod faults;
mod files_owner;
mod history;
mod host;
mod increments;
mod initiator;
mod judge;
mod line;
mod machine;
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
pub use faults::{Betrayal, CoreFaults, DiskFaults, Faults, MachineFaults, NetworkFaults};
pub use host::misfit::MisfitPlan;
pub use host::worker_plan::WorkerPlan;
pub use initiator::initiator_plan::InitiatorPlan;
pub use machine::{Clock, NodeId};
pub use misbehaviour::Misbehaviour;
pub use node::NodeConfig;
pub use plan::Plan;
pub use run::{Report, run};
pub use sim::Sim;
pub use sim::machines::{Cut, GiveUp};
pub use trace::Trace;
pub use workload::Mix;
