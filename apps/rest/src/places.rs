//! The places of connections. On the network, those that have not yet shown a valid token have few places of
//! their own, and a new one takes the place of the oldest: a stranger cannot keep callers with a token out.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::caller::Peer;

/// The maximum number of connections of a listener whose callers are known.
pub(crate) const PROVED_MAX: usize = 64;

/// The maximum number of connections of the network that have shown no valid token.
pub(crate) const UNPROVED_MAX: usize = 16;

/// The maximum number of these from one address.
const UNPROVED_PER_ADDRESS_MAX: usize = 4;

/// A connection that has shown no token.
#[derive(Debug)]
struct Unproved {
    number: u64,
    address: IpAddr,
    evicted: Arc<Notify>,
}

/// The places of one listener.
#[derive(Debug)]
pub(crate) struct Places {
    proved: Arc<Semaphore>,
    /// The oldest first, and the number of the next one.
    unproved: Mutex<(VecDeque<Unproved>, u64)>,
}

impl Places {
    pub(crate) fn new() -> Self {
        Self { proved: Arc::new(Semaphore::new(PROVED_MAX)), unproved: Mutex::default() }
    }

    /// A place for a new connection of the network. It may end that of an earlier connection.
    pub(crate) fn take(self: &Arc<Self>, from: SocketAddr) -> Seat {
        let address = from.ip();
        let evicted = Arc::new(Notify::new());
        let (waiting, next) = &mut *self.unproved();
        let number = *next;
        *next += 1;
        let of_address = waiting.iter().filter(|it| it.address == address).count();
        let oldest = match of_address >= UNPROVED_PER_ADDRESS_MAX {
            true => waiting.iter().position(|it| it.address == address),
            false => (waiting.len() >= UNPROVED_MAX).then_some(0),
        };
        if let Some(oldest) = oldest.and_then(|index| waiting.remove(index)) {
            oldest.evicted.notify_one();
        }
        waiting.push_back(Unproved { number, address, evicted: Arc::clone(&evicted) });
        let proof = Proof { places: Arc::clone(self), number, permit: OnceLock::new() };
        Seat { peer: Peer::Remote(from), evicted, proof: Some(proof) }
    }

    fn unproved(&self) -> MutexGuard<'_, (VecDeque<Unproved>, u64)> {
        self.unproved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    /// The other end.
    pub(crate) peer: Peer,
    evicted: Arc<Notify>,
    /// Absent if the connection itself shows who calls.
    proof: Option<Proof>,
}

/// A connection of the network, before and after it has shown a valid token.
#[derive(Debug)]
struct Proof {
    places: Arc<Places>,
    number: u64,
    permit: OnceLock<OwnedSemaphorePermit>,
}

impl Proof {
    fn leave_unproved(&self) {
        self.places.unproved().0.retain(|it| it.number != self.number);
    }
}

impl Seat {
    /// The place of a connection of this machine.
    pub(crate) fn local(peer: Peer) -> Self {
        Self { peer, evicted: Arc::default(), proof: None }
    }

    /// Whether the caller is known.
    pub(crate) fn is_proved(&self) -> bool {
        self.proof.as_ref().is_none_or(|proof| proof.permit.get().is_some())
    }

    /// The connection has shown a valid token. Returns whether there is a place for it.
    pub(crate) fn prove(&self) -> bool {
        let Some(proof) = self.proof.as_ref().filter(|_| !self.is_proved()) else { return true };
        let Ok(permit) = Arc::clone(&proof.places.proved).try_acquire_owned() else { return false };
        proof.leave_unproved();
        // One connection has one request at a time.
        proof.permit.set(permit).is_ok()
    }

    /// Returns when another connection has taken this place.
    pub(crate) async fn is_evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for Proof {
    fn drop(&mut self) {
        self.leave_unproved();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_evicted(seat: &Seat) -> bool {
        use std::pin::pin;
        use std::task::{Context, Poll, Waker};

        pin!(seat.is_evicted()).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    fn address(last: u8) -> SocketAddr {
        ([192, 0, 2, last], 5).into()
    }

    #[test]
    fn strangers_take_the_places_of_strangers_alone() {
        let places = Arc::new(Places::new());
        let known = places.take(address(1));
        assert!(!known.is_proved() && known.prove() && known.prove() && known.is_proved());
        let seats: Vec<Seat> = (0..100).map(|number| places.take(address(2 + number))).collect();
        let left: Vec<bool> = seats.iter().map(|seat| !is_evicted(seat)).collect();
        assert_eq!(left.iter().filter(|left| **left).count(), UNPROVED_MAX);
        assert!(left[100 - UNPROVED_MAX..].iter().all(|left| *left), "the oldest go first");
        assert!(!is_evicted(&known));
    }

    #[test]
    fn one_address_takes_its_own_places() {
        let places = Arc::new(Places::new());
        let other = places.take(address(1));
        let seats: Vec<Seat> = (0..6).map(|_| places.take(address(2))).collect();
        let evicted: Vec<bool> = seats.iter().map(is_evicted).collect();
        assert_eq!(evicted, [true, true, false, false, false, false]);
        assert!(!is_evicted(&other));
    }

    #[test]
    fn places_return_when_their_connections_end() {
        let places = Arc::new(Places::new());
        let known: Vec<Seat> = (0..PROVED_MAX).map(|_| places.take(address(1))).collect();
        assert!(known.iter().all(Seat::prove));
        let further = places.take(address(2));
        assert!(!further.prove(), "all places are taken");
        drop(known);
        assert!(further.prove());
        drop(further);
        assert!(places.unproved().0.is_empty());
    }
}
