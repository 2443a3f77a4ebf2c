//! Answers out: from the engine through sessions to sockets.

use nearflash_engine::{Accounts, Answer, Pool};
use nearflash_request::Payload;

use crate::connection::{Connection, Phase};
use crate::connections::Key;
use crate::shard::Shard;
use crate::trace;
use crate::world::{Interest, Sent, World};
use nearflash_session::ServingEnd;
use nearflash_units::ByteLen;

/// Turns in which a full socket is tried again before it is watched: a peer that reads makes room
/// within them.
const BLOCKED_TURNS_MAX: u16 = 64;

impl Shard {
    /// Hands an answer to the session whose request it is.
    #[inline]
    pub(crate) fn answer<W: World>(&mut self, answer: Answer, world: &mut W) {
        let key = Key::from_owner(answer.owner);
        let connection = self.connections.get_mut(key);
        let connection = connection.expect("a connection stays until its requests are answered");
        connection.requests -= 1;
        if connection.phase == Phase::Dead {
            if let Payload::Buffer(buffer) = answer.completion.payload {
                world.pool().give_back(buffer);
            }
            return self.remove_if_idle(key, world);
        }
        self.published.answered(&connection.session);
        let (returned, had_scratch) = (answer.returned, answer.had_scratch);
        let (account, accounts) = (connection.account(), self.engine.accounts());
        accounts.give_back_request(account, returned, had_scratch);
        if answer.had_payload {
            accounts.end_payload(account);
        }
        let bytes = match answer.completion.payload {
            Payload::Buffer(buffer) if connection.session.wants_payload_bytes() => {
                world.pool().bytes(buffer)
            }
            _ => &[],
        };
        connection.session.handle_completion(answer.completion, bytes);
        trace::note_answer(&mut self.engine, (answer.owner, answer.trace), world);
        self.lists.mark(key, &mut connection.listed);
        if connection.session.asks_on() {
            trace::note_receipt(&mut self.engine, world);
            self.take_demands(key, world);
            self.notify_siblings(key, world);
        } else if connection.session.concerns_siblings() {
            self.resume_siblings(key, world);
        }
    }

    /// Marks a connection that has output to send, or whose input may be able to resume.
    pub(crate) fn mark_dirty(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        self.lists.mark(key, &mut connection.listed);
    }

    /// Sends the pending output. Returns the number of connections that sent anything.
    #[inline]
    pub(crate) fn send_dirty<W: World>(&mut self, world: &mut W) -> usize {
        let mut busy = 0;
        let mut index = 0;
        while let Some(key) = self.lists.dirty.get(index).copied() {
            let (moved, stays) = self.send(key, world);
            busy += usize::from(moved);
            if stays {
                index += 1;
                continue;
            }
            self.lists.dirty.swap_remove(index);
            if let Some(connection) = self.connections.get_mut(key) {
                connection.listed.clean();
            }
        }
        busy
    }

    /// Sends once. Returns whether there was progress, and whether to try again in the next turn.
    #[inline]
    fn send<W: World>(&mut self, key: Key, world: &mut W) -> (bool, bool) {
        let Some(connection) = self.connections.get_mut(key) else { return (false, false) };
        if connection.is_mute() || connection.quiet_until.is_some() {
            return (false, false);
        }
        let (moved, stays) = match connection.ring {
            Some(_) => self.send_with_ring(key, world),
            None => self.send_stream(key, world),
        };
        // Input may have waited for output to leave.
        if moved && let Some(connection) = self.connections.get_mut(key) {
            self.lists.wake(key, &mut connection.listed);
        }
        (moved, stays)
    }

    /// Entries first: answers are what a client with rings waits for.
    fn send_with_ring<W: World>(&mut self, key: Key, world: &mut W) -> (bool, bool) {
        let moved = self.send_by_ring(key, world);
        let (sent, more) = self.send_stream(key, world);
        (moved || sent, more)
    }

    #[inline]
    fn send_stream<W: World>(&mut self, key: Key, world: &mut W) -> (bool, bool) {
        let Some(connection) = self.connections.get_mut(key) else { return (false, false) };
        if connection.session.output_len() == 0 {
            return_unsent(connection, self.engine.accounts(), world.pool());
            return (false, self.close_if_done(key, world));
        }
        match world.send(connection.socket, connection.session.output()) {
            Sent::Bytes(0) => {
                return_unsent(connection, self.engine.accounts(), world.pool());
                connection.blocked_turns += 1;
                if connection.blocked_turns < BLOCKED_TURNS_MAX {
                    return (false, true);
                }
                self.watch_for_room(key, world);
                (false, false)
            }
            Sent::Bytes(len) => {
                connection.blocked_turns = 0;
                connection.progress.note(world.now(), len);
                advance(connection, len, self.engine.accounts(), world.pool());
                let more = connection.session.output_len() > 0;
                if !more {
                    trace::note_sent(&mut self.engine, key, world);
                }
                (true, more || self.close_if_done(key, world))
            }
            Sent::Closed => {
                self.kill(key, world);
                (true, false)
            }
        }
    }

    /// The socket is full, or the world is about to wait: room to send is an event.
    pub(crate) fn watch_for_room<W: World>(&mut self, key: Key, world: &mut W) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.blocked_turns = 0;
        if connection.is_mute() || connection.quiet_until.is_some() {
            return;
        }
        if connection.session.output_len() == 0 {
            // It has nothing to wait for: a finished connection is closed before the sleep.
            if !self.close_if_done(key, world) {
                return;
            }
        }
        let Some(connection) = self.connections.get_mut(key) else { return };
        // A stopped connection must not be woken by input that it cannot take.
        let is_stopped = connection.listed.stopped;
        let interest = if is_stopped { Interest::Output } else { Interest::Both };
        connection.watch(interest, world);
    }
}

/// Nothing is sent. Buffers that will not be sent come back nevertheless: a request of the same
/// connection may wait for them, and would then keep a closing connection open.
fn return_unsent(connection: &mut Connection, accounts: &mut Accounts, pool: &mut Pool) {
    advance(connection, 0, accounts, pool);
}

#[inline]
fn advance(connection: &mut Connection, sent: usize, accounts: &mut Accounts, pool: &mut Pool) {
    let mut returned = ByteLen(0);
    connection.session.advance_output(sent, &mut |buffer| {
        returned.0 += pool.len_of(buffer).0;
        pool.give_back(buffer);
    });
    accounts.give_back(connection.account(), returned);
}
