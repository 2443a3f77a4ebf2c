//! The return of a replica that is out of sync: at the replica, and at the primary.
//!
//! The replica stops, and waits until nothing that it has accepted or started is under way. Then it asks
//! to join, and gets a session. When all its cores accept that session, every write goes to it, too, and
//! everything is copied to it under the locks of writes. When it has everything and the primary holds a lease of
//! it, reads at the primary begin to need that lease; then the record names it again.

use nearflash_device::MirrorKey;

use super::mirror::{Joiner, Mirror, Peer, Phase, Stage, Standing};
use super::note::Tokens;
use super::record::Token;
use super::{Action, Membership, NodeKey, Pulse, RETRY, Scope};
use crate::mutant::Mutant;
use crate::table::Term;

/// At the replica.
impl Membership {
    /// Does what is due for a replica that is out of sync.
    pub(super) fn step_return(&mut self, key: MirrorKey, is_shown: bool, is_due: bool) {
        let joins_undrained = self.is(Mutant::JoinsUndrained);
        let Some(mirror) = self.mirrors.get_mut(&key) else { return };
        if mirror.standing() != Standing::Out || self.is_leaving || self.is_stalled {
            return;
        }
        match mirror.phase {
            Phase::Emptying if joins_undrained => {
                mirror.phase = Phase::Joining;
                mirror.retry_at = self.now;
            }
            Phase::Emptying if is_shown => {
                let number = self.drain(key);
                self.set_phase(key, Phase::Emptied(number));
            }
            Phase::Joining if is_due && self.now >= mirror.join_at => {
                mirror.retry_at = self.now.plus(RETRY);
                let incarnation = mirror.slice.incarnation;
                let of_replica = mirror.note.filter(|note| note.ordinal == mirror.own.ordinal);
                let tokens = of_replica.map_or([None; 2], |note| note.tokens);
                let join = Pulse::Join { mirror: key, incarnation, tokens };
                // One that hears of its places before it hears of the record may not know the primary.
                let primary = mirror.primary_node();
                let peers = mirror.peers().map(|peer| peer.replica.node);
                for to in peers.filter(|node| primary.is_none_or(|primary| primary == *node)) {
                    self.actions.push_back(Action::Send(to, join.clone()));
                }
            }
            Phase::Readying if is_shown => {
                mirror.phase = Phase::Syncing;
                mirror.retry_at = self.now;
                self.step_return(key, is_shown, true);
            }
            Phase::Syncing if is_due => {
                mirror.retry_at = self.now.plus(RETRY);
                let ready = Pulse::Ready { mirror: key, session: mirror.session };
                self.actions.extend(mirror.primary_node().map(|to| Action::Send(to, ready)));
            }
            _ => {}
        }
    }

    /// The primary has given a session.
    pub(super) fn joined(&mut self, from: NodeKey, key: MirrorKey, term: Term, session: u32) {
        let Some(mirror) = self.mirrors.get_mut(&key) else { return };
        let is_asked = mirror.phase == Phase::Joining && mirror.standing() == Standing::Out;
        let is_primary = mirror.primary_node() == Some(from);
        if !is_primary || term != mirror.known.record.term || !is_asked {
            return;
        }
        mirror.session = session;
        mirror.stay += 1;
        mirror.phase = Phase::Readying;
        mirror.keeps = None;
    }

    /// This replica has everything, and the record is to name it. Its slice is to know that first.
    pub(super) fn keep(&mut self, from: NodeKey, key: MirrorKey, session: u32, token: Token) {
        let Some(mirror) = self.mirrors.get_mut(&key) else { return };
        let is_its = mirror.phase == Phase::Syncing && mirror.session == session;
        let is_primary = mirror.primary_node() == Some(from);
        if !is_primary || mirror.standing() != Standing::Out || !is_its {
            return;
        }
        mirror.keeps = Some(token);
        self.begin_noted();
    }
}

impl Mirror {
    /// Whether the replica at a node joins in this session.
    fn is_joining(&self, node: NodeKey, session: u32) -> bool {
        let is_meant = |(joiner, peer): (Joiner, &Peer)| {
            joiner.session == session && peer.replica.node == node
        };
        self.joining().is_some_and(is_meant)
    }

    /// Whether another replica, with these tokens, joins before one that has begun.
    fn gives_way(&self, joiner: &Joiner, tokens: &Tokens) -> bool {
        let lacks_little =
            |tokens: &Tokens| self.covered.is_some_and(|token| tokens.contains(&Some(token)));
        let is_nearer = lacks_little(tokens) && !lacks_little(&joiner.tokens);
        joiner.stage == Stage::Offered || is_nearer && joiner.stage < Stage::Copied
    }
}

