//! The etcd of a machine, as a program that does not belong to nearflash changes it.

use std::time::Duration;

use etcd_client::{
    Certificate, Client, CompactionOptions, ConnectOptions, DeleteOptions, Error, GetOptions,
    Identity, TlsOptions,
};
use tokio::runtime::Runtime;

use crate::machine::Machine;

/// The time for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to etcd.
pub struct Etcd {
    runtime: Runtime,
    client: Client,
}

impl Etcd {
    /// Connects to the etcd of a machine, with its certificate.
    ///
    /// # Panics
    /// When the files of the machine cannot be read.
    pub fn of(machine: &Machine) -> Self {
        let read = |name| std::fs::read(machine.etcd(name)).expect("the machine has certificates");
        let tls = TlsOptions::new()
            .ca_certificate(Certificate::from_pem(read("ca.pem")))
            .identity(Identity::from_pem(read("machine.pem"), read("machine.key")));
        let options = ConnectOptions::new().with_tls(tls).with_timeout(TIMEOUT);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("the system has a descriptor");
        let url = format!("https://{}:2379", machine.address);
        let client = runtime.block_on(Client::connect([url], Some(options)));
        Self { client: client.expect("the certificates are valid"), runtime }
    }

    /// Writes a key.
    ///
    /// # Errors
    /// When etcd refuses.
    pub fn put(&mut self, key: &str, value: impl Into<Vec<u8>>) -> Result<(), Error> {
        self.runtime.block_on(self.client.put(key, value, None)).map(drop)
    }

    /// The keys and values with a prefix.
    ///
    /// # Panics
    /// When etcd does not answer.
    pub fn list(&mut self, prefix: &str) -> Vec<(String, Vec<u8>)> {
        let options = Some(GetOptions::new().with_prefix());
        let found = self.runtime.block_on(self.client.get(prefix, options)).expect("etcd answers");
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        found.kvs().iter().map(|it| (text(it.key()), it.value().to_vec())).collect()
    }

    /// Deletes the keys with a prefix.
    ///
    /// # Panics
    /// When etcd does not answer.
    pub fn delete(&mut self, prefix: &str) {
        let options = Some(DeleteOptions::new().with_prefix());
        self.runtime.block_on(self.client.delete(prefix, options)).expect("etcd answers");
    }

    /// The revision of the newest change.
    ///
    /// # Panics
    /// When etcd does not answer.
    pub fn revision(&mut self) -> i64 {
        let read = self.runtime.block_on(self.client.get("/", None)).expect("etcd answers");
        read.header().expect("an answer has a header").revision()
    }

    /// Whether a revision can still be read.
    pub fn has_revision(&mut self, revision: i64) -> bool {
        let options = Some(GetOptions::new().with_revision(revision));
        self.runtime.block_on(self.client.get("/", options)).is_ok()
    }

    /// Forgets the history before the newest revision.
    ///
    /// # Panics
    /// When etcd does not answer.
    pub fn compact(&mut self) {
        let revision = self.revision();
        let options = Some(CompactionOptions::new().with_physical());
        self.runtime.block_on(self.client.compact(revision, options)).expect("etcd answers");
    }
}

impl std::fmt::Debug for Etcd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Etcd")
    }
}
