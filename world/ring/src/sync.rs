//! Fences and orders: the processor's, or those of the model that the tests of `--cfg loom` run in.

#[cfg(all(test, loom))]
pub(crate) use loom::sync::atomic::{Ordering, fence};
#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::atomic::{Ordering, fence};