/// At the primary.
impl Membership {
    /// A replica asks to be taken back.
    pub(super) fn join_asked(
        &mut self,
        from: NodeKey,
        key: MirrorKey,
        incarnation: u64,
        tokens: Tokens,
    ) {
        let reuses_session = self.is(Mutant::NoSession);
        let Some(mirror) = self.mirrors.get_mut(&key) else { return };
        let Some(replica) = mirror.peer_at(from).map(|peer| peer.replica) else { return };
        if matches!(mirror.standing(), Standing::Secondary | Standing::Out) {
            // It knows an earlier record, or no other one.
            let tell = Pulse::Tell(key, mirror.known.clone());
            return self.actions.push_back(Action::Send(from, tell));
        }
        let is_primary = mirror.standing() == Standing::Primary && mirror.is_open;
        if !is_primary || !mirror.admits(&replica) || mirror.phase != Phase::Idle {
            return;
        }
        let replica = replica.ordinal;
        match mirror.joiner {
            Some(Joiner {
                stage: Stage::Offered, incarnation: known, replica: offered, ..
            }) if known == incarnation && offered == replica => {}
            // Another one is further. One that lacks little goes before one to which everything is copied.
            Some(joiner) if joiner.replica != replica && !mirror.gives_way(&joiner, &tokens) => {
                return;
            }
            // An earlier attempt is over. Its session is used by no core when the next one begins.
            Some(Joiner { stage, .. }) if stage != Stage::Offered => {
                mirror.joiner = None;
                return;
            }
            _ => {
                self.sessions += u32::from(!reuses_session);
                let session = self.sessions;
                let (stage, token, has_kept) = (Stage::Offered, None, false);
                mirror.joiner =
                    Some(Joiner { replica, session, incarnation, tokens, stage, token, has_kept });
            }
        }
        let Some(Joiner { session, .. }) = mirror.joiner else { return };
        let term = mirror.known.record.term;
        let joined = Pulse::Joined { mirror: key, term, session };
        self.actions.push_back(Action::Send(from, joined));
    }

    /// The replica accepts operations of this session.
    pub(super) fn ready(&mut self, from: NodeKey, key: MirrorKey, session: u32) {
        let Some(mirror) = self.mirrors.get_mut(&key) else { return };
        if mirror.standing() != Standing::Primary || !mirror.is_joining(from, session) {
            return;
        }
        let joiner = mirror.joiner.as_mut();
        if let Some(joiner) = joiner.filter(|joiner| joiner.stage == Stage::Offered) {
            joiner.stage = Stage::Showing;
            if let Some(peer) = mirror.peer_at_mut(from) {
                peer.needed_since = self.now;
            }
        }
        // It is ready again and again: the last question may have been lost.
        self.ask_to_keep(key);
    }

    /// The slice of the replica that returns has the token of the next record.
    pub(super) fn kept(&mut self, from: NodeKey, key: MirrorKey, session: u32) {
        let mirror = self.mirrors.get_mut(&key).filter(|it| it.is_joining(from, session));
        let joiner = mirror.and_then(|mirror| mirror.joiner.as_mut());
        if let Some(joiner) = joiner.filter(|joiner| joiner.stage == Stage::Copied) {
            joiner.has_kept = true;
        }
    }

    /// Does what is due for the replica that returns.
    pub(super) fn step_joiner(&mut self, key: MirrorKey, is_shown: bool) {
        let is_shown = is_shown || self.is(Mutant::CopiedTooEarly);
        let ignores_token = self.is(Mutant::TokenIgnored);
        let forgets_to_keep = self.is(Mutant::NotKept);
        let now = self.now;
        let joining = self.mirrors.get(&key).and_then(Mirror::joining);
        let Some((joiner, peer)) = joining else { return };
        let (partner, current) = self.process_of(peer);
        let is_same = current.is_some_and(|slice| slice.incarnation == joiner.incarnation);
        let is_lost = partner.is_dead || !is_same || peer.has_failed;
        let is_silent = joiner.stage != Stage::Offered && peer.has_lost_lease(now);
        let holds = peer.held > now;
        let Some(mirror) = self.mirrors.get_mut(&key) else { return };
        if is_lost || is_silent {
            // It is given up without a term: the record does not name it.
            mirror.joiner = None;
            if let Some(peer) = mirror.peer_mut(joiner.replica) {
                peer.has_failed = false;
            }
            return;
        }
        if joiner.stage == Stage::Showing && is_shown {
            mirror.joiner = Some(Joiner { stage: Stage::Copying, ..joiner });
            // An older copy of its slice also lacks what was written before the notes began.
            let has_bytes = |token: &Token| ignores_token || joiner.tokens.contains(&Some(*token));
            let is_covered = mirror.covered.as_ref().is_some_and(has_bytes);
            let scope = if is_covered { Scope::Written } else { Scope::All };
            self.actions.push_back(Action::Resync(key, joiner.session, scope));
        }
        // A copy of few parts is faster than the first lease, for which reads would wait.
        let have_kept = (joiner.has_kept || forgets_to_keep)
            && joiner.token.is_some_and(|it| mirror.has_noted(it));
        if joiner.stage == Stage::Copied && have_kept && holds {
            mirror.joiner = Some(Joiner { stage: Stage::Requiring, ..joiner });
        }
    }

    pub(super) fn resynced(&mut self, key: MirrorKey, session: u32, token: Token) {
        let Some(mirror) = self.mirrors.get_mut(&key) else { return };
        let joiner = mirror.joiner.as_mut().filter(|joiner| joiner.session == session);
        if let Some(joiner) = joiner.filter(|joiner| joiner.stage == Stage::Copying) {
            (joiner.stage, joiner.token) = (Stage::Copied, Some(token));
        }
        self.ask_to_keep(key);
    }
}
