//! Files through mounts and preloaded programs, and what shares files. Most need root and `/dev/fuse`.

#![allow(clippy::unwrap_used)] // a failed test says where

mod files_shared;
mod interposer;
mod mount;
mod mount_suites;
mod path_grants;
