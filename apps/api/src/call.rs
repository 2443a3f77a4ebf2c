//! Calls: each with its name, its one answer type, and its place in the table of all.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::access::{
    CredentialCreate, CredentialList, CredentialRemove, Credentials, GrantAdd, GrantList,
    GrantRevoke, Grants, NewCredential, OneCredential, OneGrant,
};
use crate::chap::{Accounts, ChapAdd, ChapList, ChapRemove, OneAccount};
use crate::device::{DeviceClear, OneDevice};
use crate::job::{JobCancel, JobList, JobShow, JobWait, Jobs, OneJob};
use crate::reservation::{OneReservation, ReservationClear, ReservationList, Reservations};
use crate::status::{Status, StatusShow};
use crate::volume::{OneVolume, VolumeCreate, VolumeList, VolumeRemove, VolumeResize, Volumes};
use crate::{ApiError, Document};

/// A question or a change that a node answers.
pub trait Call: Into<Request> {
    /// The answer.
    type Answer: fmt::Debug + Serialize + DeserializeOwned;

    /// The `command` of its document.
    const NAME: &'static str;
}

/// Answers calls of one type.
pub trait Serve<C: Call> {
    /// Does what is asked.
    ///
    /// # Errors
    /// When it is refused or fails.
    fn serve(&self, call: C) -> Result<C::Answer, ApiError>;
}

/// Any call, as its document holds it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
#[allow(missing_docs)] // each variant is the call of its name
pub enum Request {
    #[serde(rename = "status")]
    StatusShow(StatusShow),
    VolumeCreate(VolumeCreate),
    VolumeList(VolumeList),
    VolumeResize(VolumeResize),
    VolumeRemove(VolumeRemove),
    CredentialCreate(CredentialCreate),
    CredentialList(CredentialList),
    CredentialRemove(CredentialRemove),
    GrantAdd(GrantAdd),
    GrantList(GrantList),
    GrantRevoke(GrantRevoke),
    ChapAdd(ChapAdd),
    ChapList(ChapList),
    ChapRemove(ChapRemove),
    ReservationList(ReservationList),
    ReservationClear(ReservationClear),
    DeviceClear(DeviceClear),
    JobList(JobList),
    JobShow(JobShow),
    JobCancel(JobCancel),
    JobWait(JobWait),
}

/// What a request is answered with.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply<A> {
    /// It was done.
    Answer(A),
    /// It was refused, or failed.
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

            /// The name of this one.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$call(_) => $call::NAME,)*
                }
            }

            /// The answer's line, without its end. It may hold a secret.
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
        }
    };
}

calls! {
    "status": StatusShow => Status,
    "volume-create": VolumeCreate => OneVolume,
    "volume-list": VolumeList => Volumes,
    "volume-resize": VolumeResize => OneVolume,
    "volume-remove": VolumeRemove => OneVolume,
    "credential-create": CredentialCreate => NewCredential,
    "credential-list": CredentialList => Credentials,
    "credential-remove": CredentialRemove => OneCredential,
    "grant-add": GrantAdd => OneGrant,
    "grant-list": GrantList => Grants,
    "grant-revoke": GrantRevoke => OneGrant,
    "chap-add": ChapAdd => OneAccount,
    "chap-list": ChapList => Accounts,
    "chap-remove": ChapRemove => OneAccount,
    "reservation-list": ReservationList => Reservations,
    "reservation-clear": ReservationClear => OneReservation,
    "device-clear": DeviceClear => OneDevice,
    "job-list": JobList => Jobs,
    "job-show": JobShow => OneJob,
    "job-cancel": JobCancel => OneJob,
    "job-wait": JobWait => OneJob,
}

fn to_line<A: Serialize>(answer: A) -> Zeroizing<String> {
    Zeroizing::new(Document::new(Reply::Answer(answer)).to_line())
}
