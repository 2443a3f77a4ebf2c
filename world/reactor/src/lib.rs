//! One core's reactor: sockets, devices, timers and messages on one io_uring, and the loop that
//! turns a shard. It is the only part of the data path that makes system calls.
//!
//! The reactor knows nothing about protocols, volumes or permissions: it moves bytes between a
//! shard and the kernel. At addresses with TLS, the shard's bytes are the plaintext.
//!
//! Next to it is the other end of the cores: the delivery of publications and messages ([`Courier`]), the answers
//! to questions ([`Replies`]), and the counters ([`Ledger`]).
//!
//! Io_uring is required; see [`StartError`] for systems that forbid it.
#![allow(unsafe_code)] // raw sockets and the ring; every block says why it is sound

mod acceptor;
mod arena;
mod asleep;
mod clock;
mod courier;
mod devices;
mod handshake_input;
mod kernel_tls;
mod ledger;
mod listeners;
mod mailbox;
mod progress;
mod reactor;
mod replies;
mod rings;
mod secured;
mod secured_table;
mod sockets;
mod spin;
mod ticket;
mod tls;
mod token;
mod unsent;

pub use acceptor::Records;
pub use clock::Epoch;
pub use courier::{Courier, Mailbox};
pub use ledger::{Ledger, Metered, Totals, VolumeFigures};
pub use listeners::{Listener, ListeningSocket};
pub use mailbox::Sender;
pub use reactor::{NoticeSink, Reactor, ReactorConfig, StartError};
pub use replies::{PATIENCE, Replies, Reply, STATUS_PATIENCE, Then};
pub use rings::{RINGS_MAX, SHARED_LEN_MAX};
pub use spin::SPIN_MAX;
pub use ticket::Ticket;
pub use tls::Tls;
