//! DH-HMAC-CHAP: a host, and on its request the controller, prove that they know a key, without sending it.
//!
//! Spec: NVMe Base 2.0, 8.13 (authentication) and 6.1 and 6.2 (the commands that carry the messages); RFC 7919
//! (the finite field groups). Each queue authenticates by itself: its connection is one transaction after the
//! other. [`ControllerEnd`] and [`HostEnd`] are the two ends of a queue. Messages and random bytes go in, and
//! messages come out. There are no commands, queues, clocks or sources of randomness here.
//!
//! A Diffie-Hellman computation takes milliseconds. A caller whose thread must not wait that long runs
//! [`Step`]s on another one: a step takes the end along and returns it.
//!
//! Invariants: keys, private values and shared secrets are overwritten when dropped and never printed.
//! Responses are compared in a time that does not depend on where they differ. The controller's response is
//! only sent after the host's was right. No length of a message is trusted before it is checked.

mod controller;
mod group;
mod hash;
mod host;
mod hosts;
mod key;
mod message;
mod primes;
mod response;
pub(crate) mod secret_text;
mod step;
#[cfg(test)]
mod tests;

pub use controller::ControllerEnd;
pub use group::{DhGroup, ParseDhGroupError};
pub(crate) use hash::are_equal;
pub use hash::{Hash, ParseHashError};
pub use host::{HostEnd, HostError, Next};
pub use hosts::{HostKeys, HostKeysError, Policy, RANDOM_LEN, Random};
pub use key::{Key, KeyError};
pub use message::{Explanation, MESSAGE_LEN_MAX};
pub use response::Names;
pub use step::Step;
