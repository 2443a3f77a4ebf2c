use std::collections::BTreeMap;
use std::future::Future;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::time::Duration;

use nearflash_device::MirrorKey;
use nearflash_mirror::Term;
use nearflash_mirror::membership::wire::{
    self, ANSWER_LEN, End, HELLO_LEN, Hello, PROOF_LEN, Transcript,
};
use nearflash_mirror::membership::{NodeKey, Pulse, Question, SliceState};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::LocalSet;
use tokio::time::timeout;
use uuid::Uuid;

use super::error::PulseError;
use super::listen::Messages;
use super::{PulseConfig, PulseEvent, Pulses, nonce};

const PATIENCE: Duration = Duration::from_secs(60);
const CLUSTER: Uuid = Uuid::from_u128(7);
const SECRET: [u8; 32] = [3; 32];
const RUN: u64 = 5;

/// The variable that has the address of the test that kills its child.
const ADDRESS: &str = "NEARFLASH_PULSE_ADDRESS";

fn run<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async { timeout(PATIENCE, test).await.unwrap() });
}

fn key(number: u8) -> NodeKey {
    [number; 16]
}

struct Node {
    key: NodeKey,
    address: SocketAddr,
    pulses: Pulses,
    events: UnboundedReceiver<PulseEvent>,
}

impl Node {
    fn start(number: u8) -> Self {
        Self::at(number, &format!("127.0.0.{number}:0"), SECRET)
    }

    fn at(number: u8, address: &str, secret: [u8; 32]) -> Self {
        Self::with((number, address, secret), true)
    }

    fn with((number, address, secret): (u8, &str, [u8; 32]), believes_ends: bool) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, events) = unbounded_channel();
        let node = key(number);
        let (cluster, run, on_refused) = (CLUSTER, RUN, Box::new(|_, _: &_| ()));
        let config =
            PulseConfig { cluster, node, run, secret, listener, believes_ends, on_refused };
        Self { key: node, address, pulses: Pulses::start(config, sender).unwrap(), events }
    }

    fn partner(&mut self, other: &Self) {
        self.pulses.set_partners(BTreeMap::from([(other.key, vec![other.address])]));
    }

    async fn event(&mut self) -> PulseEvent {
        self.events.recv().await.unwrap()
    }

    async fn expect(&mut self, event: PulseEvent) {
        assert_eq!(self.event().await, event);
    }

    async fn expect_end(&mut self, from: NodeKey, is_proof: bool) {
        self.expect(PulseEvent::Ended { from, is_proof }).await;
    }

    async fn expect_connected(&mut self, other: NodeKey) {
        self.expect(PulseEvent::Connected(other)).await;
    }
}

fn hello() -> Pulse {
    let slice = SliceState { slice: [1; 16], incarnation: 2, power: 1 };
    Pulse::Hello { run: RUN, slices: vec![slice], ahead: Vec::new() }
}

fn ask(sequence: u64, questions: usize) -> Pulse {
    let mirror = MirrorKey { volume: Uuid::from_bytes([255; 16]), number: 1 };
    let question = Question { mirror, term: Term(1), session: 1 };
    Pulse::Ask { sequence, questions: vec![question; questions], heard: None }
}

/// A connection whose opener is in the handshake.
struct Opening {
    stream: TcpStream,
    hello: [u8; HELLO_LEN],
}

impl Opening {
    /// Sends a hello to a node, after a change of it.
    async fn start(to: &Node, from: NodeKey, change: impl FnOnce(&mut Hello)) -> Self {
        let mut stream = TcpStream::connect(to.address).await.unwrap();
        let addresses = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        let nonce = nonce().unwrap();
        let mut hello = Hello { cluster: CLUSTER, from, to: to.key, run: RUN, addresses, nonce };
        change(&mut hello);
        let hello = hello.encode();
        stream.write_all(&hello).await.unwrap();
        Self { stream, hello }
    }

