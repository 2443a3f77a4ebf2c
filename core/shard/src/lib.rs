//! One core of the node: its connections, its engine and its buffers, driven turn by turn.
//!
//! A shard is pure: it sees sockets, devices, time and other cores only through [`World`], so the
//! same code runs under the reactor in production and under the simulator in tests. It connects
//! sessions with the engine: it passes bytes to sessions, requests to the engine, and answers back
//! to sessions, and sends once per connection and turn.
//!
//! This crate knows nothing about system calls, files or configuration.

mod arrival;
mod associations;
mod authentication;
mod changes;
mod claim;
mod connection;
mod connections;
mod controllers;
mod direct;
mod door;
mod files;
mod gauges;
mod guesses;
mod identities;
mod iscsi;
mod leftover;
mod life;
mod lifecycle;
mod lists;
mod message;
mod mirroring;
mod notice;
mod peers;
mod places;
mod progress;
mod receive;
mod rings;
mod seals;
mod send;
mod serve;
mod session;
mod shard;
mod tls;
mod trace;
mod world;

pub use arrival::AGE_MAX;
pub use changes::CHANGES_PER_VOLUME_MAX;
pub use claim::Claim;
pub use connection::Connection;
pub use direct::{DirectConfig, USERS_MAX};
pub use door::{Door, Peer};
pub use gauges::{Gauges, Protocol, Reading};
pub use iscsi::IscsiConfig;
pub use leftover::LEFTOVER_MAX;
pub use message::{ClientPlace, Message};
pub use notice::{ConnectedClient, ConnectedHost, ConnectedInitiator, Notice, ShardStatus};
pub use peers::{
    CLAIM_MAX, CONNECT_MAX, FACE_SILENCE_MAX, FACES_PER_PEER_MAX, LinkError, READ_SPAN,
    RETRY_PERIOD, SILENCE_MAX, VOLUMES_PER_PEER_MAX, WRITE_SPAN,
};
pub use places::{PlaceKind, STRANGERS_MAX};
pub use progress::PROGRESS_MIN;
pub use seals::RevokeOrder;
pub use session::PeerError;
pub use shard::{CONNECTIONS_MAX, STANDSTILL_MIN, Shard, ShardConfig};
pub use tls::{TlsFault, TlsIdentity, TlsKeyRefused};
pub use trace::connection_number;
pub use world::{
    Event, Interest, PeerState, Place, Received, RingBroken, RingEntry, RingId, RingRefused,
    RingSpec, Sent, SocketId, Submitted, World,
};
