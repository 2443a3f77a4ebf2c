//! Fences and orders: the processor's, or those of loom's model in tests with `--cfg loom`.

#[cfg(all(test, loom))]
pub(crate) use loom::sync::atomic::{Ordering, fence};
#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::atomic::{Ordering, fence};
