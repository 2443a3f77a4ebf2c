//! Refused logins of every protocol: one form of line in the log, one counter for each protocol and reason, and the
//! bound on lines about peers.
//!
//! A line has what the peer claims and the node has not proved: its text is quoted and escaped.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nearflash_api::{RefusalReason, RefusedLogins};
use nearflash_shard::{Claim, Peer};
use tracing::{info, warn};

use crate::peer_lines::{Held, Kind, Present, Rates, Source, Topic};

/// The target of the lines about peers. `nearflash events` keeps them apart from all others.
pub const PEERS: &str = "nearflash::peers";

/// The time over which refused logins are counted for `nearflash status`.
const RECENT: Duration = Duration::from_secs(600);

/// Its parts, which are counted together.
const PART: Duration = Duration::from_secs(60);

/// The peers of this process, which runs one node.
static PEER_LOG: LazyLock<PeerLog> = LazyLock::new(PeerLog::default);

/// A peer that was not let in.
pub struct Refusal<'a> {
    /// The protocol, of a few.
    pub protocol: &'static str,
    /// The peer's address.
    pub peer: &'a dyn Display,
    /// The address, for the bound on lines.
    pub source: Source,
    /// Who it says it is, and what it asks for.
    pub claim: &'a Claim,
    /// The reason.
    pub reason: RefusalReason,
    /// The reason in words.
    pub text: &'a dyn Display,
}

impl Refusal<'_> {
    /// Counts it, and writes its line unless there are too many.
    pub fn log(&self) {
        let Self { protocol, peer, source, claim, reason, text } = self;
        let reason = reason.as_str();
        let topic = Topic { kind: Kind::Refused, protocol, reason };
        PEER_LOG.refused(Instant::now(), protocol, self);
        if !PEER_LOG.admit(Instant::now(), *source, topic) {
            return;
        }
        let of = |name: &Option<Box<str>>| name.as_deref().unwrap_or_default().to_owned();
        let (who, user, what) = (of(&claim.name), of(&claim.account), of(&claim.object));
        warn!(target: PEERS, protocol, %peer, who, user, what, reason, "login refused: {text}");
    }
}

/// Whether a line about a peer may be written. It is counted.
pub fn may_write(source: impl Into<Source>, kind: Kind) -> bool {
    PEER_LOG.admit(Instant::now(), source.into(), Topic::plain(kind))
}

/// Whether a line about a direct client that has come may be written: one for all of its connections.
pub fn may_write_client(peer: Peer, key: &str) -> bool {
    let is_new = PEER_LOG.state().present.came(peer, key);
    is_new && may_write(peer, Kind::Connected)
}

/// A connection of a direct client has gone. The line follows once the client is gone.
pub fn client_went(peer: Peer, key: &str) {
    PEER_LOG.state().present.went(Instant::now(), peer, key);
}

/// Writes the lines that are due: the direct clients that are gone, and the numbers of the lines that were held back. To
/// be called every few seconds, and once with `is_last`.
pub fn write_due(is_last: bool) {
    let gone = PEER_LOG.state().present.gone(Instant::now(), is_last);
    for (peer, key) in gone {
        if may_write(peer, Kind::Gone) {
            info!(target: PEERS, %peer, key = &*key, "client gone");
        }
    }
    let due = PEER_LOG.state().rates.due(Instant::now(), is_last);
    due.into_iter().for_each(write_held);
}

/// The refused logins of this process, by protocol and reason.
pub fn counted() -> BTreeMap<(&'static str, RefusalReason), u64> {
    PEER_LOG.state().refused.clone()
}

/// The lines about peers that were held back.
pub fn held_back() -> u64 {
    PEER_LOG.state().held_back
}

/// The refused logins of the last minutes; `None` if there are none.
pub fn recent() -> Option<RefusedLogins> {
    PEER_LOG.recent(Instant::now())
}

#[derive(Debug, Default)]
struct PeerLog(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    rates: Rates,
    present: Present,
    held_back: u64,
    refused: BTreeMap<(&'static str, RefusalReason), u64>,
    /// The number of refused logins in each part of the last minutes, by its begin.
    parts: VecDeque<(Instant, u64)>,
    last_from: Option<Source>,
}

impl PeerLog {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self, now: Instant, protocol: &'static str, refusal: &Refusal<'_>) {
        let mut state = self.state();
        *state.refused.entry((protocol, refusal.reason)).or_default() += 1;
        state.last_from = Some(refusal.source);
        match state.parts.back_mut().filter(|(begin, _)| now < *begin + PART) {
            Some((_, count)) => *count += 1,
            None => state.parts.push_back((now, 1)),
        }
        state.forget(now);
    }

    fn recent(&self, now: Instant) -> Option<RefusedLogins> {
        let mut state = self.state();
        state.forget(now);
        let last_10_minutes = state.parts.iter().map(|(_, count)| count).sum();
        let last_from = state.last_from.filter(|_| last_10_minutes > 0)?.to_string();
        Some(RefusedLogins { last_10_minutes, last_from })
    }

    fn admit(&self, now: Instant, source: Source, topic: Topic) -> bool {
        let mut state = self.state();
        let due = state.rates.due(now, false);
        let is_admitted = state.rates.admit(now, source, topic);
        state.held_back += u64::from(!is_admitted);
        drop(state);
        due.into_iter().for_each(write_held);
        is_admitted
    }
}

impl State {
    fn forget(&mut self, now: Instant) {
        while self.parts.front().is_some_and(|(begin, _)| now >= *begin + RECENT) {
            self.parts.pop_front();
        }
    }
}

fn write_held(held: Held) {
    let Held { source, topic: Topic { kind, protocol, reason }, count } = held;
    let words = kind.words();
    let from = source.map_or_else(|| "other addresses".to_owned(), |source| source.to_string());
    match kind {
        Kind::Refused | Kind::Closed => {
            warn!(target: PEERS, protocol, from, reason, "{words}: {count} more in a minute");
        }
        Kind::Connected | Kind::Gone => {
            info!(target: PEERS, from, "{words}: {count} more in a minute");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_logins_are_counted_by_protocol_and_reason_and_forgotten_after_ten_minutes() {
        let (log, now) = (PeerLog::default(), Instant::now());
        let claim = Claim::default();
        let refusal = |reason| Refusal {
            protocol: "iscsi",
            peer: &"192.0.2.7:5",
            source: Source::of_address([192, 0, 2, 7].into()),
            claim: &claim,
            reason,
            text: &"",
        };
        assert_eq!(log.recent(now), None);
        for _ in 0..3 {
            log.refused(now, "iscsi", &refusal(RefusalReason::NotProved));
        }
        log.refused(now + RECENT / 2, "iscsi", &refusal(RefusalReason::Expired));
        let counts: Vec<_> = log.state().refused.clone().into_iter().collect();
        let [expired, not_proved] = [RefusalReason::Expired, RefusalReason::NotProved];
        assert_eq!(counts, [(("iscsi", expired), 1), (("iscsi", not_proved), 3)]);
        let recent = |last_10_minutes| {
            Some(RefusedLogins { last_10_minutes, last_from: "192.0.2.7".to_owned() })
        };
        assert_eq!(log.recent(now + RECENT / 2), recent(4));
        assert_eq!(log.recent(now + RECENT), recent(1));
        assert_eq!(log.recent(now + RECENT * 2), None);
    }
}
