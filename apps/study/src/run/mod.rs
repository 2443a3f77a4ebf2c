//! Measurement: the stand, the timing, and the session that runs points.

mod command;
mod drive;
mod error;
mod file;
mod fio;
mod measure;
mod mounted;
mod node;
mod peers;
mod progress;
mod quiet;
mod session;
mod space;
mod stand;
mod stand_spec;
mod ways;

pub use session::{Ended, Session};
pub use stand::Stand;
pub use stand_spec::StandSpec;

pub(crate) use measure::OTHERS_SHARE_MAX;
pub(crate) use quiet::others_share;
