//! SCSI without a transport: decodes commands for logical units and encodes their results.
//!
//! Spec: SPC-4 and SBC-4 (with SAM-5 for status, unit attentions and LUNs). The crate is sans-IO:
//! command blocks and parameter lists go in; tasks, data and sense data come out. A [`Task`]
//! completes immediately, or becomes a request for the engine or a change for the control side. It
//! has no PDUs, sessions, buffer memory or devices; `nearflash-iscsi` is the transport.

mod answers;
mod attentions;
mod call;
mod cdb;
pub mod check;
mod commands;
mod copy;
mod interpret;
pub mod limits;
pub mod lun;
mod sense;
mod series;
mod status;
mod task;
mod transport_id;
mod unit;

pub use attentions::{Attentions, sense_of_attention};
pub use call::Asked;
pub use cdb::{CDB_LEN, Cdb};
pub use copy::{CopyEnd, CopyId, CopyProgress, CopyRecords, CopySegment, CopyState, CopyTask};
pub use interpret::{interpret, parameters};
pub use sense::{FieldPointer, Sense, SenseCode, SenseKey};
pub use series::{Piece, Series};
pub use status::{Failure, Status};
pub use task::{Action, ChangeTask, Reply, ReportReply, RequestTask, Task};
pub use unit::{LogicalUnit, LogicalUnits, Provisioning};

#[cfg(test)]
mod tests;
