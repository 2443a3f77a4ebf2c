//! The control interface of a node: resources, calls, errors, and their documents.
//!
//! Each [`Call`] has one answer type, and each refusal is an [`ApiError`] with a stable code. Every
//! document has a schema number; within a schema, fields are only added. This crate does not depend
//! on the daemon: `client` connects to the daemon's socket, and the daemon depends on this crate.

mod access;
mod activity;
mod call;
mod chap;
pub mod check;
pub mod client;
mod device;
mod document;
mod error;
mod event;
mod host;
mod io;
mod job;
mod metrics;
pub mod process;
mod refusal;
mod reservation;
mod rules;
mod secret;
pub mod socket;
mod status;
#[cfg(test)]
mod tests;
mod token;
mod trace;
mod usage;
mod verdict;
mod volume;

pub use access::{
    CredentialCreate, CredentialInfo, CredentialList, CredentialRemove, Credentials, GrantAdd,
    GrantInfo, GrantList, GrantRevoke, GrantSeal, Grants, NewCredential, NewSeal, OneCredential,
    OneGrant,
};
pub use activity::{Activity, ActivityShow, Interval};
pub use call::{Call, Conditional, Reply, Request, Serve, parse_request};
pub use chap::{Accounts, ChapAdd, ChapInfo, ChapList, ChapMutual, ChapRemove, OneAccount};
pub use device::{
    BackingInfo, BackingState, DeviceClear, DeviceInfo, DeviceList, Devices, EraseBucket,
    ErasesInfo, FlashInfo, OneDevice, PcmInfo,
};
pub use document::{Document, SCHEMA};
pub use error::{ApiError, ErrorCode, Subject};
pub use event::{EventInfo, EventLevel, EventList, Events};
pub use host::{
    ControllerKey, HostAdd, HostAllow, HostDeny, HostList, HostRemove, HostRotate, HostUnlist,
    HostVolume, KeyedHost, KeyedHosts, OneKeyedHost, OneVolumeList, VolumesOfHost,
};
pub use io::{HostIo, Io, Latency, VolumeIo};
pub use job::{
    AwaitedNode, AwaitedReason, JobCancel, JobInfo, JobList, JobShow, JobState, JobWait, Jobs,
    NodeDrain, NodeUndrain, OneJob, OneNode, VolumeMove,
};
pub use metrics::{Metrics, MetricsShow};
pub use refusal::{RefusalReason, RefusedLogins};
pub use reservation::{
    OneReservation, RegistrantInfo, ReservationClear, ReservationInfo, ReservationList,
    Reservations,
};
pub use rules::rule;
pub use secret::SecretText;
pub use status::{
    ClientInfo, ClusterNodeInfo, ClusterView, CopyInfo, CoreInfo, HostInfo, HungCoreInfo,
    InitiatorInfo, IscsiClash, OpenAddress, PlaceInfo, Ready, Status, StatusShow, WithdrawalInfo,
};
pub use token::{
    NewToken, OneToken, ParseTokenScopeError, TokenCreate, TokenInfo, TokenList, TokenRemove,
    TokenScope, Tokens,
};
pub use trace::{
    StageSummary, StageTimes, TRACE_REQUESTS_MAX, TRACE_SECONDS_MAX, Trace, TraceRun, TracedRequest,
};
pub use usage::usage_line;
pub use verdict::{Level, Verdict};
pub use volume::{
    MirrorInfo, OneVolume, ReplicaInfo, VolumeCreate, VolumeDetail, VolumeInfo, VolumeLayout,
    VolumeList, VolumeRemove, VolumeResize, VolumeShow, VolumeState, Volumes,
};

/// The version of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that the program was built from, if the build script could determine it. It does not
/// show uncommitted changes.
pub const COMMIT: Option<&str> = option_env!("NEARFLASH_BUILD_COMMIT");

/// The version, with the commit in parentheses if it is known, to distinguish builds.
pub const BUILD: &str = env!("NEARFLASH_BUILD");
