//! The fields that every document shares.

use serde::{Deserialize, Serialize};

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
