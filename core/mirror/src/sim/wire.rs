//! The connections between nodes: in order, late, and lost with all that is under way on them.
//!
//! After a loss, the next connection of a process claims the identity of the earlier one. Its claim is
//! answered when nothing of that one is under way at the other node; only then the lost operations end.
//! A connection that is given up leaves requests behind, which may still arrive.

use nearflash_device::{DeviceId, DeviceOperation, DeviceRequest, DeviceResult, OperationId};
use nearflash_request::{BufferId, Outcome};
use nearflash_units::{ByteLen, index};

use super::device::{buffer_of, digest};
use super::history::Time;
use super::{
    At, BLOCK, BLOCKS, Event, FIRST, FORWARDED, MICRO, MILLI, MIRRORS, PRIMARY_FACES,
    REPLICA_FACES, Run,
};
use crate::{Role, Submission, Term};

/// The time after which a node answers without a claim.
const SPAN: Time = 10_000 * MILLI;

/// From a core of a process to another node, and whether it is the replica face.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct LinkKey {
    pub(super) at: At,
    pub(super) life: u64,
    pub(super) to: usize,
    pub(super) is_replica: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Transit,
    AtTarget,
    /// At the target, or its answer is under way; nobody waits for it.
    Over,
}

#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) link: LinkKey,
    connection: u64,
    submission: Submission,
    state: State,
    /// The sender has its result.
    is_ended: bool,
    /// The bytes, on their way there or back.
    payload: Vec<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Link {
    connection: u64,
    last: Time,
    last_back: Time,
    is_claiming: bool,
    /// Of earlier connections, not ended yet.
    lost: Vec<usize>,
    queue: Vec<usize>,
}

impl Run {
    pub(super) fn transmit_new(&mut self, at: At, submission: Submission) {
        let device = submission.request.device.0;
        let number = self.sent.len();
        self.trace(|| format!("sent {number} {submission:?}"));
        let is_replica = device < PRIMARY_FACES;
        let base = if is_replica { REPLICA_FACES } else { PRIMARY_FACES };
        let to = index(device - base) / index(MIRRORS);
        let life = self.nodes[at.0].life;
        let link = LinkKey { at, life, to, is_replica };
        let mut payload = Vec::new();
        if let DeviceOperation::Write { buffer, buffer_offset, .. } = submission.request.operation {
            let skip = usize::try_from(buffer_offset.0 / BLOCK).expect("few");
            let len = usize::try_from(submission.request.len.0 / BLOCK).expect("few");
            payload = self.buffers[&buffer.0][skip..skip + len].to_vec();
        }
        let (connection, state, is_ended) = (0, State::Over, false);
        self.sent.push(Sent { link, connection, submission, state, is_ended, payload });
        let number = self.sent.len() - 1;
        let known = self.links.entry(link).or_default();
        if known.is_claiming {
            known.queue.push(number);
        } else {
            self.transmit(number);
        }
        if self.random.permille(self.lossy) && !self.is_calm() {
            self.reset(link);
        }
    }

    fn transmit(&mut self, number: usize) {
        let key = self.sent[number].link;
        let longest = if self.random.permille(self.late) { 900 * MILLI } else { 200 * MICRO };
        let delay = 10 * MICRO + self.random.below(longest);
        let link = self.links.get_mut(&key).expect("it is there");
        link.last = (self.now + delay).max(link.last + 1);
        let time = link.last;
        self.sent[number].connection = link.connection;
        self.sent[number].state = State::Transit;
        if !self.nodes[key.to].is_up {
            self.later(self.now + MILLI, Event::Lose(key));
        } else if !self.is_cut(key.at.0, key.to) {
            self.later(time, Event::Arrive(number));
        }
    }

    /// The connection is lost.
    pub(super) fn reset(&mut self, key: LinkKey) {
        let Some(link) = self.links.get_mut(&key) else { return };
        if link.is_claiming {
            return;
        }
        link.connection += 1;
        link.is_claiming = true;
        let lost = self.sent.iter_mut().enumerate().filter(|(_, sent)| {
            sent.link == key && !sent.is_ended && sent.connection + 1 == link.connection
        });
        let lost: Vec<usize> = lost.map(|(number, _)| number).collect();
        let lost: Vec<usize> =
            lost.into_iter().filter(|number| !link.queue.contains(number)).collect();
        link.lost.extend(&lost);
        self.count("connections lost");
        *self.counts.entry("operations lost").or_default() += lost.len() as u64;
        self.later(self.now + SPAN, Event::GiveUp(key, lost));
        let delay = 100 * MICRO + self.random.below(20 * MILLI);
        self.later(self.now + delay, Event::Claim(key));
    }