    /// Reads the answer. Returns the opener's proof.
    async fn proof(&mut self, secret: [u8; 32]) -> Result<[u8; PROOF_LEN], PulseError> {
        let mut answer = [0; ANSWER_LEN];
        self.stream.read_exact(&mut answer).await?;
        let (nonce, proof) = wire::split_answer(&answer);
        let transcript = Transcript { secret: &secret, hello: &self.hello, nonce };
        transcript.verify(End::Acceptor, &proof)?;
        Ok(transcript.proof(End::Opener))
    }
}

/// A pulse whose process dies when it is dropped, as far as the acceptor can tell: its end is orderly.
async fn open(to: &Node, from: NodeKey) -> TcpStream {
    let mut opening = Opening::start(to, from, |_| {}).await;
    let proof = opening.proof(SECRET).await.unwrap();
    opening.stream.write_all(&proof).await.unwrap();
    opening.stream
}

async fn say(stream: &mut TcpStream, pulse: &Pulse) {
    stream.write_all(&wire::encode(pulse).unwrap()).await.unwrap();
}

/// Accepts the pulse of a node, as the acceptor with this secret.
async fn accept(listener: &tokio::net::TcpListener, secret: [u8; 32]) -> TcpStream {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut hello = [0; HELLO_LEN];
    stream.read_exact(&mut hello).await.unwrap();
    let transcript = Transcript { secret: &secret, hello: &hello, nonce: [9; 16] };
    stream.write_all(&wire::answer(&transcript)).await.unwrap();
    stream
}

#[test]
fn messages_come_in_order_both_ways() {
    run(async {
        let (mut one, mut two) = (Node::start(11), Node::start(12));
        one.partner(&two);
        one.expect_connected(two.key).await;
        one.pulses.send(two.key, &hello());
        two.expect(PulseEvent::Came(one.key, hello())).await;
        two.partner(&one);
        two.expect_connected(one.key).await;
        two.pulses.send(one.key, &hello());
        one.expect(PulseEvent::Came(two.key, hello())).await;
        for sequence in 0..200 {
            one.pulses.send(two.key, &ask(sequence, 20));
            two.pulses.send(one.key, &ask(sequence, 30));
        }
        for sequence in 0..200 {
            one.expect(PulseEvent::Came(two.key, ask(sequence, 30))).await;
            two.expect(PulseEvent::Came(one.key, ask(sequence, 20))).await;
        }
    });
}

/// Run by [`the_kill_of_a_process_is_proved`], in a process of its own.
#[test]
#[ignore = "not a test by itself: another test of this file starts it as a child process and kills it"]
fn a_process_that_is_to_be_killed() {
    let address: SocketAddr = std::env::var(ADDRESS).unwrap().parse().unwrap();
    // Until the process that started this one ends, at the latest.
    std::thread::spawn(|| {
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        std::process::exit(0)
    });
    run(async {
        let mut node = Node::start(14);
        node.pulses.set_partners(BTreeMap::from([(key(13), vec![address])]));
        loop {
            if let PulseEvent::Connected(other) = node.event().await {
                node.pulses.send(other, &hello());
            }
        }
    });
}

#[test]
fn the_kill_of_a_process_is_proved() {
    run(async {
        let mut node = Node::start(13);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "pulse::tests::a_process_that_is_to_be_killed"])
            .args(["--ignored", "--nocapture"])
            .env(ADDRESS, node.address.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        node.expect(PulseEvent::Came(key(14), hello())).await;
        child.kill().unwrap();
        node.expect_end(key(14), true).await;
        child.wait().unwrap();
    });
}

#[test]
fn an_orderly_end_is_no_proof_for_a_node_that_is_told_to_believe_none() {
    run(async {
        let mut node = Node::with((17, "127.0.0.17:0", SECRET), false);
        let mut pulse = open(&node, key(1)).await;
        say(&mut pulse, &hello()).await;
        pulse.write_all(&wire::BEAT).await.unwrap();
        drop(pulse);
        node.expect(PulseEvent::Came(key(1), hello())).await;
        node.expect_end(key(1), false).await;
    });
}

