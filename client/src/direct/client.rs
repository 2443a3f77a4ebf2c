//! A node as an application sees it: its address and the application's credentials.

use std::sync::Arc;
use std::time::Instant;

use nearflash_direct::Seal;

use super::credentials::Credentials;
use super::error::Error;
use super::link::{Link, LinkIdentity};
use super::options::{Options, QueueOptions};
use super::queue_pair::{QueuePair, Source};
use super::secured;
use super::shared::Shared;
use super::slots::Slots;
use super::url::Url;

/// A node that the application has connected and authenticated to. Cloning is cheap; volumes and
/// queue pairs have their own connections and outlive the client.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

impl Client {
    /// Connects to a node and authenticates. `url` is `direct://HOST:PORT[/VOLUME]`,
    /// `direct+tls://HOST:PORT[/VOLUME]` with the feature `tls`, or `direct+local:PATH.sock[/VOLUME]` for a
    /// node on this machine, with the options of [`Url`].
    /// Credentials given here take precedence over those of the URL.
    ///
    /// # Errors
    /// When the URL is not valid, no node listens there, or the node refuses the connection.
    pub fn connect(url: &str, credentials: Credentials) -> Result<Self, Error> {
        Self::connect_with(url, credentials, Options::default())
    }

    /// [`Self::connect`] with other time-outs.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn connect_with(
        url: &str,
        credentials: Credentials,
        options: Options,
    ) -> Result<Self, Error> {
        Self::connect_to(url.parse()?, credentials, options)
    }

    /// [`Self::connect_with`] with a parsed URL.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn connect_to(url: Url, credentials: Credentials, options: Options) -> Result<Self, Error> {
        let credentials = match credentials.id() {
            Some(_) => credentials,
            None => Credentials::of(&url)?,
        };
        secured::check(&url, &credentials)?;
        let shared = Arc::new(Shared { url, credentials, options });
        // This connection reports a wrong address or key here, not at the first volume.
        Link::connect(&shared, LinkIdentity::draw()?, Slots::default(), 0)?.goodbye();
        Ok(Self { shared })
    }

    /// The volume that the URL names. If the URL has a seal, this name stands for the seal's object.
    pub fn volume_name(&self) -> Option<&str> {
        self.shared.url.volume.as_deref()
    }

    /// Whether the URL has a seal, for whose object the name of this volume stands.
    pub fn is_sealed(&self, volume: &str) -> bool {
        self.shared.url.seal.is_some() && self.volume_name() == Some(volume)
    }

    /// Opens a volume for many operations in flight from one thread.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn queue_pair(&self, volume: &str, options: QueueOptions) -> Result<QueuePair, Error> {
        self.queue_pair_until(volume, options, None)
    }

    /// [`Self::queue_pair`] for a sealed object. The client needs no grant.
    ///
    /// # Errors
    /// As [`QueuePair::open_sealed`].
    pub fn sealed_queue_pair(
        &self,
        seal: &Seal,
        options: QueueOptions,
    ) -> Result<QueuePair, Error> {
        self.pair_of(Source::Seal(Arc::new(seal.clone())), options, None)
    }

    /// [`Self::queue_pair`], given up at `deadline`.
    pub(super) fn queue_pair_until(
        &self,
        volume: &str,
        options: QueueOptions,
        deadline: Option<Instant>,
    ) -> Result<QueuePair, Error> {
        self.pair_of(self.source_of(volume), options, deadline)
    }

    /// The volume of a name, or the object of the URL's seal.
    pub(super) fn source_of(&self, volume: &str) -> Source {
        match self.shared.url.seal.as_ref().filter(|_| self.is_sealed(volume)) {
            Some(token) => Source::Seal(Arc::new(token.seal().clone())),
            None => Source::Name(volume.into()),
        }
    }

    /// A queue pair on a volume or a sealed object.
    pub(super) fn pair_of(
        &self,
        source: Source,
        options: QueueOptions,
        deadline: Option<Instant>,
    ) -> Result<QueuePair, Error> {
        QueuePair::connect_until(Arc::clone(&self.shared), source, options, deadline)
    }

    pub(super) fn options(&self) -> &Options {
        &self.shared.options
    }
}
