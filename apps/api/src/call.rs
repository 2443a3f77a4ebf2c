//! Calls: each has a name, one answer type, and a row in the table of calls.

use std::fmt;

use nearflash_units::OneLine;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::access::{
    CredentialCreate, CredentialList, CredentialRemove, Credentials, GrantAdd, GrantList,
    GrantRevoke, GrantSeal, Grants, NewCredential, NewSeal, OneCredential, OneGrant,
};
use crate::activity::{Activity, ActivityShow};
use crate::chap::{Accounts, ChapAdd, ChapList, ChapRemove, OneAccount};
use crate::device::{DeviceClear, DeviceList, Devices, OneDevice};
use crate::event::{EventList, Events};
use crate::host::{
    HostAdd, HostAllow, HostDeny, HostList, HostRemove, HostRotate, HostUnlist, KeyedHosts,
    OneKeyedHost, OneVolumeList,
};
use crate::job::{
    JobCancel, JobList, JobShow, JobWait, Jobs, NodeDrain, NodeUndrain, OneJob, OneNode, VolumeMove,
};
use crate::metrics::{Metrics, MetricsShow};
use crate::reservation::{OneReservation, ReservationClear, ReservationList, Reservations};
use crate::socket::REQUEST_LEN_MAX;
use crate::status::{Status, StatusShow};
use crate::token::{NewToken, OneToken, TokenCreate, TokenList, TokenRemove, Tokens};
use crate::trace::{Trace, TraceRun};
use crate::volume::{
    OneVolume, VolumeCreate, VolumeDetail, VolumeList, VolumeRemove, VolumeResize, VolumeShow,
    Volumes,
};
use crate::{ApiError, Document, ErrorCode, SCHEMA};

/// A query or change that a node executes.
pub trait Call: Into<Request> {
    /// The answer.
    type Answer: fmt::Debug + Serialize + DeserializeOwned;

    /// The `command` field of its document.
    const NAME: &'static str;
}

/// Executes calls of one type.
pub trait Serve<C: Call> {
    /// Executes a call.
    ///
    /// # Errors
    /// When the call is refused or fails.
    fn serve(&self, call: C) -> Result<C::Answer, ApiError>;
}

/// Any call, as represented in a document.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
#[allow(missing_docs)] // each variant is the call of the same name
pub enum Request {
    #[serde(rename = "status")]
    StatusShow(StatusShow),
    #[serde(rename = "activity")]
    ActivityShow(ActivityShow),
    #[serde(rename = "trace")]
    TraceRun(TraceRun),
    /// Earlier command lines create a volume of a cluster by a call of its own, `ClusterVolumeCreate`, whose fields
    /// are some of these. Its name is understood until version 0.2.
    #[serde(alias = "cluster-volume-create")]
    VolumeCreate(VolumeCreate),
    VolumeShow(VolumeShow),
    VolumeList(VolumeList),
    VolumeResize(VolumeResize),
    VolumeRemove(VolumeRemove),
    VolumeMove(VolumeMove),
    NodeDrain(NodeDrain),
    NodeUndrain(NodeUndrain),
    CredentialCreate(CredentialCreate),
    CredentialList(CredentialList),
    CredentialRemove(CredentialRemove),
    GrantAdd(GrantAdd),
    GrantList(GrantList),
    GrantRevoke(GrantRevoke),
    GrantSeal(GrantSeal),
    ChapAdd(ChapAdd),
    ChapList(ChapList),
    ChapRemove(ChapRemove),
    HostAdd(HostAdd),
    HostRotate(HostRotate),
    HostAllow(HostAllow),
    HostDeny(HostDeny),
    HostUnlist(HostUnlist),
    HostList(HostList),
    HostRemove(HostRemove),
    ReservationList(ReservationList),
    ReservationClear(ReservationClear),
    DeviceList(DeviceList),
    DeviceClear(DeviceClear),
    TokenCreate(TokenCreate),
    TokenList(TokenList),
    TokenRemove(TokenRemove),
    JobList(JobList),
    JobShow(JobShow),
    JobCancel(JobCancel),
    JobWait(JobWait),
    MetricsShow(MetricsShow),
    EventList(EventList),
}

/// The reply to a request.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply<A> {
    /// The call succeeded.
    Answer(A),
    /// The call was refused or failed.
    Error(ApiError),
}

