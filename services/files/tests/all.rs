//! The owner of the files of a volume: what it keeps over losses of power, and what others see.

#![allow(clippy::unwrap_used)] // a failed test says where

mod device;
mod file_system;
mod growing;
mod joining;
mod losses;
mod power_cuts;
mod reader;
mod remote;
mod scopes;
mod sealing;
mod volume;
