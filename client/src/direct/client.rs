//! A node as an application sees it: where it is, and who asks.

use std::sync::Arc;

use super::credentials::Credentials;
use super::error::Error;
use super::options::{Options, QueueOptions};
use super::queue_pair::QueuePair;
use super::url::Url;
use super::volume::Volume;

/// A node that was reached, and that knows who we are. Cheap to clone; volumes and queue pairs have
/// connections of their own and outlive it.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

/// What every connection of a client is made with.
#[derive(Debug)]
#[expect(dead_code, reason = "connections are made with it")]
struct Shared {
    url: Url,
    credentials: Credentials,
    options: Options,
    /// Until there are connections, there is no client.
    never: std::convert::Infallible,
}

impl Client {
    /// Reaches a node, and proves who we are. `url` is `direct://HOST:PORT[/VOLUME]`, or
    /// `direct+local:PATH.sock[/VOLUME]` for a node of this machine, with the options of [`Url`].
    /// Credentials given here go before those that the URL names.
    ///
    /// # Errors
    /// When the URL is none, nobody listens there, or the node does not let us in.
    pub fn connect(url: &str, credentials: Credentials) -> Result<Self, Error> {
        Self::connect_with(url, credentials, Options::default())
    }

    /// As [`Self::connect`], with another patience.
    ///
    /// # Errors
    /// As there.
    pub fn connect_with(url: &str, _: Credentials, _: Options) -> Result<Self, Error> {
        let url: Url = url.parse()?;
        let source = Arc::new(std::io::ErrorKind::Unsupported.into());
        Err(Error::Unreachable { place: url.place.to_string(), source })
    }

    /// The volume that the URL named.
    pub fn volume_name(&self) -> Option<&str> {
        match self.shared.never {}
    }

    /// Opens a volume for blocking calls from any number of threads.
    ///
    /// # Errors
    /// When there is no such volume, or no right to it, or the node cannot be reached.
    pub fn open(&self, _volume: &str) -> Result<Volume, Error> {
        match self.shared.never {}
    }

    /// Opens a volume for many operations in flight from one thread.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn queue_pair(&self, _volume: &str, _: QueueOptions) -> Result<QueuePair, Error> {
        match self.shared.never {}
    }
}
