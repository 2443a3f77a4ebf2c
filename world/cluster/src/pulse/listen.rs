//! The pulses of other nodes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use nearflash_mirror::membership::wire::{
    self, End, HELLO_LEN, Hello, PREFIX_LEN, PROOF_LEN, Transcript,
};
use nearflash_mirror::membership::{NodeKey, Pulse};
use nearflash_session::{Origin, crowded_out};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::error::PulseError;
use super::{HANDSHAKE_TIMEOUT, PulseEvent, Shared, nonce};

/// The connections that have not proved anything yet. For a further one, the oldest of the address that has the
/// most ends; those from addresses of partners come last.
const UNPROVED_MAX: usize = 64;

/// The time for which the opener may send nothing. It sends a beat every second.
const SILENCE: Duration = Duration::from_secs(5);

/// The nodes whose pulses are remembered. A cluster is much smaller.
const NODES_MAX: usize = 1024;

/// The pause after a connection that could not be accepted, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The newest pulse of each node.
///
/// Pulses are numbered in the order in which this node drew their nonces. Their openers have proved to
/// know these, so that this is the order of the processes, too: a pulse whose handshake a dead process
/// had finished cannot replace one of the process that runs now, however late it is read.
#[derive(Default)]
pub(super) struct Newest {
    last: Cell<u64>,
    nodes: RefCell<BTreeMap<NodeKey, Entry>>,
}

struct Entry {
    number: u64,
    is_open: bool,
    /// A newer one has come.
    replaced: Rc<Notify>,
}

impl Newest {
    fn draw(&self) -> u64 {
        self.last.update(|last| last + 1);
        self.last.get()
    }

    fn is(&self, node: NodeKey, number: u64) -> bool {
        let nodes = self.nodes.borrow();
        nodes.get(&node).is_some_and(|entry| entry.number == number && entry.is_open)
    }

    /// Makes a pulse the newest of its node. Returns whether it replaces one, and what tells its own end.
    fn enter(&self, node: NodeKey, number: u64) -> Result<(bool, Rc<Notify>), PulseError> {
        let mut nodes = self.nodes.borrow_mut();
        if nodes.get(&node).is_some_and(|entry| entry.number > number) {
            return Err(PulseError::Older);
        }
        if nodes.len() >= NODES_MAX && !nodes.contains_key(&node) {
            return Err(PulseError::TooMany(NODES_MAX));
        }
        let replaced = Rc::new(Notify::new());
        let entry = Entry { number, is_open: true, replaced: Rc::clone(&replaced) };
        let older = nodes.insert(node, entry);
        older.iter().for_each(|older| older.replaced.notify_one());
        Ok((older.is_some_and(|older| older.is_open), replaced))
    }

    fn leave(&self, node: NodeKey) {
        if let Some(entry) = self.nodes.borrow_mut().get_mut(&node) {
            entry.is_open = false;
        }
    }
}

/// The connections that have not proved anything yet.
#[derive(Default)]
struct Strangers {
    last: Cell<u64>,
    /// By number, so that the oldest comes first.
    waiting: RefCell<BTreeMap<u64, Stranger>>,
}

struct Stranger {
    origin: Origin,
    is_from_partner: bool,
    /// A further one has come.
    crowded_out: Rc<Notify>,
}

/// The place of a stranger, until it is dropped.
struct StrangersPlace {
    strangers: Rc<Strangers>,
    number: u64,
    crowded_out: Rc<Notify>,
}

impl Strangers {
    fn enter(self: &Rc<Self>, address: IpAddr, is_from_partner: bool) -> StrangersPlace {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() >= UNPROVED_MAX {
            let holders = |of_partners: bool| {
                let those = waiting.iter().filter(move |(_, it)| it.is_from_partner == of_partners);
                those.map(|(number, it)| (it.origin, *number, *number))
            };
            let oldest = crowded_out(holders(false)).or_else(|| crowded_out(holders(true)));
            let oldest = oldest.and_then(|number| waiting.remove(&number));
            oldest.iter().for_each(|it| it.crowded_out.notify_one());
        }
        self.last.update(|last| last + 1);
        let (number, crowded_out) = (self.last.get(), Rc::new(Notify::new()));
        let origin = Origin::of(address);
        let stranger = Stranger { origin, is_from_partner, crowded_out: Rc::clone(&crowded_out) };
        waiting.insert(number, stranger);
        StrangersPlace { strangers: Rc::clone(self), number, crowded_out }
    }
}

impl Drop for StrangersPlace {
    fn drop(&mut self) {
        self.strangers.waiting.borrow_mut().remove(&self.number);
    }
}

