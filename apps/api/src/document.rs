//! The fields that every document shares.

use nearflash_units::OneLine;
use serde::{Deserialize, Serialize};

use crate::{ApiError, ErrorCode, Request};

/// The schema number of all documents.
pub const SCHEMA: u32 = 1;

/// A document. The schema number is its first field.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Document<T> {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Its content.
    #[serde(flatten)]
    pub body: T,
}

impl<T: Serialize> Document<T> {
    /// A document with this content.
    pub fn new(body: T) -> Self {
        Self { schema: SCHEMA, body }
    }

    /// The document as one line, without the line terminator.
    ///
    /// # Panics
    /// Never: documents are plain data.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("documents are plain data")
    }
}

/// Parses a request's line.
///
/// # Errors
/// When it is not a request of this schema.
pub fn parse_request(line: &[u8]) -> Result<Request, ApiError> {
    // The error may quote the line, so it must be escaped.
    let refused = |error| {
        let message = format!("invalid request: {}", OneLine(error));
        ApiError::new(ErrorCode::InvalidRequest, message)
    };
    let mut value: serde_json::Value = serde_json::from_slice(line).map_err(refused)?;
    let schema = value.as_object_mut().and_then(|fields| fields.remove("schema"));
    if schema != Some(SCHEMA.into()) {
        let message = format!("a request needs schema {SCHEMA}: add \"schema\":{SCHEMA}");
        return Err(ApiError::new(ErrorCode::UnknownSchema, message));
    }
    serde_json::from_value(value).map_err(refused)
}
