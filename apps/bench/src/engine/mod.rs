//! Engines, in fio's sense: they carry out operations on a target.
//!
//! An engine has as many slots as the queue depth, each with a buffer of one operation's length. It
//! queues operations by slot, submits all queued operations at once, and reports the slots that are
//! done. It takes no measurements and makes no decisions.

mod aligned;
mod blocking;
mod direct;
mod file;
mod file_error;
mod interface;
mod iscsi;
mod null;
mod nvme_tcp;
mod opener;
mod ring;

pub use blocking::{BlockingEngine, BlockingFile};
pub use direct::{DirectEngine, DirectRemote};
pub use file::{FILE_BATCH, FileEngine, FileOptions};
pub use file_error::FileError;
use interface::waker;
pub use interface::{AnyEngine, Done, Engine, EngineError, Slot, sleep_on_all};
pub use iscsi::{IscsiEngine, IscsiRemote};
pub use null::{NullEngine, OpenNull};
pub use nvme_tcp::{Needs, NvmeTcpEngine, Remote};
pub use opener::{OpenAny, Opener};