#[test]
fn an_orderly_end_between_two_messages_is_a_proof() {
    run(async {
        let mut node = Node::start(15);
        let mut pulse = open(&node, key(1)).await;
        say(&mut pulse, &hello()).await;
        pulse.write_all(&wire::BEAT).await.unwrap();
        drop(pulse);
        node.expect(PulseEvent::Came(key(1), hello())).await;
        node.expect_end(key(1), true).await;
    });
}

#[test]
fn a_pulse_that_a_live_node_gives_up_proves_nothing() {
    run(async {
        let (mut one, mut two) = (Node::start(16), Node::start(17));
        one.partner(&two);
        one.expect_connected(two.key).await;
        one.pulses.send(two.key, &hello());
        two.expect(PulseEvent::Came(one.key, hello())).await;
        // No partner any more.
        one.pulses.set_partners(BTreeMap::new());
        two.expect_end(one.key, false).await;
        one.partner(&two);
        one.expect_connected(two.key).await;
        one.pulses.send(two.key, &hello());
        two.expect(PulseEvent::Came(one.key, hello())).await;
        // Another address of it.
        let listener = tokio::net::TcpListener::bind("127.0.0.17:0").await.unwrap();
        let other = listener.local_addr().unwrap();
        one.pulses.set_partners(BTreeMap::from([(two.key, vec![other])]));
        two.expect_end(one.key, false).await;
        one.partner(&two);
        one.expect_connected(two.key).await;
        one.pulses.send(two.key, &hello());
        two.expect(PulseEvent::Came(one.key, hello())).await;
        // The end of the thread.
        drop(one.pulses);
        two.expect_end(one.key, false).await;
    });
}

#[test]
fn a_further_address_does_not_end_a_pulse() {
    run(async {
        let (mut one, mut two) = (Node::start(18), Node::start(19));
        one.partner(&two);
        one.expect_connected(two.key).await;
        one.pulses.send(two.key, &hello());
        let addresses = vec!["127.0.0.19:1".parse().unwrap(), two.address];
        one.pulses.set_partners(BTreeMap::from([(two.key, addresses)]));
        one.pulses.send(two.key, &ask(1, 0));
        two.expect(PulseEvent::Came(one.key, hello())).await;
        two.expect(PulseEvent::Came(one.key, ask(1, 0))).await;
    });
}

#[test]
fn a_reset_and_an_end_inside_a_message_prove_nothing() {
    run(async {
        let mut node = Node::start(20);
        let message = wire::encode(&ask(1, 3)).unwrap();
        for len in [1, 3, 4, 5, message.len() - 1] {
            let mut pulse = open(&node, key(1)).await;
            say(&mut pulse, &hello()).await;
            pulse.write_all(&message[..len]).await.unwrap();
            drop(pulse);
            node.expect(PulseEvent::Came(key(1), hello())).await;
            node.expect_end(key(1), false).await;
        }
        let mut pulse = open(&node, key(1)).await;
        say(&mut pulse, &hello()).await;
        node.expect(PulseEvent::Came(key(1), hello())).await;
        SockRef::from(&pulse).set_linger(Some(Duration::ZERO)).unwrap();
        drop(pulse);
        node.expect_end(key(1), false).await;
    });
}

#[test]
fn the_end_of_a_connection_whose_ends_see_different_addresses_proves_nothing() {
    run(async {
        let mut node = Node::start(21);
        let other: SocketAddr = "192.0.2.1:1".parse().unwrap();
        for is_own in [true, false] {
            let change = |hello: &mut Hello| {
                let (own, peer) = &mut hello.addresses;
                *(if is_own { own } else { peer }) = other;
            };
            let mut opening = Opening::start(&node, key(1), change).await;
            let proof = opening.proof(SECRET).await.unwrap();
            opening.stream.write_all(&proof).await.unwrap();
            say(&mut opening.stream, &hello()).await;
            drop(opening);
            node.expect(PulseEvent::Came(key(1), hello())).await;
            node.expect_end(key(1), false).await;
        }
    });
}

