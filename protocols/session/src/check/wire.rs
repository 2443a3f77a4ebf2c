//! Both ends of a protocol, joined by streams that split and merge at random, and a volume.
//!
//! Reads return the data that was written, every request is answered once with its expected answer,
//! and all buffers are returned, for all requests, delays and orders of completions.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::ops::Range;

use nearflash_request::{BufferId, Request};

use super::{Choices, Requesting, Serving, Volume};
use crate::requesting::RequestingEnd;
use crate::serving::ServingEnd;

/// The part of a [`Wire`] that a protocol adds.
pub trait Door: Sized {
    /// The requesting end.
    type Requesting: RequestingEnd;
    /// The serving end.
    type Serving: ServingEnd<PeerError: Debug>;
    /// Names a request under way on its connection.
    type Id: Copy + Debug + Eq + Hash;
    /// The end of a request, as its requesting end sees it.
    type Answer: Debug + PartialEq;

    /// Submits a request on a connection. Returns `false` if there is no room for one, or another
    /// request concerns the same bytes.
    fn submit(wire: &mut Wire<Self>, link: usize) -> bool;

    /// Meets every demand of a serving end. Requests on the volume go to [`Link::requests`].
    fn take_demands(&mut self, link: &mut Link<Self>);

    /// The next request that has completed at a requesting end.
    fn poll_completion(&mut self, link: &mut Link<Self>) -> Option<(Self::Id, Self::Answer)>;

    /// The number of requests that the serving end has not answered.
    fn unanswered(serving: &Self::Serving) -> usize;

    /// Other steps of a connection.
    fn turn(_wire: &mut Wire<Self>, _link: usize) {}

    /// The bytes that requests concern: usually the whole volume.
    fn object(&self, volume: &Volume) -> Vec<u8> {
        volume.bytes().to_vec()
    }
}

/// One connection, with its streams and requests in transit.
#[allow(missing_debug_implementations, reason = "it is the state of a test")]
pub struct Link<D: Door> {
    /// The requesting end.
    pub requesting: Requesting<D::Requesting>,
    /// The serving end.
    pub serving: Serving<D::Serving>,
    /// Its requests that the volume has not completed.
    pub requests: Vec<Request>,
    to_serving: Vec<u8>,
    to_requesting: Vec<u8>,
}

/// The expected end of a request under way.
#[derive(Debug)]
pub struct Expected<A> {
    /// The bytes that it concerns: until its end, no other request concerns them.
    pub bytes: Range<usize>,
    /// The answer.
    pub answer: A,
    /// The data of a read.
    pub read: Option<Vec<u8>>,
    /// Its buffer at the requesting end.
    pub buffer: Option<BufferId>,
}

impl<A> Expected<A> {
    /// An answer without data.
    pub const fn new(bytes: Range<usize>, answer: A) -> Self {
        Self { bytes, answer, read: None, buffer: None }
    }
}

/// The connections of a check, and the model of what they share.
#[allow(missing_debug_implementations, reason = "it is the state of a test")]
pub struct Wire<D: Door> {
    /// The protocol's part.
    pub door: D,
    /// The source of all choices.
    pub choices: Choices,
    /// The connections.
    pub links: Vec<Link<D>>,
    /// The volume.
    pub volume: Volume,
    /// The bytes that it must hold.
    pub model: Vec<u8>,
    expected: HashMap<(usize, D::Id), Expected<D::Answer>>,
}

impl<D: Door> Wire<D> {
    /// A volume of which requests concern `len` bytes, and no connection.
    pub fn new(door: D, seed: u64, volume: Volume, len: usize) -> Self {
        let (choices, model) = (Choices::new(seed), vec![0; len]);
        Self { door, choices, links: Vec::new(), volume, model, expected: HashMap::new() }
    }

    /// Adds a connection. Returns its number.
    pub fn connect(&mut self, requesting: D::Requesting, serving: D::Serving) -> usize {
        self.links.push(Link {
            requesting: Requesting::new(requesting),
            serving: Serving::new(serving),
            requests: Vec::new(),
            to_serving: Vec::new(),
            to_requesting: Vec::new(),
        });
        self.links.len() - 1
    }

    /// Submits so many requests, runs until all are answered, and checks the result.
    pub fn run(mut self, requests: usize) {
        let mut left = requests;
        while left > 0 || !self.expected.is_empty() {
            let link = self.choices.below(self.links.len());
            if left > 0 && self.choices.once_in(2) && D::submit(&mut self, link) {
                left -= 1;
            }
            self.turn(link);
            while let Some((id, answer)) = self.door.poll_completion(&mut self.links[link]) {
                self.check_answer(link, id, &answer);
            }
        }
        self.check_over();
    }

    /// Makes a random step of a connection.
    pub fn turn(&mut self, link: usize) {
        match self.choices.below(5) {
            0 => self.send_requests(link),
            1 => self.receive_requests(link),
            2 => self.complete_some(link),
            3 => self.send_answers(link),
            _ => self.receive_answers(link),
        }
        D::turn(self, link);
    }

    /// Whether no request under way concerns any of these bytes.
    pub fn is_free(&self, bytes: &Range<usize>) -> bool {
        let mut others = self.expected.values().map(|expected| &expected.bytes);
        others.all(|other| other.end <= bytes.start || bytes.end <= other.start)
    }