/// The table of calls. A variant of [`Request`] without a row does not compile, nor does a server
/// that leaves a row unanswered.
macro_rules! calls {
    ($($name:literal: $call:ident => $answer:ty,)*) => {
        $(
            impl Call for $call {
                type Answer = $answer;
                const NAME: &'static str = $name;
            }

            impl From<$call> for Request {
                fn from(call: $call) -> Self {
                    Self::$call(call)
                }
            }
        )*

        impl Request {
            /// The names of all calls.
            pub const NAMES: &[&str] = &[$($call::NAME),*];

            /// The name of this call.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$call(_) => $call::NAME,)*
                }
            }

            /// Executes the call; returns the line of the answer without its line terminator. The
            /// line can contain a secret.
            ///
            /// # Errors
            /// When the server refuses the call.
            pub fn serve_by<S>(self, server: &S) -> Result<Zeroizing<String>, ApiError>
            where
                $(S: Serve<$call>,)*
            {
                match self {
                    $(Self::$call(call) => Serve::<$call>::serve(server, call).map(to_line),)*
                }
            }

            /// Executes the call; returns the document of the answer alone, without a [`Reply`]
            /// around it. The document can contain a secret.
            ///
            /// # Errors
            /// When the server refuses the call.
            pub fn document_by<S>(self, server: &S) -> Result<Zeroizing<String>, ApiError>
            where
                $(S: Serve<$call>,)*
            {
                match self {
                    $(Self::$call(call) => Serve::<$call>::serve(server, call).map(to_document),)*
                }
            }
        }
    };
}

calls! {
    "status": StatusShow => Status,
    "activity": ActivityShow => Activity,
    "trace": TraceRun => Trace,
    "volume-create": VolumeCreate => OneVolume,
    "volume-show": VolumeShow => VolumeDetail,
    "volume-list": VolumeList => Volumes,
    "volume-resize": VolumeResize => OneVolume,
    "volume-remove": VolumeRemove => OneVolume,
    "volume-move": VolumeMove => OneJob,
    "node-drain": NodeDrain => OneJob,
    "node-undrain": NodeUndrain => OneNode,
    "credential-create": CredentialCreate => NewCredential,
    "credential-list": CredentialList => Credentials,
    "credential-remove": CredentialRemove => OneCredential,
    "grant-add": GrantAdd => OneGrant,
    "grant-list": GrantList => Grants,
    "grant-revoke": GrantRevoke => OneGrant,
    "grant-seal": GrantSeal => NewSeal,
    "chap-add": ChapAdd => OneAccount,
    "chap-list": ChapList => Accounts,
    "chap-remove": ChapRemove => OneAccount,
    "host-add": HostAdd => OneKeyedHost,
    "host-rotate": HostRotate => OneKeyedHost,
    "host-allow": HostAllow => OneVolumeList,
    "host-deny": HostDeny => OneVolumeList,
    "host-unlist": HostUnlist => OneVolumeList,
    "host-list": HostList => KeyedHosts,
    "host-remove": HostRemove => OneKeyedHost,
    "reservation-list": ReservationList => Reservations,
    "reservation-clear": ReservationClear => OneReservation,
    "device-list": DeviceList => Devices,
    "device-clear": DeviceClear => OneDevice,
    "token-create": TokenCreate => NewToken,
    "token-list": TokenList => Tokens,
    "token-remove": TokenRemove => OneToken,
    "job-list": JobList => Jobs,
    "job-show": JobShow => OneJob,
    "job-cancel": JobCancel => OneJob,
    "job-wait": JobWait => OneJob,
    "metrics-show": MetricsShow => Metrics,
    "event-list": EventList => Events,
}

fn to_document<A: Serialize>(answer: A) -> Zeroizing<String> {
    Zeroizing::new(Document::new(answer).to_line())
}

fn to_line<A: Serialize>(answer: A) -> Zeroizing<String> {
    Zeroizing::new(Document::new(Reply::Answer(answer)).to_line())
}

/// A request, and the state that it was decided on.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Conditional {
    /// The request is refused if the generation of the node's recorded state is another one. Absent if it
    /// has no condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_generation: Option<u64>,
    /// The request.
    #[serde(flatten)]
    pub request: Request,
}

impl<R: Into<Request>> From<R> for Conditional {
    fn from(request: R) -> Self {
        Self { if_generation: None, request: request.into() }
    }
}

/// Parses a request's line.
///
/// # Errors
/// When it is not a request of this schema.
pub fn parse_request(line: &[u8]) -> Result<Conditional, ApiError> {
    if line.len() >= REQUEST_LEN_MAX {
        let message = format!("a request has at most {REQUEST_LEN_MAX} bytes");
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    // The error may quote the line, so it must be escaped.
    let refused = |error| {
        let message = format!("invalid request: {}", OneLine(error));
        ApiError::new(ErrorCode::InvalidRequest, message)
    };
    let mut value: serde_json::Value = serde_json::from_slice(line).map_err(refused)?;
    let mut take = |field| value.as_object_mut().and_then(|fields| fields.remove(field));
    let (schema, if_generation) = (take("schema"), take("if_generation"));
    if schema != Some(SCHEMA.into()) {
        let message = format!("a request needs schema {SCHEMA}: add \"schema\":{SCHEMA}");
        return Err(ApiError::new(ErrorCode::UnknownSchema, message));
    }
    let if_generation = if_generation.map(serde_json::from_value).transpose().map_err(refused)?;
    Ok(Conditional { if_generation, request: serde_json::from_value(value).map_err(refused)? })
}