/// Accepts connections, until the task is aborted; those end with it.
pub(super) async fn accept(listener: TcpListener, shared: Rc<Shared>) {
    let strangers = Rc::new(Strangers::default());
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(ended) = connections.join_next() => ended.expect("a pulse is not aborted"),
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let place = strangers.enter(peer.ip(), shared.is_partner(peer.ip()));
                    connections.spawn_local(take(Rc::clone(&shared), stream, peer, place));
                }
                Err(error) => {
                    shared.log.warn("no pulse can come", &error.into());
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

/// Takes a connection, and a pulse if it becomes one.
async fn take(shared: Rc<Shared>, mut stream: TcpStream, peer: SocketAddr, place: StrangersPlace) {
    let shaken = tokio::select! {
        shaken = timeout(HANDSHAKE_TIMEOUT, welcome(&shared, &mut stream, peer)) => {
            shaken.unwrap_or(Err(PulseError::Slow))
        }
        () = place.crowded_out.notified() => Err(PulseError::Crowded),
    };
    drop(place);
    match shaken {
        Ok(came) => came.follow(&shared, stream).await,
        Err(error) => (shared.on_refused)(peer, &error),
    }
}

/// A pulse whose opener has proved that it belongs to the cluster.
struct Came {
    number: u64,
    node: NodeKey,
    run: u64,
    is_direct: bool,
}

/// The acceptor's handshake. Nothing is sent after its answer.
///
/// The error of a reset is reported once, and then the connection looks as if it had ended in an
/// orderly way. So no error of the stream may go unnoticed.
async fn welcome(
    shared: &Shared,
    stream: &mut TcpStream,
    peer: SocketAddr,
) -> Result<Came, PulseError> {
    let local = stream.local_addr()?;
    stream.set_nodelay(true)?;
    let mut bytes = [0; HELLO_LEN];
    stream.read_exact(&mut bytes).await?;
    let hello = Hello::decode(&bytes)?;
    hello.check(shared.cluster, shared.node)?;
    let (number, nonce) = (shared.newest.draw(), nonce()?);
    let transcript = Transcript { secret: shared.secret.bytes(), hello: &bytes, nonce };
    stream.write_all(&wire::answer(&transcript)).await?;
    let mut proof = [0; PROOF_LEN];
    stream.read_exact(&mut proof).await.map_err(PulseError::of_handshake)?;
    transcript.verify(End::Opener, &proof)?;
    let is_direct = hello.is_direct(local, peer);
    Ok(Came { number, node: hello.from, run: hello.run, is_direct })
}

impl Came {
    /// Reports what comes, until the connection ends or is replaced.
    async fn follow(self, shared: &Shared, stream: TcpStream) {
        let node = Uuid::from_bytes(self.node);
        let name = format!("the pulse of node {node} ends");
        let replaced = match shared.newest.enter(self.node, self.number) {
            Ok((is_replacing, replaced)) => {
                if is_replacing {
                    shared.report(PulseEvent::Ended { from: self.node, is_proof: false });
                }
                replaced
            }
            Err(error) => return shared.log.warn(&name, &error),
        };
        if !self.is_direct {
            let name = format!("the end of node {node} is noticed only after its lease");
            shared.log.warn(&name, &PulseError::Indirect);
        }
        shared.came(self.node);
        let mut messages = Messages { stream, silence: SILENCE };
        let end = tokio::select! {
            end = self.read(shared, &mut messages) => end,
            () = replaced.notified() => return,
        };
        if !shared.newest.is(self.node, self.number) {
            return;
        }
        shared.newest.leave(self.node);
        let is_proof = end.is_ok() && self.is_direct && shared.believes_ends;
        shared.report(PulseEvent::Ended { from: self.node, is_proof });
        if let Err(error) = end {
            shared.log.warn(&name, &error);
        }
    }

    async fn read<R>(&self, shared: &Shared, messages: &mut Messages<R>) -> Result<(), PulseError>
    where
        R: AsyncRead + Unpin,
    {
        let mut is_first = true;
        while let Some(pulse) = messages.next().await? {
            let is_hello = matches!(&pulse, Pulse::Hello { run, .. } if *run == self.run);
            if is_first && !is_hello {
                return Err(PulseError::NoHello);
            }
            is_first = false;
            if !shared.newest.is(self.node, self.number) {
                return Err(PulseError::Older);
            }
            shared.report(PulseEvent::Came(self.node, pulse));
        }
        Ok(())
    }
}

/// The messages of a connection.
pub(super) struct Messages<R> {
    pub(super) stream: R,
    pub(super) silence: Duration,
}

impl<R: AsyncRead + Unpin> Messages<R> {
    /// The next message, or `None` if the connection ended in an orderly way.
    pub(super) async fn next(&mut self) -> Result<Option<Pulse>, PulseError> {
        loop {
            let mut prefix = [0; PREFIX_LEN];
            let count = self.fill(&mut prefix).await?;
            if count == 0 {
                return Ok(None);
            }
            if count < prefix.len() {
                return Err(PulseError::Cut);
            }
            let mut message = vec![0; wire::decode_len(prefix)?];
            if self.fill(&mut message).await? < message.len() {
                return Err(PulseError::Cut);
            }
            if let Some(pulse) = wire::decode(&message)? {
                return Ok(Some(pulse));
            }
        }
    }

    /// Reads until the bytes are there, or the connection has ended. Returns their number.
    async fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, PulseError> {
        let mut filled = 0;
        while filled < bytes.len() {
            let read = timeout(self.silence, self.stream.read(&mut bytes[filled..]));
            match read.await.map_err(|_| PulseError::Silent)?? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(strangers: &Strangers) -> Vec<u64> {
        strangers.waiting.borrow().keys().copied().collect()
    }

    #[test]
    fn a_crowd_of_one_address_leaves_a_place_to_others_and_partners_give_way_last() {
        let strangers = Rc::new(Strangers::default());
        let address = |last| IpAddr::from([192, 0, 2, last]);
        let mut places =
            vec![strangers.enter(address(1), true), strangers.enter(address(2), false)];
        let max = u64::try_from(UNPROVED_MAX).unwrap();
        places.extend((2..max).map(|_| strangers.enter(address(3), false)));
        places.push(strangers.enter(address(4), false));
        let left = numbers(&strangers);
        assert!(left.len() == UNPROVED_MAX && left.starts_with(&[1, 2, 4]), "{left:?}");
        // A partner at the address of the crowd stays, too.
        places.extend((0..2 * max).map(|_| strangers.enter(address(5), false)));
        assert_eq!(numbers(&strangers)[0], 1);
        drop(places);
        assert!(numbers(&strangers).is_empty());
    }
}