    /// Expects the bytes of the model from a read, unless they lie past the end, and takes a buffer
    /// for them.
    pub fn reading(
        &mut self,
        link: usize,
        bytes: Range<usize>,
        answer: D::Answer,
    ) -> (BufferId, Expected<D::Answer>) {
        let buffer = self.links[link].requesting.memory.take(bytes.len());
        let read = self.model.get(bytes.clone()).map(<[u8]>::to_vec);
        (buffer, Expected { bytes, answer, read, buffer: Some(buffer) })
    }

    /// Writes new bytes to the model, unless they lie past the end, and puts them into a buffer.
    pub fn writing(
        &mut self,
        link: usize,
        bytes: Range<usize>,
        answer: D::Answer,
    ) -> (BufferId, Expected<D::Answer>) {
        let buffer = self.new_bytes(link, bytes.len());
        if let Some(model) = self.model.get_mut(bytes.clone()) {
            model.copy_from_slice(self.links[link].requesting.memory.bytes(buffer));
        }
        (buffer, Expected { bytes, answer, read: None, buffer: Some(buffer) })
    }

    /// Zeroes bytes of the model, unless they lie past the end.
    pub fn clearing(&mut self, bytes: Range<usize>, answer: D::Answer) -> Expected<D::Answer> {
        if let Some(model) = self.model.get_mut(bytes.clone()) {
            model.fill(0);
        }
        Expected::new(bytes, answer)
    }

    /// A buffer of bytes that differ from those around them.
    pub fn new_bytes(&mut self, link: usize, len: usize) -> BufferId {
        let memory = &mut self.links[link].requesting.memory;
        let buffer = memory.take(len);
        let first = self.choices.any();
        for (byte, at) in memory.bytes_mut(buffer).iter_mut().zip(first..) {
            [*byte, ..] = (at ^ at >> 8).to_le_bytes();
        }
        buffer
    }

    /// Records a request that was submitted.
    pub fn expect(&mut self, link: usize, id: D::Id, expected: Expected<D::Answer>) {
        let twin = self.expected.insert((link, id), expected);
        assert!(twin.is_none(), "{id:?} names one request under way");
    }

    /// The number of bytes of a stream that move at once.
    fn cut(&mut self, len: usize) -> usize {
        match self.choices.below(4) {
            0 => self.choices.below(len + 1),
            1 => self.choices.below(100).min(len),
            _ => len,
        }
    }

    fn send_requests(&mut self, link: usize) {
        let len = self.cut(self.links[link].requesting.session.output_len());
        let link = &mut self.links[link];
        link.to_serving.extend(link.requesting.take_output(len));
    }

    fn receive_requests(&mut self, link: usize) {
        let len = self.cut(self.links[link].to_serving.len());
        let link = &mut self.links[link];
        let mut taken = 0;
        while taken < len {
            match link.serving.receive(&link.to_serving[taken..len]) {
                Some(more) => taken += more,
                // The pool is sometimes empty.
                None if self.choices.once_in(3) || !link.serving.provide_buffer() => break,
                None => {}
            }
        }
        assert!(link.serving.error.is_none(), "a sound peer: {:?}", link.serving.error);
        link.to_serving.drain(..taken);
        self.door.take_demands(link);
    }

    /// Completes some requests, in any order.
    fn complete_some(&mut self, link: usize) {
        let link = &mut self.links[link];
        while !self.choices.once_in(3) && link.serving.provide_buffer() {}
        self.door.take_demands(link);
        for _ in 0..self.choices.below(4).min(link.requests.len()) {
            let request = link.requests.swap_remove(self.choices.below(link.requests.len()));
            link.serving.complete(request, &mut self.volume);
        }
        self.door.take_demands(link);
    }

    fn send_answers(&mut self, link: usize) {
        let len = self.cut(self.links[link].serving.session.output_len());
        let link = &mut self.links[link];
        link.to_requesting.extend(link.serving.take_output(len));
    }

    fn receive_answers(&mut self, link: usize) {
        let len = self.cut(self.links[link].to_requesting.len());
        let link = &mut self.links[link];
        let mut taken = 0;
        while taken < len {
            let Some(more) = link.requesting.receive(&link.to_requesting[taken..len]) else {
                break;
            };
            taken += more;
        }
        assert!(link.requesting.error.is_none(), "a sound peer: {:?}", link.requesting.error);
        link.to_requesting.drain(..taken);
    }

    fn check_answer(&mut self, link: usize, id: D::Id, answer: &D::Answer) {
        let expected = self.expected.remove(&(link, id)).expect("it was submitted");
        assert_eq!(*answer, expected.answer, "{id:?} of {:?}", expected.bytes);
        let Some(buffer) = expected.buffer else { return };
        let memory = &mut self.links[link].requesting.memory;
        if let Some(read) = &expected.read {
            assert!(memory.bytes(buffer) == read, "a read is what was written");
        }
        memory.give_back(buffer);
    }

    fn check_over(&mut self) {
        for link in 0..self.links.len() {
            let serving = |wire: &Self| {
                let session = &wire.links[link].serving.session;
                session.output_len() + D::unanswered(session)
            };
            while serving(self) > 0 {
                self.send_answers(link);
            }
            let link = &mut self.links[link];
            link.serving.take_output(0);
            assert_eq!(link.serving.memory.taken(), 0, "every buffer is given back");
            assert_eq!(link.requesting.memory.taken(), 0, "every buffer is given back");
        }
        let object = self.door.object(&self.volume);
        assert!(object == self.model, "the volume holds what was written");
    }
}
