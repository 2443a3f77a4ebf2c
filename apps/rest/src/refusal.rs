//! Refusals: an error document with its HTTP status.

use std::fmt::Display;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use nearflash_api::{ApiError, Document, ErrorCode, Reply};

/// The status of each code. Codes that are absent are the node's own faults: 500.
const STATUSES: &[(StatusCode, &[ErrorCode])] = &[
    (
        StatusCode::BAD_REQUEST,
        &[ErrorCode::InvalidRequest, ErrorCode::UnknownSchema, ErrorCode::InvalidValue],
    ),
    (StatusCode::UNAUTHORIZED, &[ErrorCode::TokenRefused]),
    (StatusCode::FORBIDDEN, &[ErrorCode::ScopeMissing]),
    (
        StatusCode::NOT_FOUND,
        &[
            ErrorCode::VolumeNotFound,
            ErrorCode::DeviceNotFound,
            ErrorCode::CredentialNotFound,
            ErrorCode::GrantNotFound,
            ErrorCode::ChapAccountNotFound,
            ErrorCode::TokenNotFound,
            ErrorCode::HostKeysNotFound,
            ErrorCode::JobNotFound,
        ],
    ),
    (
        StatusCode::CONFLICT,
        &[
            ErrorCode::VolumeExists,
            ErrorCode::VolumeInUse,
            ErrorCode::VolumeDiffers,
            ErrorCode::VolumeRemote,
            ErrorCode::WouldShrink,
            ErrorCode::WouldDestroy,
            ErrorCode::CredentialExists,
            ErrorCode::ChapAccountExists,
            ErrorCode::TokenExists,
            ErrorCode::HostKeysExist,
            ErrorCode::JobOver,
            ErrorCode::LimitReached,
            ErrorCode::NoCluster,
            ErrorCode::ClusterRefused,
        ],
    ),
    (StatusCode::PRECONDITION_FAILED, &[ErrorCode::GenerationDiffers]),
    (
        StatusCode::SERVICE_UNAVAILABLE,
        &[
            ErrorCode::Busy,
            ErrorCode::CoreSilent,
            ErrorCode::NotQuiesced,
            ErrorCode::NotDrained,
            ErrorCode::ClusterUnreachable,
        ],
    ),
    (StatusCode::INSUFFICIENT_STORAGE, &[ErrorCode::NoSpace]),
];

pub(crate) fn status_of(code: ErrorCode) -> StatusCode {
    let row = STATUSES.iter().find(|(_, codes)| codes.contains(&code));
    row.map_or(StatusCode::INTERNAL_SERVER_ERROR, |(status, _)| *status)
}

/// A request that is not executed, or failed.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) error: Box<ApiError>,
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self { status: status_of(error.code), error: Box::new(error) }
    }
}

impl Refusal {
    /// A request that HTTP itself refuses, with a status of its own.
    pub(crate) fn of_http(status: StatusCode, message: impl Display) -> Self {
        let error = ApiError::new(ErrorCode::InvalidRequest, message);
        Self { status, error: Box::new(error) }
    }

    /// A request that is not one of the documented.
    pub(crate) fn invalid(message: impl Display) -> Self {
        ApiError::new(ErrorCode::InvalidRequest, message).into()
    }

    /// A bound is reached.
    pub(crate) fn busy(message: &str) -> Self {
        ApiError::new(ErrorCode::Busy, message).into()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let extra = match self.status {
            StatusCode::UNAUTHORIZED => Some((WWW_AUTHENTICATE, "Bearer")),
            StatusCode::SERVICE_UNAVAILABLE => Some((RETRY_AFTER, "1")),
            _ => None,
        };
        let line = Document::new(Reply::<()>::Error(*self.error)).to_line() + "\n";
        let mut response = document(self.status, line);
        if let Some((name, value)) = extra {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

/// A response with a document. No cache may keep it: it can hold a secret, and it changes.
pub(crate) fn document(status: StatusCode, text: String) -> Response {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (status, headers, text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_one_status() {
        let rows = STATUSES.iter().flat_map(|(_, codes)| codes.iter());
        let mut seen = std::collections::HashSet::new();
        for code in rows {
            assert!(seen.insert(*code), "{code} has two");
        }
        let of_node: Vec<ErrorCode> = ErrorCode::TABLE
            .iter()
            .map(|(code, ..)| *code)
            .filter(|code| status_of(*code) == StatusCode::INTERNAL_SERVER_ERROR)
            .collect();
        assert_eq!(
            of_node,
            [
                ErrorCode::DeviceUnusable,
                ErrorCode::DeviceFailed,
                ErrorCode::Configuration,
                ErrorCode::Catalog,
                ErrorCode::Address,
                ErrorCode::System,
                ErrorCode::Unknown,
            ]
        );
    }
}
