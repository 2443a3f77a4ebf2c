//! The client against nodes and targets of a few lines.

#![allow(clippy::unwrap_used)] // a failed test says where

mod async_volume;
mod direct;
mod direct_model;
mod examples;
mod fake_iscsi;
mod fake_node;
mod fake_target;
mod iscsi;
mod nvme_tcp;
mod queue_pair;
mod volume;
