//! The cluster's store: usually etcd on the first three machines, started and supervised by this program.
//!
//! `init` makes the first member, with the cluster's certificates and its token; `join` adds a
//! member as a learner, and promotes it when it has caught up; `status` asks every member. The
//! [`Supervisor`] starts etcd again when it ends. etcd runs in a session of its own and outlives
//! the node's process, so that a restart of a node is no failure of etcd.
//!
//! A cluster may also use an etcd that exists already, see `external.rs`. Then all machines are
//! clients, and nothing is supervised.
//!
//! Everything lies in the folder `etcd` of the data directory: see `member.rs`. The
//! certificates do not expire, because a cluster must not stop when a clock is wrong.
//!
//! A node uses the store through [`Calls`], and hears of the other nodes through [`Pulses`]. This crate carries
//! out what the machines of `core` decide. It must not know cores, sessions, the node's catalog or its
//! control interface.

mod accept;
mod access;
mod adopt;
mod calls;
mod client;
mod clock;
mod error;
mod etcd;
mod external;
mod full;
mod init;
mod join;
mod listen;
mod member;
mod pki;
mod pulse;
mod remove;
mod seal;
mod status;
mod stored;
mod supervisor;
#[cfg(test)]
mod tests;
mod token;
mod told;

pub use accept::{Kept, Restored, accept_restored};
pub use access::StoreAccess;
pub use adopt::{Adopted, adopt_access};
pub use calls::{Calls, Members, Swap};
pub use clock::{boot_time, now};
pub use error::{ClusterError, StoreError};
pub use etcd::kill_etcd;
pub use external::{EtcdUrl, ParseEtcdUrlError};
pub use init::{InitOptions, Initialized, Renewed, init, token};
pub use join::{JoinOptions, Joined, join};
pub use listen::{Listen, ParseListenError};
pub use member::Role;
pub use pulse::{OnRefused, PulseConfig, PulseError, PulseEvent, Pulses};
pub use remove::{
    Removed, RemovedMachine, Repaired, Upgraded, loss, remove, remove_machine, repair, upgrade,
};
pub use status::{ClusterStatus, MemberStatus, NodeStatus, StatusPart, status};
pub use stored::{known, mirror_record, record_of};
pub use supervisor::Supervisor;
pub use token::{TokenError, read_token};
pub use told::{Absence, OnTables, Told, View};

/// Reports the progress of a command that takes longer than a moment.
pub type Say<'a> = &'a mut dyn FnMut(&str);

/// The number of members that vote. More would make each change slower, and no cluster of
/// nearflash needs them.
pub const VOTERS_MAX: usize = 3;

/// The maximum number of operations in a transaction: one of 127 mirrors has three for each.
const TXN_OPS_MAX: usize = 512;
