//! Whole nodes, hosts, networks and devices in simulated time.

#![allow(clippy::unwrap_used)] // a failed test says where

mod far;
mod hangs;
mod hostile;
mod initiators;
mod mirrors;
mod scenarios;
mod seeds;
mod several;
mod shared;
mod stale;
mod traces;