    /// The claim is answered when nothing of the earlier connections is under way at the other node.
    pub(super) fn try_claim(&mut self, key: LinkKey) {
        if !self.nodes[key.at.0].is_up || self.nodes[key.at.0].life != key.life {
            return;
        }
        let at_target = (key.to, key.at.1 % usize::from(self.nodes[key.to].core_count));
        let is_reached = self.nodes[key.to].is_up
            && self.stalled_until(at_target) <= self.now
            && self.nodes[key.to].paused_until <= self.now
            && !self.is_cut(key.at.0, key.to)
            && !self.is_cut(key.to, key.at.0);
        let connection = self.links[&key].connection;
        let is_earlier = |sent: &Sent| sent.link == key && sent.connection < connection;
        if is_reached {
            for sent in self.sent.iter_mut().filter(|sent| is_earlier(sent)) {
                if sent.state == State::Transit {
                    sent.state = State::Over;
                }
            }
        }
        let is_busy =
            self.sent.iter().any(|sent| is_earlier(sent) && sent.state == State::AtTarget);
        let is_halted =
            self.nodes[key.at.0].paused_until.max(self.stalled_until(key.at)) > self.now;
        if !is_reached || is_busy || is_halted {
            let at = self.now + 200 * MICRO + self.random.below(20 * MILLI);
            return self.later(at, Event::Claim(key));
        }
        let link = self.links.get_mut(&key).expect("it is there");
        link.is_claiming = false;
        let (lost, queue) = (std::mem::take(&mut link.lost), std::mem::take(&mut link.queue));
        queue.into_iter().for_each(|number| self.transmit(number));
        self.give_up(key, &lost);
    }

    /// Ends operations that may have taken effect.
    pub(super) fn give_up(&mut self, key: LinkKey, lost: &[usize]) {
        for number in lost.iter().copied() {
            self.end_sent(key, number, DeviceResult::Remote(Outcome::PathLost));
        }
    }

    fn end_sent(&mut self, key: LinkKey, number: usize, result: DeviceResult) {
        let node = &self.nodes[key.at.0];
        if !node.is_up || node.life != key.life {
            return;
        }
        if !std::mem::replace(&mut self.sent[number].is_ended, true) {
            let request = self.sent[number].submission.request;
            self.result(key.at, request, result);
        }
    }

    /// Ends all operations on a device, of which nothing is needed any more.
    pub(super) fn abandon(&mut self, at: At, device: DeviceId) {
        let life = self.nodes[at.0].life;
        let keys: Vec<LinkKey> =
            self.links.keys().copied().filter(|key| key.at == at && key.life == life).collect();
        for key in keys {
            let is_meant = |sent: &Sent| {
                sent.link == key && !sent.is_ended && sent.submission.request.device == device
            };
            let sent: Vec<usize> =
                (0..self.sent.len()).filter(|number| is_meant(&self.sent[*number])).collect();
            for number in sent {
                let link = self.links.get_mut(&key).expect("it is there");
                let is_queued = link.queue.contains(&number);
                link.queue.retain(|queued| *queued != number);
                self.count("operations abandoned");
                let outcome =
                    if is_queued { Outcome::DeviceUnavailable } else { Outcome::PathLost };
                // Its request may still arrive.
                self.end_sent(key, number, DeviceResult::Remote(outcome));
            }
        }
    }

    /// All connections between two nodes are lost within the span.
    pub(super) fn lose_links(&mut self, one: usize, other: usize, span: Time) {
        let is_between = |key: &&LinkKey| {
            (key.at.0, key.to) == (one, other) || (key.at.0, key.to) == (other, one)
        };
        let keys: Vec<LinkKey> = self.links.keys().filter(is_between).copied().collect();
        for key in keys {
            self.later(self.now + span, Event::Lose(key));
        }
    }

    /// A process has died: what it has not answered never will be.
    pub(super) fn links_die(&mut self, node: usize) {
        for number in 0..self.sent.len() {
            let sent = &mut self.sent[number];
            if sent.link.to == node && sent.state == State::AtTarget {
                sent.state = State::Over;
            }
        }
        let keys: Vec<LinkKey> = self.links.keys().filter(|key| key.to == node).copied().collect();
        for key in keys {
            let delay = MILLI + self.random.below(200 * MILLI);
            self.later(self.now + delay, Event::Lose(key));
        }
    }

