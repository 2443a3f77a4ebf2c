//! Messages that found a mailbox full. The order between two cores is kept: no message overtakes an
//! earlier one.

use std::collections::VecDeque;

use nearflash_engine::CoreId;

use crate::mailbox::Sender;

/// The maximum number of messages of a core that wait for room. At this number, the core takes no
/// more messages from its peers: those that it has taken cause a bounded number of further
/// messages.
pub(crate) const UNSENT_MAX: usize = 4096;

#[derive(Debug)]
pub(crate) struct Unsent<M> {
    /// By core.
    waiting: Vec<VecDeque<M>>,
    len: usize,
}

impl<M> Default for Unsent<M> {
    fn default() -> Self {
        Self { waiting: Vec::new(), len: 0 }
    }
}

impl<M> Unsent<M> {
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the core must stop taking messages, since they could cause more.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len >= UNSENT_MAX
    }

    /// Sends a message, or queues it behind those that wait for the same core.
    pub(crate) fn send(&mut self, core: CoreId, message: M, peers: &[Sender<M>]) {
        let index = usize::from(core.0);
        let is_first = self.waiting.get(index).is_none_or(VecDeque::is_empty);
        let unsent = if is_first { peers[index].send(message).err() } else { Some(message) };
        let Some(message) = unsent else { return };
        if self.waiting.len() <= index {
            self.waiting.resize_with(index + 1, VecDeque::new);
        }
        self.waiting[index].push_back(message);
        self.len += 1;
    }

    /// Sends the waiting messages for which there is room now.
    pub(crate) fn retry(&mut self, peers: &[Sender<M>]) {
        for (waiting, peer) in self.waiting.iter_mut().zip(peers) {
            while let Some(message) = waiting.pop_front() {
                if let Err(message) = peer.send(message) {
                    waiting.push_front(message);
                    break;
                }
                self.len -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::Mailbox;

    #[test]
    fn messages_that_wait_for_one_core_keep_their_order_and_hold_up_no_other() {
        let boxes = [Mailbox::new().unwrap(), Mailbox::new().unwrap()];
        let peers = [boxes[0].sender(), boxes[1].sender()];
        let mut unsent = Unsent::default();
        let mut sent = 0u32;
        while !unsent.is_full() {
            unsent.send(CoreId(0), sent, &peers);
            sent += 1;
        }
        unsent.send(CoreId(1), 7, &peers);
        assert_eq!(boxes[1].take(), Some(7));
        for expected in 0..sent {
            assert_eq!(boxes[0].take(), Some(expected));
            unsent.retry(&peers);
        }
        assert!(unsent.is_empty() && boxes[0].take().is_none());
    }
}
