//! The thread that handles the messages of hosts that authenticate: it has their keys, and a Diffie-Hellman
//! computation takes milliseconds, for which no core waits.
//!
//! A connection has at most one message here. The keys are those of the moment, so that a change of the keys
//! concerns the next message.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use nearflash_api::RefusalReason;
use nearflash_nvme::auth::{RANDOM_LEN, Random, Step};
use nearflash_shard::{Claim, Peer, Protocol};

use crate::node::{Node, fill_random};
use crate::runtime::{Authentication, On};
use nearflash_journal::peer_lines::Kind;
use nearflash_journal::refusals::{PEERS, Refusal, may_write};

/// The messages that wait, by address: the addresses take turns, so that many messages of one delay only
/// its own.
#[derive(Debug)]
struct Turns<T>(VecDeque<(IpAddr, VecDeque<T>)>);

impl<T> Turns<T> {
    fn push(&mut self, address: IpAddr, message: T) {
        match self.0.iter_mut().find(|(waiting, _)| *waiting == address) {
            Some((_, messages)) => messages.push_back(message),
            None => self.0.push_back((address, [message].into())),
        }
    }

    fn pop(&mut self) -> Option<T> {
        let (address, mut messages) = self.0.pop_front()?;
        let message = messages.pop_front();
        if !messages.is_empty() {
            self.0.push_back((address, messages));
        }
        message
    }
}

/// The state of the queue.
struct State {
    waiting: Turns<Authentication>,
    is_over: bool,
}

/// The queue to the thread.
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, asked: Authentication) {
        let address = match asked.peer {
            Peer::Address(address) => address.ip(),
            Peer::Process { .. } => Ipv4Addr::LOCALHOST.into(),
        };
        self.state().waiting.push(address, asked);
        self.changed.notify_one();
    }

    /// The next message; `None` once the queue is over.
    fn next(&self) -> Option<Authentication> {
        let is_idle = |state: &mut State| !state.is_over && state.waiting.0.is_empty();
        let waited = self.changed.wait_while(self.state(), is_idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.is_over { None } else { state.waiting.pop() }
    }

    fn end(&self) {
        self.state().is_over = true;
        self.changed.notify_one();
    }
}

/// The queue from the cores to the thread.
pub(crate) fn queue() -> (On<Authentication>, Arc<Queue>) {
    let state = State { waiting: Turns(VecDeque::new()), is_over: false };
    let queue = Arc::new(Queue { state: Mutex::new(state), changed: Condvar::new() });
    let to_thread = Arc::clone(&queue);
    (On::new(move |asked| to_thread.add(asked)), queue)
}

/// The thread.
pub(crate) struct Authenticator {
    queue: Arc<Queue>,
    thread: JoinHandle<()>,
}

impl Authenticator {
    pub(crate) fn start(node: Arc<Node>, queue: Arc<Queue>) -> io::Result<Self> {
        let to_thread = Arc::clone(&queue);
        let run = move || {
            while let Some(asked) = to_thread.next() {
                answer(&node, asked);
            }
        };
        let thread = Builder::new().name("authentication".to_owned()).spawn(run)?;
        Ok(Self { queue, thread })
    }

    /// Ends the thread. Hosts that wait for it are about to be disconnected.
    pub(crate) fn stop(self) {
        self.queue.end();
        if self.thread.join().is_err() {
            tracing::error!("the thread for authentications has panicked");
        }
    }
}

fn answer(node: &Node, mut asked: Authentication) {
    let mut random = Random([0; RANDOM_LEN]);
    if let Err(error) = fill_random(&mut random.0) {
        // Without an answer, the host is disconnected at the end of its login time-out.
        return tracing::error!("a host cannot authenticate: {error}");
    }
    let keys = node.host_keys(&asked.step.names.host);
    asked.step.run(keys.as_ref(), &random);
    report(&asked.step, asked.peer);
    node.answer_authentication(asked);
}

fn report(step: &Step, peer: Peer) {
    let host = step.names.host.as_str();
    if let Some(explanation) = step.end.failure() {
        let claim = Claim {
            name: Some(host.into()),
            account: None,
            object: Some(step.names.subsystem.as_str().into()),
        };
        let (protocol, reason) = (Protocol::NvmeTcp.name(), RefusalReason::NotProved);
        let (source, text) = (peer.into(), &format!("host not authenticated: {explanation}"));
        Refusal { protocol, peer: &peer, source, claim: &claim, reason, text }.log();
    } else if step.end.has_proof() && may_write(peer, Kind::Connected) {
        match step.end.has_previous_key() {
            true => {
                let text = "host proved its previous key, which a new one replaces";
                tracing::info!(target: PEERS, %peer, host, "{text}");
            }
            false => tracing::info!(target: PEERS, %peer, host, "host proved its key"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_messages_of_one_address_delay_only_its_own() {
        let [many, few]: [IpAddr; 2] = [[192, 0, 2, 1].into(), [192, 0, 2, 2].into()];
        let mut turns = Turns(VecDeque::new());
        (0..40).for_each(|number| turns.push(many, number));
        turns.push(few, 100);
        turns.push(few, 101);
        let order: Vec<u32> = std::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(order[..5], [0, 100, 1, 101, 2]);
        assert_eq!((order.len(), order[41]), (42, 39));
    }
}
