//! The connections between nodes: in order, late, and lost with all that is under way on them.
//!
//! After a loss, the next connection claims the identity of the earlier one. Its claim is answered when
//! nothing of that one is under way at the other node; only then the lost operations end.

use nearflash_device::{DeviceId, DeviceOperation, DeviceRequest, DeviceResult, OperationId};
use nearflash_request::Outcome;
use nearflash_units::index;

use super::history::Time;
use super::run::{
    At, BLOCK, BLOCKS, Event, FIRST, FORWARDED, MICRO, MIRRORS, PRIMARY_FACES, REPLICA_FACES, Run,
};
use crate::{ReplicaRequest, Role, Submission};

/// From a core of a node to another node, and whether it is the replica face.
pub(super) type LinkKey = (usize, usize, usize, bool);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Transit,
    AtTarget,
    Answered,
    Over,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    link: LinkKey,
    connection: u64,
    submission: Submission,
    state: State,
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
        let is_replica = device < PRIMARY_FACES;
        let base = if is_replica { REPLICA_FACES } else { PRIMARY_FACES };
        let to = index(device - base) / index(MIRRORS);
        let link = (at.0, at.1, to, is_replica);
        let sent = Sent { link, connection: 0, submission, state: State::Over };
        self.sent.push(sent);
        let number = self.sent.len() - 1;
        let known = self.links.entry(link).or_default();
        if known.is_claiming {
            known.queue.push(number)
        } else {
            self.transmit(number)
        }
        if self.random.permille(self.lossy) {
            self.reset(link);
        }
    }

    fn transmit(&mut self, number: usize) {
        let delay = 10 * MICRO + self.random.below(200 * MICRO);
        let link = self.links.get_mut(&self.sent[number].link).expect("it is there");
        link.last = (self.now + delay).max(link.last + 1);
        let time = link.last;
        self.sent[number].connection = link.connection;
        self.sent[number].state = State::Transit;
        self.later(time, Event::Arrive(number));
    }

    fn reset(&mut self, key: LinkKey) {
        let link = self.links.get_mut(&key).expect("it is there");
        if link.is_claiming {
            return;
        }
        (link.connection, link.is_claiming) = (link.connection + 1, true);
        for (number, sent) in self.sent.iter_mut().enumerate() {
            if sent.link == key && sent.state != State::Over {
                link.lost.push(number);
                if sent.state != State::AtTarget {
                    sent.state = State::Over;
                }
            }
        }
        let lost = link.lost.len();
        self.count("connections lost");
        *self.counts.entry("operations lost").or_default() += lost as u64;
        self.claim(key);
    }

    /// The claim is answered when nothing of the earlier connection is under way at the other node.
    fn claim(&mut self, key: LinkKey) {
        let link = &self.links[&key];
        if link.is_claiming && link.lost.iter().all(|n| self.sent[*n].state == State::Over) {
            let delay = 100 * MICRO + self.random.below(2000 * MICRO);
            self.later(self.now + delay, Event::Claimed(key));
        }
    }

    pub(super) fn claimed(&mut self, key: LinkKey) {
        let link = self.links.get_mut(&key).expect("it is there");
        link.is_claiming = false;
        let (lost, queue) = (std::mem::take(&mut link.lost), std::mem::take(&mut link.queue));
        queue.into_iter().for_each(|number| self.transmit(number));
        for number in lost {
            let request = self.sent[number].submission.request;
            let result = DeviceResult::Remote(Outcome::PathLost);
            self.result((key.0, key.1), request, result);
        }
    }

    pub(super) fn arrive(&mut self, number: usize) {
        let Sent { link, submission, state, .. } = self.sent[number];
        if state != State::Transit {
            return;
        }
        self.sent[number].state = State::AtTarget;
        let (_, core, to, is_replica) = link;
        let at = (to, core % self.nodes[to].len());
        let Submission { request, mirror, tag } = submission;
        let tag = tag.expect("it is for another node");
        let refused = DeviceResult::Remote(Outcome::DeviceUnavailable);
        let token = number as u64;
        if is_replica {
            let DeviceRequest { operation, offset, len, .. } = request;
            let request = ReplicaRequest { token, mirror, tag, operation, offset, len };
            let mut accepted = Ok(());
            self.with_core(at, |core| accepted = core.accept(request));
            match accepted {
                Ok(()) => self.accepted(number, to),
                Err(_) => {
                    self.count("replica requests refused");
                    self.answer(number, refused);
                }
            }
            return;
        }
        self.count("forwarded");
        if self.nodes[at.0][at.1].role(mirror) != Some((Role::Primary, tag.term)) {
            return self.answer(number, refused);
        }
        let io = FORWARDED + u32::try_from(number).expect("they are few");
        let id = OperationId { io, op: 0, generation: 0 };
        let device = DeviceId(FIRST + mirror.0);
        self.with_core(at, |core| core.submit(mirror, DeviceRequest { id, device, ..request }));
    }

    fn accepted(&mut self, number: usize, to: usize) {
        let Submission { request, mirror, tag } = self.sent[number].submission;
        let record = &self.records[index(mirror.0)];
        let term = tag.expect("it is for another node").term;
        if record.term > term && record.primary == to && record.is_open {
            self.wrong(format!("{term:?} was accepted after {:?} had opened", record.term));
        }
        if let DeviceOperation::Write { buffer, .. } = request.operation {
            let start = u64::from(mirror.0) * BLOCKS + request.offset.0 / BLOCK;
            let blocks = start..start + request.len.0 / BLOCK;
            self.devices[to].accepted.extend(blocks.map(|block| (buffer.0.into(), block)));
            self.send_back(number, None);
        }
    }

    /// The other node has a result.
    pub(super) fn answer(&mut self, number: usize, result: DeviceResult) {
        let Sent { link, connection, .. } = self.sent[number];
        if self.links[&link].connection != connection {
            self.sent[number].state = State::Over;
            return self.claim(link);
        }
        self.sent[number].state = State::Answered;
        self.send_back(number, Some(result));
    }

    fn send_back(&mut self, number: usize, result: Option<DeviceResult>) {
        let delay = 10 * MICRO + self.random.below(200 * MICRO);
        let link = self.links.get_mut(&self.sent[number].link).expect("it is there");
        link.last_back = (self.now + delay).max(link.last_back + 1);
        let time = link.last_back;
        self.later(time, Event::Back(number, result));
    }

    pub(super) fn back(&mut self, number: usize, result: Option<DeviceResult>) {
        let Sent { link, connection, submission, state } = self.sent[number];
        if state == State::Over || self.links[&link].connection != connection {
            return;
        }
        let id = submission.request.id;
        let at = (link.0, link.1);
        match result {
            None => self.with_core(at, |core| core.handle_received(id)),
            Some(result) => {
                self.sent[number].state = State::Over;
                self.result(at, submission.request, result);
            }
        }
    }
}