#[test]
fn a_node_of_another_cluster_or_for_another_node_gets_no_answer() {
    run(async {
        let node = Node::start(22);
        let changes: [fn(&mut Hello); 3] = [
            |hello| hello.cluster = Uuid::from_u128(8),
            |hello| hello.to = key(2),
            |hello| hello.from = key(22),
        ];
        for change in changes {
            let mut opening = Opening::start(&node, key(1), change).await;
            let refused = opening.proof(SECRET).await.unwrap_err();
            assert!(
                matches!(refused, PulseError::Io(error) if error.kind() == ErrorKind::UnexpectedEof)
            );
        }
    });
}

#[test]
fn an_opener_that_does_not_know_the_secret_is_refused() {
    run(async {
        let mut node = Node::start(23);
        let mut opening = Opening::start(&node, key(1), |_| {}).await;
        let mut proof = opening.proof(SECRET).await.unwrap();
        proof[31] ^= 1;
        opening.stream.write_all(&proof).await.unwrap();
        assert_eq!(opening.stream.read(&mut [0]).await.unwrap(), 0);
        // The acceptor's own proof is not valid as the opener's.
        let mut opening = Opening::start(&node, key(1), |_| {}).await;
        let mut answer = [0; ANSWER_LEN];
        opening.stream.read_exact(&mut answer).await.unwrap();
        opening.stream.write_all(&wire::split_answer(&answer).1).await.unwrap();
        assert_eq!(opening.stream.read(&mut [0]).await.unwrap(), 0);
        // The first event is that of the next one.
        let mut pulse = open(&node, key(2)).await;
        say(&mut pulse, &hello()).await;
        node.expect(PulseEvent::Came(key(2), hello())).await;
    });
}

