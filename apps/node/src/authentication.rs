//! The thread that handles the messages of hosts that authenticate: it has their keys, and a Diffie-Hellman
//! computation takes milliseconds, for which no core waits.
//!
//! A connection has at most one message here. The keys are those of the moment, so that a change of the keys
//! concerns the next message.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use nearflash_nvme::auth::{RANDOM_LEN, Random};

use crate::node::{Node, fill_random};
use crate::runtime_face::{Authentication, OnAuthentication};

/// The two ends of the queue to the thread.
pub(crate) struct Queue {
    sender: Sender<Option<Authentication>>,
    receiver: Receiver<Option<Authentication>>,
}

/// The queue from the cores to the thread.
pub(crate) fn queue() -> (OnAuthentication, Queue) {
    let (sender, receiver) = channel();
    let to_thread = sender.clone();
    let take = move |asked| {
        // The thread has ended when the node stops.
        let _ = to_thread.send(Some(asked));
    };
    (OnAuthentication::new(take), Queue { sender, receiver })
}

/// The thread.
pub(crate) struct Authenticator {
    sender: Sender<Option<Authentication>>,
    thread: JoinHandle<()>,
}

impl Authenticator {
    pub(crate) fn start(node: Arc<Node>, queue: Queue) -> io::Result<Self> {
        let Queue { sender, receiver } = queue;
        let run = move || {
            while let Ok(Some(asked)) = receiver.recv() {
                answer(&node, asked);
            }
        };
        let thread = Builder::new().name("authentication".to_owned()).spawn(run)?;
        Ok(Self { sender, thread })
    }

    /// Ends the thread. Hosts that wait for it are about to be disconnected.
    pub(crate) fn stop(self) {
        let _ = self.sender.send(None);
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
    let (host, peer) = (asked.step.names.host.as_str(), asked.peer);
    if let Some(reason) = asked.step.end.failure() {
        tracing::warn!(%peer, host, "host not authenticated: {reason}");
    } else if asked.step.end.has_previous_key() {
        tracing::info!(%peer, host, "host proved its previous key, which a new one replaces");
    } else if asked.step.end.has_proof() {
        tracing::info!(%peer, host, "host proved its key");
    }
    node.answer_authentication(asked);
}
