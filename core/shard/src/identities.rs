//! Client identities: direct clients that reconnect, and which connection replaces which.
//!
//! A client that lost its connection comes back and repeats the writes that were not answered. A
//! write of its old connection that is still on its way to the device, or that the node has not
//! read yet, must not land after the repeated one. So a client claims an identity for its
//! connection (CLAIM): earlier ones that claimed it are ended, and the claim is answered when none of
//! their requests is in flight, as with hosts of NVMe/TCP (`associations.rs`) and initiators
//! (`iscsi.rs`).
//!
//! Connections of clients live on every core; only the first core knows the claims.

use std::collections::HashMap;

use nearflash_direct::serving::ClientIdentity;
use nearflash_engine::{CoreId, Owner};

use crate::connection::Phase;
use crate::connections::Key;
use crate::message::{ClientPlace, Message};
use crate::session::Session;
use crate::shard::Shard;
use crate::world::World;

/// The claims of all connections, at most one each. Empty except on the first core.
#[derive(Debug, Default)]
pub(crate) struct ClientIdentities {
    /// Oldest first; all but the last are ending.
    claims: HashMap<ClientIdentity, Vec<Claim>>,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    place: ClientPlace,
    is_answered: bool,
}

impl ClientIdentities {
    /// A connection claims an identity. Returns the connection that had it, which must end; `None` if
    /// the claim is granted at once.
    fn claim(&mut self, identity: ClientIdentity, place: ClientPlace) -> Option<ClientPlace> {
        let claims = self.claims.entry(identity).or_default();
        let last = claims.last().map(|claim| claim.place);
        claims.push(Claim { place, is_answered: last.is_none() });
        last
    }

    /// A connection and its requests have ended. Returns the one whose claim can be answered now.
    fn gone(&mut self, identity: &ClientIdentity, place: ClientPlace) -> Option<ClientPlace> {
        let claims = self.claims.get_mut(identity)?;
        claims.retain(|claim| claim.place != place);
        if claims.is_empty() {
            self.claims.remove(identity);
            return None;
        }
        match &mut claims[..] {
            [left] if !left.is_answered => {
                left.is_answered = true;
                Some(left.place)
            }
            _ => None,
        }
    }
}

impl Shard {
    pub(crate) fn claim<W: World>(&mut self, key: Key, identity: ClientIdentity, world: &mut W) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.identity = Some(Box::new(identity.clone()));
        let place = ClientPlace { core: self.config.core, owner: key.to_owner() };
        self.tell(CoreId::FIRST, Message::Claim(Box::new(identity), place), world);
    }

    /// On the first core: a client claims its identity.
    pub(crate) fn client_claims<W: World>(
        &mut self,
        identity: ClientIdentity,
        place: ClientPlace,
        world: &mut W,
    ) {
        match self.identities.claim(identity, place) {
            Some(old) => self.tell(old.core, Message::EndClient(old.owner), world),
            None => self.tell(place.core, Message::Claimed(place.owner), world),
        }
    }

    /// On the first core: a connection that claimed an identity is gone.
    pub(crate) fn client_gone<W: World>(
        &mut self,
        identity: &ClientIdentity,
        place: ClientPlace,
        world: &mut W,
    ) {
        if let Some(next) = self.identities.gone(identity, place) {
            self.tell(next.core, Message::Claimed(next.owner), world);
        }
    }

    /// A client's earlier connections are over.
    pub(crate) fn claimed(&mut self, owner: Owner) {
        let key = Key::from_owner(owner);
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Session::Direct(session) = &mut connection.session else { return };
        if connection.phase == Phase::Dead {
            return;
        }
        session.handle_claimed();
        self.mark_dirty(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(identity: u8) -> ClientIdentity {
        ClientIdentity::new(None, [identity; 16])
    }

    fn place(owner: u64) -> ClientPlace {
        ClientPlace { core: CoreId(1), owner: Owner(owner) }
    }

    #[test]
    fn a_claim_is_answered_when_every_connection_before_it_is_gone() {
        let (us, them) = (identity(1), identity(2));
        let mut identities = ClientIdentities::default();
        assert_eq!(identities.claim(us.clone(), place(1)), None);
        assert_eq!(identities.claim(them.clone(), place(2)), None, "others are none of ours");
        assert_eq!(identities.claim(us.clone(), place(3)), Some(place(1)));
        assert_eq!(identities.claim(us.clone(), place(4)), Some(place(3)), "it came back twice");
        assert_eq!(identities.gone(&us, place(3)), None);
        assert_eq!(identities.gone(&us, place(1)), Some(place(4)));
        assert_eq!(identities.gone(&us, place(4)), None);
        assert_eq!(identities.gone(&them, place(2)), None);
        assert!(identities.claims.is_empty());
    }

    #[test]
    fn a_claim_that_is_given_up_leaves_no_trace() {
        let us = identity(1);
        let mut identities = ClientIdentities::default();
        assert_eq!(identities.claim(us.clone(), place(1)), None);
        assert_eq!(identities.claim(us.clone(), place(2)), Some(place(1)));
        assert_eq!(identities.gone(&us, place(2)), None);
        assert_eq!(identities.gone(&us, place(1)), None);
        assert!(identities.claims.is_empty());
    }
}