#[test]
fn an_acceptor_that_does_not_know_the_secret_gets_no_proof() {
    run(async {
        let mut node = Node::start(24);
        let listener = tokio::net::TcpListener::bind("127.0.0.24:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        node.pulses.set_partners(BTreeMap::from([(key(1), vec![address])]));
        let mut stream = accept(&listener, [4; 32]).await;
        let end = stream.read(&mut [0]).await.unwrap_err();
        assert_eq!(end.kind(), ErrorKind::ConnectionReset);
        let mut stream = accept(&listener, SECRET).await;
        stream.read_exact(&mut [0; PROOF_LEN]).await.unwrap();
        node.expect_connected(key(1)).await;
    });
}

#[test]
fn the_hello_of_the_same_process_is_the_first_message() {
    run(async {
        let mut node = Node::start(25);
        for first in
            [ask(1, 0), Pulse::Hello { run: RUN + 1, slices: Vec::new(), ahead: Vec::new() }]
        {
            let mut pulse = open(&node, key(1)).await;
            say(&mut pulse, &first).await;
            node.expect_end(key(1), false).await;
        }
        let (mut one, mut two) = (node, Node::start(26));
        one.partner(&two);
        one.expect_connected(two.key).await;
        one.pulses.send(two.key, &ask(1, 0));
        one.pulses.send(two.key, &hello());
        one.pulses.send(two.key, &ask(2, 0));
        two.expect(PulseEvent::Came(one.key, hello())).await;
        two.expect(PulseEvent::Came(one.key, ask(2, 0))).await;
    });
}

#[test]
fn a_message_that_cannot_be_decoded_ends_its_pulse() {
    run(async {
        let mut node = Node::start(27);
        let texts = ["{", r#"{"Ask":{"sequence":1,"questions":[],"more":1}}"#, r#"{"Other":1}"#];
        for text in texts {
            let mut pulse = open(&node, key(1)).await;
            say(&mut pulse, &hello()).await;
            let len = u32::try_from(text.len()).unwrap();
            pulse.write_all(&len.to_le_bytes()).await.unwrap();
            pulse.write_all(text.as_bytes()).await.unwrap();
            node.expect(PulseEvent::Came(key(1), hello())).await;
            node.expect_end(key(1), false).await;
        }
    });
}

#[test]
fn a_message_that_is_too_long_is_refused_by_its_length_alone() {
    run(async {
        let mut node = Node::start(28);
        for len in [u32::MAX, (1 << 20) + 1] {
            let mut pulse = open(&node, key(1)).await;
            say(&mut pulse, &hello()).await;
            pulse.write_all(&len.to_le_bytes()).await.unwrap();
            node.expect(PulseEvent::Came(key(1), hello())).await;
            node.expect_end(key(1), false).await;
        }
    });
}

#[test]
fn the_newest_pulse_of_a_node_counts() {
    run(async {
        let mut node = Node::start(29);
        let mut older = open(&node, key(1)).await;
        say(&mut older, &hello()).await;
        node.expect(PulseEvent::Came(key(1), hello())).await;
        let mut newer = open(&node, key(1)).await;
        say(&mut newer, &hello()).await;
        node.expect_end(key(1), false).await;
        node.expect(PulseEvent::Came(key(1), hello())).await;
        // It has been dropped, and its end is not an event.
        assert_eq!(older.read(&mut [0]).await.unwrap(), 0);
        drop(older);
        say(&mut newer, &ask(1, 0)).await;
        node.expect(PulseEvent::Came(key(1), ask(1, 0))).await;
        drop(newer);
        node.expect_end(key(1), true).await;
    });
}

#[test]
fn a_dead_process_does_not_replace_the_pulse_of_the_next_one() {
    run(async {
        let mut node = Node::start(30);
        let mut dead = Opening::start(&node, key(1), |_| {}).await;
        let proof = dead.proof(SECRET).await.unwrap();
        let mut next = open(&node, key(1)).await;
        say(&mut next, &hello()).await;
        node.expect(PulseEvent::Came(key(1), hello())).await;
        // The dead one's proof and hello come late.
        dead.stream.write_all(&proof).await.unwrap();
        assert_eq!(dead.stream.read(&mut [0]).await.unwrap(), 0);
        say(&mut next, &ask(1, 0)).await;
        node.expect(PulseEvent::Came(key(1), ask(1, 0))).await;
    });
}

#[test]
fn a_pulse_for_which_too_much_waits_is_aborted_and_begins_anew() {
    run(async {
        let mut node = Node::start(31);
        let listener = tokio::net::TcpListener::bind("127.0.0.31:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        node.pulses.set_partners(BTreeMap::from([(key(1), vec![address])]));
        let mut stream = accept(&listener, SECRET).await;
        stream.read_exact(&mut [0; PROOF_LEN]).await.unwrap();
        node.expect_connected(key(1)).await;
        node.pulses.send(key(1), &hello());
        for sequence in 0..8 {
            node.pulses.send(key(1), &ask(sequence, 7000));
        }
        let end = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(end.kind(), ErrorKind::ConnectionReset);
        let mut stream = accept(&listener, SECRET).await;
        stream.read_exact(&mut [0; PROOF_LEN]).await.unwrap();
        node.expect_connected(key(1)).await;
    });
}

#[test]
fn a_partner_that_starts_later_is_reached_at_the_address_that_works() {
    run(async {
        let mut one = Node::start(32);
        let address = TcpListener::bind("127.0.0.33:0").unwrap().local_addr().unwrap();
        let nobody = "127.0.0.33:1".parse().unwrap();
        one.pulses.set_partners(BTreeMap::from([(key(33), vec![nobody, address])]));
        // One attempt at least has failed when a pulse to another partner is up.
        let mut other = Node::start(34);
        let partners = [(key(33), vec![nobody, address]), (other.key, vec![other.address])];
        one.pulses.set_partners(BTreeMap::from(partners));
        one.expect_connected(other.key).await;
        one.pulses.send(other.key, &hello());
        other.expect(PulseEvent::Came(one.key, hello())).await;
        let mut two = Node::at(33, &address.to_string(), SECRET);
        one.expect_connected(two.key).await;
        one.pulses.send(two.key, &hello());
        two.expect(PulseEvent::Came(one.key, hello())).await;
    });
}

#[test]
fn silence_is_an_end_without_proof() {
    run(async {
        let (stream, _other) = tokio::io::duplex(64);
        let mut messages = Messages { stream, silence: Duration::from_millis(1) };
        assert!(matches!(messages.next().await, Err(PulseError::Silent)));
    });
}
