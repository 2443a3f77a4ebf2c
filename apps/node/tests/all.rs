//! A node inside the test, called as its program calls it.

#![allow(clippy::unwrap_used)] // a failed test says where

mod access;
mod chap;
mod common;
mod hosts;
mod jobs;
mod killed;
mod metrics;
mod node;
mod quiesce;
