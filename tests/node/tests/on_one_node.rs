//! One node over real sockets. A program for each file would be linked forty times.

#![allow(clippy::unwrap_used)] // a failed test says where

mod bad_bytes;
mod bearers;
mod closed;
mod counters;
mod devices;
mod direct;
mod direct_bytes;
mod direct_tls;
mod files;
mod greedy_hosts;
mod greedy_initiators;
mod hosts;
mod in_use;
mod iscsi;
mod lasting;
mod many_cores;
mod metrics;
mod models;
mod own_initiator;
mod ownership;
mod page;
mod refusals;
mod remote;
mod reservations;
mod rest;
mod rings;
mod seal_tokens;
mod seals;
mod starting;
mod strangers;
mod task_sets;
mod tls;
mod tls_host;
mod traces;
