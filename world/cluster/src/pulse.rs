//! The *pulses* between the nodes of a cluster: messages about mirrors, and the proof that a node's
//! process has died.
//!
//! Each node opens one connection to each partner. On it, it alone sends, after a handshake whose bytes it
//! has all read. So nothing waits for this process to read it when the process dies, and the kernel ends
//! the connection with FIN. A live process ends it with RST (`send`). So an orderly end of the newest pulse
//! of a node, between two messages, is a proof that no thread of that process runs any more (`listen`).
//! It proves nothing if the ends see different addresses: then something in between ends connections, too. A
//! proxy that keeps the addresses is not seen, so an operator can tell the node to believe no end.
//! RST, silence, and an end inside a message prove nothing.
//!
//! Both ends prove that they know the cluster's secret ([`wire`](nearflash_mirror::membership::wire)). The messages themselves are neither
//! encrypted nor signed: the network between the nodes is trusted, as for the direct protocol.
//!
//! It must not know the meaning of the messages. The sockets must not be handed to another process, nor to
//! a ring. A panic must end the whole process, and a core dump must not delay the end of its connections.

mod error;
mod listen;
mod send;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use nearflash_access::Secret;
use nearflash_mirror::membership::wire::Nonce;
use nearflash_mirror::membership::{NodeKey, Pulse};
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{AbortHandle, spawn_local};
use uuid::Uuid;

pub use error::PulseError;
use listen::Newest;
use nearflash_records::token::PeerSecret;
use send::Link;

/// The time for a connection to come about. TCP repeats its first packet after one second; a new attempt is
/// faster.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(700);

/// The time for a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);

/// The time between two lines of the log about one peer.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// The peers about which the log has had a line in that time.
const LOGGED_MAX: usize = 256;

/// The identity of this node, and the socket at which its partners reach it.
pub struct PulseConfig {
    /// The cluster.
    pub cluster: Uuid,
    /// This node.
    pub node: NodeKey,
    /// The number of the process. Its [`Pulse::Hello`] must have the same one.
    pub run: u64,
    /// The secret of the cluster's nodes.
    pub secret: PeerSecret,
    /// The socket, which listens.
    pub listener: std::net::TcpListener,
    /// Only nodes end the connections. If something in between may, no end is a proof.
    pub believes_ends: bool,
    /// Is told of connections to the socket that become no pulse.
    pub on_refused: OnRefused,
}

/// Takes the address of a connection that becomes no pulse, and the reason.
pub type OnRefused = Box<dyn Fn(SocketAddr, &PulseError)>;

/// An event of a pulse.
#[derive(Debug, Eq, PartialEq)]
pub enum PulseEvent {
    /// The own pulse to that node is up. Its first message has to be [`Pulse::Hello`]; until it is sent,
    /// others are dropped.
    Connected(NodeKey),
    /// A message of the newest pulse of that node.
    Came(NodeKey, Pulse),
    /// The newest pulse of that node has ended, or has been replaced.
    Ended {
        /// The node.
        from: NodeKey,
        /// No thread of the process that sent its messages runs any more.
        is_proof: bool,
    },
}

/// The pulses of this node. When they are dropped, all connections end without a proof.
pub struct Pulses {
    shared: Rc<Shared>,
    listener: AbortHandle,
    links: BTreeMap<NodeKey, AbortHandle>,
}

/// The things that all tasks know.
struct Shared {
    cluster: Uuid,
    node: NodeKey,
    run: u64,
    secret: Secret,
    believes_ends: bool,
    on_refused: OnRefused,
    events: UnboundedSender<PulseEvent>,
    newest: Newest,
    links: RefCell<BTreeMap<NodeKey, Rc<Link>>>,
    log: Log,
}

impl Pulses {
    /// Accepts pulses of other nodes. Must be called in a [`tokio::task::LocalSet`].
    ///
    /// # Errors
    /// When the socket cannot be used.
    pub fn start(config: PulseConfig, events: UnboundedSender<PulseEvent>) -> io::Result<Self> {
        let PulseConfig { cluster, node, run, secret, listener, believes_ends, on_refused } =
            config;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let shared = Rc::new(Shared {
            cluster,
            node,
            run,
            secret: Secret::new(secret),
            believes_ends,
            on_refused,
            events,
            newest: Newest::default(),
            links: RefCell::default(),
            log: Log::default(),
        });
        let listener = spawn_local(listen::accept(listener, Rc::clone(&shared))).abort_handle();
        Ok(Self { shared, listener, links: BTreeMap::new() })
    }

    /// Replaces the list of partners, to which this node keeps pulses. The addresses of each are tried
    /// in turn. A pulse to another node, or to an address that is not in the list any more, is aborted.
    pub fn set_partners(&mut self, partners: BTreeMap<NodeKey, Vec<SocketAddr>>) {
        let mut links = self.shared.links.borrow_mut();
        links.retain(|node, link| {
            let addresses = partners.get(node);
            let stays = addresses.is_some_and(|it| link.set_addresses(it.clone()));
            if !stays && let Some(task) = self.links.remove(node) {
                task.abort();
            }
            stays
        });
        for (node, addresses) in partners {
            links.entry(node).or_insert_with(|| {
                let link = Rc::new(Link::new(node, addresses));
                let run = Rc::clone(&link).run(Rc::clone(&self.shared));
                self.links.insert(node, spawn_local(run).abort_handle());
                link
            });
        }
    }

    /// Queues a message. It is dropped if the pulse is not up. If too many wait, it is lost with the
    /// connection, which begins anew.
    pub fn send(&mut self, to: NodeKey, pulse: &Pulse) {
        let links = self.shared.links.borrow();
        let Some(link) = links.get(&to) else { return };
        if let Err(error) = link.send(pulse) {
            let to = Uuid::from_bytes(to);
            self.shared.log.warn(&format!("a message to node {to} is not sent"), &error);
        }
    }
}

impl Drop for Pulses {
    fn drop(&mut self) {
        self.listener.abort();
        self.links.values().for_each(AbortHandle::abort);
        self.shared.links.borrow_mut().clear();
    }
}

impl Shared {
    fn report(&self, event: PulseEvent) {
        // Nobody receives it while the thread ends.
        let _ = self.events.send(event);
    }

    /// Whether a partner is at that address.
    fn is_partner(&self, address: IpAddr) -> bool {
        self.links.borrow().values().any(|link| link.is_at(address))
    }

    /// A node has opened its pulse: it can be reached now.
    fn came(&self, node: NodeKey) {
        if let Some(link) = self.links.borrow().get(&node) {
            link.hurry();
        }
    }
}

/// The log, with at most one line in a minute about the same thing.
#[derive(Default)]
struct Log {
    last: RefCell<BTreeMap<String, Instant>>,
}

impl Log {
    fn warn(&self, subject: &str, error: &PulseError) {
        let mut last = self.last.borrow_mut();
        last.retain(|_, at| at.elapsed() < LOG_PERIOD);
        if last.len() < LOGGED_MAX && !last.contains_key(subject) {
            last.insert(subject.to_owned(), Instant::now());
            tracing::warn!("{subject}: {error}");
        }
    }
}

/// Random bytes of one handshake.
fn nonce() -> io::Result<Nonce> {
    let mut nonce = Nonce::default();
    // The kernel returns up to 256 bytes at once.
    let count = getrandom(&mut nonce, GetRandomFlags::empty())?;
    if count == nonce.len() { Ok(nonce) } else { Err(io::ErrorKind::WouldBlock.into()) }
}