    pub(super) fn arrive(&mut self, number: usize) {
        let Sent { link, submission, state, payload, .. } = self.sent[number].clone();
        let to = link.to;
        if state != State::Transit || !self.nodes[to].is_up {
            self.sent[number].state = State::Over;
            return;
        }
        if self.sent[number].is_ended || !self.nodes[link.at.0].is_up {
            self.count("requests that nobody waits for");
        }
        self.sent[number].state = State::AtTarget;
        let at = (to, link.at.1 % self.nodes[to].cores.len());
        let Submission { request, mirror, cause, .. } = submission;
        let sent = cause.sent_in.expect("it is for another node");
        let refused = DeviceResult::Remote(Outcome::DeviceUnavailable);
        if self.nodes[to].gone.contains(&mirror.0) {
            // Its faces are withdrawn.
            self.count("requests on mirrors that are gone");
            return self.answer(number, refused);
        }
        let io = FORWARDED + u32::try_from(number).expect("they are few");
        // The bytes go into a buffer of this node.
        let buffer = BufferId(io);
        let operation = match request.operation {
            DeviceOperation::Write { durable, .. } => {
                self.buffers.insert(buffer.0, payload);
                DeviceOperation::Write { buffer, buffer_offset: ByteLen(0), durable }
            }
            DeviceOperation::Read { .. } => {
                DeviceOperation::Read { buffer: Some(buffer), buffer_offset: ByteLen(0) }
            }
            operation => operation,
        };
        let id = OperationId { io, op: 0, generation: 0 };
        let device = DeviceId(FIRST + mirror.0);
        let request = DeviceRequest { id, device, operation, ..request };
        if link.is_replica {
            let mut accepted = Ok(());
            self.with_core(at, |core| accepted = core.accept(mirror, request, sent));
            match accepted {
                Ok(()) => self.accepted(number, to),
                Err(_) => {
                    self.count("replica requests refused");
                    self.answer(number, refused);
                }
            }
            // It may be submitted only now.
            return self.with_core(at, |_| {});
        }
        self.count("forwarded");
        if self.nodes[at.0].cores[at.1].role(mirror) != Some((Role::Primary, Term(sent.term))) {
            self.count("forwarded in vain");
            return self.answer(number, refused);
        }
        self.with_core(at, |core| core.submit_forwarded(mirror, request));
    }

    fn accepted(&mut self, number: usize, to: usize) {
        let Submission { request, mirror, cause, .. } = self.sent[number].submission;
        let term = Term(cause.sent_in.expect("it is for another node").term);
        if self.is_open_later(to, mirror.0, term) {
            self.wrong(format!("{term:?} was accepted after a later one had opened"));
        }
        if let DeviceOperation::Write { .. } = request.operation {
            let start = u64::from(mirror.0) * BLOCKS + request.offset.0 / BLOCK;
            let stamps = self.sent[number].payload.clone();
            self.nodes[to].device.accepted.extend(stamps.into_iter().zip(start..));
            self.send_back(number, None);
        }
    }

    /// The other node has a result.
    pub(super) fn answer(&mut self, number: usize, result: DeviceResult) {
        self.sent[number].state = State::Over;
        let operation = self.sent[number].submission.request.operation;
        if let DeviceOperation::Read { .. } = operation {
            let io = FORWARDED + u32::try_from(number).expect("they are few");
            let mut payload = self.buffers.remove(&io).unwrap_or_default();
            if let Some(key) = self.sent[number].submission.digests {
                payload.iter_mut().for_each(|stamp| *stamp = digest(&key, *stamp, self.mutant));
            }
            self.sent[number].payload = payload;
        }
        self.send_back(number, Some(result));
    }

    fn send_back(&mut self, number: usize, result: Option<DeviceResult>) {
        let delay = 10 * MICRO + self.random.below(200 * MICRO);
        let key = self.sent[number].link;
        let Some(link) = self.links.get_mut(&key) else { return };
        link.last_back = (self.now + delay).max(link.last_back + 1);
        let time = link.last_back;
        if !self.is_cut(key.to, key.at.0)
            && self.links[&key].connection == self.sent[number].connection
        {
            self.later(time, Event::Back(number, result));
        }
    }

    pub(super) fn back(&mut self, number: usize, result: Option<DeviceResult>) {
        let Sent { link, connection, submission, is_ended, .. } = self.sent[number].clone();
        if is_ended || self.links[&link].connection != connection {
            return;
        }
        let id = submission.request.id;
        match result {
            None => self.with_core(link.at, |core| core.handle_received(id)),
            Some(result) => {
                if let (Some(buffer), DeviceOperation::Read { .. }, DeviceResult::Done) =
                    (buffer_of(submission.request.operation), submission.request.operation, result)
                {
                    let payload = std::mem::take(&mut self.sent[number].payload);
                    self.buffers.insert(buffer.0, payload);
                }
                self.end_sent(link, number, result);
            }
        }
    }
}
