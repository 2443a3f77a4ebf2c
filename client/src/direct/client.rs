//! A node as an application sees it: where it is, and who asks.

use std::sync::Arc;

use super::credentials::{Credentials, CredentialsError};
use super::error::Error;
use super::link::{Link, LinkIdentity};
use super::options::{Options, QueueOptions};
use super::queue_pair::QueuePair;
use super::slots::Slots;
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
pub(super) struct Shared {
    pub(super) url: Url,
    pub(super) credentials: Credentials,
    pub(super) options: Options,
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
    pub fn connect_with(
        url: &str,
        credentials: Credentials,
        options: Options,
    ) -> Result<Self, Error> {
        Self::connect_to(url.parse()?, credentials, options)
    }

    /// As [`Self::connect_with`], with a URL that was read before.
    ///
    /// # Errors
    /// As there.
    pub fn connect_to(url: Url, credentials: Credentials, options: Options) -> Result<Self, Error> {
        let credentials = match credentials.id() {
            Some(_) => credentials,
            None => credentials_of(&url)?,
        };
        let shared = Arc::new(Shared { url, credentials, options });
        // What is wrong with the address or the key is said here, not at the first volume.
        Link::connect(&shared, LinkIdentity::draw()?, Slots::default(), 0)?.goodbye();
        Ok(Self { shared })
    }

    /// The volume that the URL named.
    pub fn volume_name(&self) -> Option<&str> {
        self.shared.url.volume.as_deref()
    }

    /// Opens a volume for blocking calls from any number of threads.
    ///
    /// # Errors
    /// When there is no such volume, or no right to it, or the node cannot be reached.
    pub fn open(&self, volume: &str) -> Result<Volume, Error> {
        Volume::open(self.clone(), volume)
    }

    /// Opens the volume that the URL named.
    ///
    /// # Errors
    /// As [`Self::open`], and when the URL named none.
    pub fn open_named(&self) -> Result<Volume, Error> {
        self.open(self.volume_name().ok_or(Error::NoVolume)?)
    }

    /// Opens a volume for many operations in flight from one thread.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn queue_pair(&self, volume: &str, options: QueueOptions) -> Result<QueuePair, Error> {
        QueuePair::connect(Arc::clone(&self.shared), volume, options)
    }

    pub(super) fn options(&self) -> &Options {
        &self.shared.options
    }
}

fn credentials_of(url: &Url) -> Result<Credentials, CredentialsError> {
    match (&url.key, &url.secret_file) {
        (Some(id), Some(path)) => Credentials::from_file(id, path),
        (None, None) => Ok(Credentials::NONE),
        (Some(id), None) => Err(CredentialsError::NoSecret { id: id.clone() }),
        (None, Some(_)) => Err(CredentialsError::NoKey),
    }
}
