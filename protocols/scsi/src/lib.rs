//! SCSI without a transport: what a command block asks of a logical unit, and what its initiator is
//! told.
//!
//! Spec: SPC-4 and SBC-4 (with SAM-5 for status, attentions and numbers). Everything here is pure:
//! command blocks and parameters go in; tasks, data and sense come out. A [`Task`] is answered at
//! once, or becomes a request of the engine or a change of the control side. Knows nothing of PDUs,
//! sessions, buffers' memory or devices; `nearflash-iscsi` carries it.

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
