//! NVMe without its transport: the structures that hosts and controllers exchange, the decoding of
//! I/O commands, and the logic of a node's controllers.
//!
//! Spec: NVMe Base 2.0 (with its Fabrics parts) and NVM Command Set 1.0. The crate is sans-IO:
//! commands, data and time go in; completions and data come out. It has no PDUs, sockets, buffers
//! or devices: `nearflash-nvme-tcp` is the transport, and the engine does the I/O.

mod address;
pub mod auth;
pub mod check;
mod command;
mod completion;
mod dsm;
mod event;
pub mod fabrics;
pub mod feature;
pub mod hosts;
pub mod identify;
mod ids;
pub mod io;
pub mod log;
mod namespaces;
mod nqn;
mod opcode;
mod previous;
pub mod property;
pub mod reservation;
pub mod serving;
mod sgl;
mod status;
mod text;
pub mod tls;

pub use address::TransportAddress;
pub use command::{Command, Fused};
pub use completion::CompletionEntry;
pub use dsm::DsmRange;
pub use event::{AsyncEvent, Notices};
pub use ids::{CommandId, ControllerId, NamespaceId, QueueId};
pub use namespaces::{NAMESPACE_ID_MAX, NamespaceEntry, NamespaceTable};
pub use nqn::{DISCOVERY_NQN, HostName, NQN_LEN_MAX, Nqn, NqnError, NqnField};
pub use opcode::{AdminOpcode, FABRICS_OPCODE, FabricsType, IoOpcode};
pub use previous::Previous;
pub use sgl::{Placement, Sgl, SglDescriptor};
pub use status::Status;
pub use text::Ascii;
