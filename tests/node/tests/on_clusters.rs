//! Clusters of nodes with their etcds: volumes, mirrors, faults. Ignored by default: they start many
//! processes.

#![allow(clippy::unwrap_used)] // a failed test says where

mod cluster;
mod cluster_faults;
mod cluster_jobs;
mod etcd_away;
mod external_etcd;
mod mirrored;
mod moves;
mod one_create;
mod one_list;
mod restored;
mod shared;
mod stale;
