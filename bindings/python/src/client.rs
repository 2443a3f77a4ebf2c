//! A node as a program sees it.

use std::path::PathBuf;

use nearflash::direct::{Options, Seal};
use nearflash::{Credentials, QueueOptions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::raised;
use crate::file_errors::files_raised;
use crate::files::Files;
use crate::owner::Owner;
use crate::queue_pair::QueuePair;
use crate::seconds::seconds;
use crate::volume::Volume;

/// A node that the program has connected and authenticated to. It holds no connection: volumes and
/// queue pairs have their own, and outlive it.
#[pyclass(frozen, module = "nearflash")]
pub(crate) struct Client {
    inner: nearflash::Client,
}

/// Connects to a node and authenticates.
///
/// `url` is `direct://HOST:PORT[/VOLUME]`, `direct+tls://HOST:PORT[/VOLUME]` for TLS with the key of the
/// credential, or `direct+local:PATH.sock[/VOLUME]` for a node on this machine, optionally followed by
/// `?digest=header,data`, `key=ID` and `secret-file=PATH`, or as `nearflash grant seal` prints it. `key`
/// and `secret`, as printed by `nearflash credential create`, take precedence over those of the
/// URL. `secret_file`, the path of a file that holds the secret, replaces `secret`; this
/// call reads it.
///
/// The time-outs are in seconds: `silence_max` is the longest silence of a node that owes an answer
/// (10), `reconnect_max` the time for which reconnecting is tried (30), and `spin_max` the time for
/// which a blocking call spins before it sleeps (0.0001).
#[pyfunction]
#[pyo3(signature = (url, key=None, secret=None, *, secret_file=None, silence_max=None, reconnect_max=None, spin_max=None))]
#[expect(clippy::too_many_arguments, reason = "most are given by name, in Python")]
pub(crate) fn connect(
    py: Python<'_>,
    url: &str,
    key: Option<&str>,
    secret: Option<&str>,
    secret_file: Option<PathBuf>,
    silence_max: Option<f64>,
    reconnect_max: Option<f64>,
    spin_max: Option<f64>,
) -> PyResult<Client> {
    let credentials = credentials(py, key, secret, secret_file)?;
    let default = Options::default();
    let options = default
        .silence_max(seconds("silence_max", silence_max, default.silence_max)?)
        .reconnect_max(seconds("reconnect_max", reconnect_max, default.reconnect_max)?)
        .spin_max(seconds("spin_max", spin_max, default.spin_max)?);
    let connected = py.detach(|| nearflash::Client::connect_with(url, credentials, options));
    Ok(Client { inner: connected.map_err(|error| raised(py, &error))? })
}

fn credentials(
    py: Python<'_>,
    key: Option<&str>,
    secret: Option<&str>,
    secret_file: Option<PathBuf>,
) -> PyResult<Credentials> {
    let read = match (key, secret, secret_file) {
        (None, None, None) => return Ok(Credentials::NONE),
        (Some(key), Some(secret), None) => Credentials::new(key, secret),
        (Some(key), None, Some(file)) => py.detach(|| Credentials::from_file(key, &file)),
        (Some(_), None, None) => {
            return Err(PyValueError::new_err("a key needs its secret: give both"));
        }
        (None, _, _) => return Err(PyValueError::new_err("a secret needs its key: give both")),
        (_, Some(_), Some(_)) => {
            return Err(PyValueError::new_err(
                "secret and secret_file cannot be combined: give only one",
            ));
        }
    };
    read.map_err(|error| raised(py, &error.into()))
}

#[pymethods]
impl Client {
    /// The volume that the URL names, or None.
    #[getter]
    fn volume_name(&self) -> Option<&str> {
        self.inner.volume_name()
    }

    /// Opens a volume for blocking calls from any number of threads; without a name, the volume
    /// that the URL names.
    #[pyo3(signature = (name=None))]
    fn open(&self, py: Python<'_>, name: Option<&str>) -> PyResult<Volume> {
        let opened = py.detach(|| match name {
            Some(name) => self.inner.open(name),
            None => self.inner.open_named(),
        });
        Ok(Volume::new(opened.map_err(|error| raised(py, &error))?))
    }

    /// Opens the object of a seal, as its owner hands the bytes over, for blocking calls from any number of
    /// threads. Offsets are the object's, and the client needs no grant.
    fn open_sealed(&self, py: Python<'_>, seal: &[u8]) -> PyResult<Volume> {
        let seal = Seal::decode(seal).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let opened = py.detach(|| self.inner.open_sealed(&seal));
        Ok(Volume::new(opened.map_err(|error| raised(py, &error))?))
    }

    /// Opens a volume for many operations in flight from one thread; without a name, the volume
    /// that the URL names. `depth` is the most operations in flight (128). `shared_length` is the
    /// memory in bytes that is shared with a node on this machine (16 MiB); with 0, the socket
    /// carries the payload.
    #[pyo3(signature = (name=None, *, depth=None, shared_length=None))]
    fn queue_pair(
        &self,
        py: Python<'_>,
        name: Option<&str>,
        depth: Option<u32>,
        shared_length: Option<usize>,
    ) -> PyResult<QueuePair> {
        let default = QueueOptions::default();
        let options = default
            .depth(depth.unwrap_or(default.depth))
            .shared_len(shared_length.unwrap_or(default.shared_len));
        let name = self.named(py, name)?;
        let opened = py.detach(|| self.inner.queue_pair(name, options));
        Ok(QueuePair::new(name, opened.map_err(|error| raised(py, &error))?))
    }

    /// Opens the files of a volume that is formatted for files, for reading; without a name, those of
    /// the volume that the URL names.
    #[pyo3(signature = (name=None))]
    fn files(&self, py: Python<'_>, name: Option<&str>) -> PyResult<Files> {
        let name = self.named(py, name)?;
        let opened = py.detach(|| Files::of_volume(&self.inner, name));
        opened.map_err(|error| files_raised(py, &error))
    }

    /// Changes the files of a volume that is formatted for files; without a name, of the volume that
    /// the URL names. If the node owns the files, other processes change them at the same time.
    /// Otherwise, this process takes the volume. Raises `BlockingIOError` if another process has it,
    /// which loses it with `take_over`.
    #[pyo3(signature = (name=None, *, take_over=false))]
    fn owner(&self, py: Python<'_>, name: Option<&str>, take_over: bool) -> PyResult<Owner> {
        let name = self.named(py, name)?;
        let taken = py.detach(|| Owner::open(&self.inner, name, take_over));
        taken.map_err(|error| files_raised(py, &error))
    }

    fn __repr__(&self) -> String {
        format!("<nearflash.Client volume_name={:?}>", self.inner.volume_name())
    }
}

impl Client {
    /// The name of a volume, or of the one that the URL names.
    fn named<'n>(&'n self, py: Python<'_>, name: Option<&'n str>) -> PyResult<&'n str> {
        let name = name.or(self.inner.volume_name());
        name.ok_or_else(|| raised(py, &nearflash::Error::NoVolume))
    }
}
