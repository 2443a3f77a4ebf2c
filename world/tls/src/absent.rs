//! The same interface in a static program, which has no OpenSSL. There are no values of these types.

use std::convert::Infallible;
use std::sync::Arc;

use crate::{Failure, Identity, KeySource, Opened, PskKey, StartError, TrafficKeys};

/// The server's end of connections.
#[derive(Debug)]
pub struct Server(Infallible);

impl Server {
    /// Not possible.
    ///
    /// # Errors
    /// Always.
    pub fn new(_: Arc<dyn KeySource>) -> Result<Self, StartError> {
        Err(StartError::Absent)
    }

    /// Not possible.
    #[must_use]
    pub fn exporting_keys(self) -> Self {
        match self.0 {}
    }

    /// Not possible.
    ///
    /// # Errors
    /// Always.
    pub fn accept(&self) -> Result<Stream, StartError> {
        match self.0 {}
    }
}

/// The client's end of connections.
#[derive(Debug)]
pub struct Client(Infallible);

impl Client {
    /// Not possible.
    ///
    /// # Errors
    /// Always.
    pub fn new() -> Result<Self, StartError> {
        Err(StartError::Absent)
    }

    /// Not possible.
    ///
    /// # Errors
    /// Always.
    pub fn connect(&self, _: &[u8], _: PskKey) -> Result<Stream, StartError> {
        match self.0 {}
    }
}

/// One end of a connection.
#[derive(Debug)]
pub struct Stream(Infallible);

#[allow(missing_docs, clippy::missing_errors_doc, reason = "there are no values of this type")]
impl Stream {
    pub const fn is_ready(&self) -> bool {
        match self.0 {}
    }

    pub const fn holds_input(&self) -> bool {
        match self.0 {}
    }

    pub fn identity(&self) -> Option<&Identity> {
        match self.0 {}
    }

    pub fn take_traffic_keys(&mut self) -> Option<TrafficKeys> {
        match self.0 {}
    }

    pub fn handshake(&mut self, _: &[u8]) -> Result<bool, Failure> {
        match self.0 {}
    }

    pub fn open(&mut self, _: &[u8], _: [&mut [u8]; 2]) -> Result<Opened, Failure> {
        match self.0 {}
    }

    pub fn seal(&mut self, _: &[u8]) -> Result<(), Failure> {
        match self.0 {}
    }

    pub fn close(&mut self) {
        match self.0 {}
    }

    pub fn output(&self) -> &[u8] {
        match self.0 {}
    }

    pub fn take_output(&mut self, _: Vec<u8>) -> Vec<u8> {
        match self.0 {}
    }
}
