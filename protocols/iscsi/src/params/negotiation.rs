//! One end of a negotiation: its offers and its answers.

use super::keys::{KEYS, Key, number};
use super::{ConnectionParams, DigestWish, LEN_MAX, LEN_MIN, Offer, Scope, SessionParams};
use crate::text::Outgoing;

/// The longest value of a key that is negotiated. RFC 7143, 6.1.
const VALUE_LEN_MAX: usize = 255;
const RECEIVE_LEN: &str = "MaxRecvDataSegmentLength";
const HEADER_DIGEST: &str = "HeaderDigest";
const DATA_DIGEST: &str = "DataDigest";
const CRC: &str = "CRC32C";
const NONE: &str = "None";
const REJECT: &str = "Reject";
const IRRELEVANT: &str = "Irrelevant";
const NOT_UNDERSTOOD: &str = "NotUnderstood";

/// Why a negotiation fails. A key that can be answered, with Reject for example, is not an error.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ParamError {
    /// A key came twice.
    #[error("{0} was sent twice")]
    Doubled(&'static str),
    /// An answer that is not possible for the value offered.
    #[error("the answer to {0} does not match the offer")]
    BadAnswer(&'static str),
    /// The peer does not support the digest that this end requires.
    #[error("{0} was not agreed on, but is required")]
    DigestRefused(&'static str),
}

/// The set of keys seen: those of the table, and three more.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct KeySet(u32);

const RECEIVE_LEN_BIT: usize = KEYS.len();
const HEADER_DIGEST_BIT: usize = KEYS.len() + 1;
const DATA_DIGEST_BIT: usize = KEYS.len() + 2;

impl KeySet {
    fn has(self, bit: usize) -> bool {
        self.0 >> bit & 1 == 1
    }

    /// Adds a key. Returns whether it was new.
    fn insert(&mut self, bit: usize) -> bool {
        let is_new = !self.has(bit);
        self.0 |= 1 << bit;
        is_new
    }
}

/// One end of a negotiation.
#[derive(Debug)]
pub struct Negotiation {
    offer: Offer,
    scope: Scope,
    offered: KeySet,
    seen: KeySet,
    session: SessionParams,
    connection: ConnectionParams,
}

impl Negotiation {
    /// Nothing is agreed on yet.
    pub fn new(offer: Offer, scope: Scope) -> Self {
        let connection =
            ConnectionParams { receive_len_max: offer.receive_len_max, ..Default::default() };
        Self {
            offer,
            scope,
            offered: KeySet::default(),
            seen: KeySet::default(),
            session: SessionParams::default(),
            connection,
        }
    }

    /// Offers all keys, as an initiator does at the beginning.
    pub fn offer(&mut self, out: &mut Outgoing) {
        self.declare(out);
        let digests = [
            (HEADER_DIGEST, HEADER_DIGEST_BIT, self.offer.header_digest),
            (DATA_DIGEST, DATA_DIGEST_BIT, self.offer.data_digest),
        ];
        for (name, bit, wish) in digests {
            out.push(name, wish.list());
            self.offered.insert(bit);
        }
        for (bit, key) in KEYS.iter().enumerate() {
            let is_relevant = !(self.scope.is_discovery && key.is_normal_only);
            if self.scope.is_leading && is_relevant {
                out.push(key.name, &key.rule.print((key.get)(&self.offer.session)));
                self.offered.insert(bit);
            }
        }
    }

    /// Declares the keys that are not negotiated. Both ends do this once.
    pub fn declare(&self, out: &mut Outgoing) {
        out.push(RECEIVE_LEN, &self.offer.receive_len_max.to_string());
    }

    /// Handles a received pair: the answer to an offer, or an offer, which is answered.
    ///
    /// # Errors
    /// When the negotiation cannot continue.
    pub fn handle(&mut self, key: &str, value: &str, out: &mut Outgoing) -> Result<(), ParamError> {
        if let Some((bit, key)) = KEYS.iter().enumerate().find(|(_, known)| known.name == key) {
            return self.handle_session_key(bit, key, value, out);
        }
        match key {
            RECEIVE_LEN => {
                if !self.seen.insert(RECEIVE_LEN_BIT) {
                    return Err(ParamError::Doubled(RECEIVE_LEN));
                }
                take_receive_len(value, &mut self.connection, out);
            }
            HEADER_DIGEST => {
                let key = (HEADER_DIGEST, HEADER_DIGEST_BIT, self.offer.header_digest);
                self.connection.digests.header = self.handle_digest(key, value, out)?;
            }
            DATA_DIGEST => {
                let key = (DATA_DIGEST, DATA_DIGEST_BIT, self.offer.data_digest);
                self.connection.digests.data = self.handle_digest(key, value, out)?;
            }
            other => answer_other(other, value, self.scope, out),
        }
        Ok(())
    }

    /// The negotiated parameters.
    ///
    /// # Errors
    /// When a digest that this end requires was not agreed on.
    pub fn result(&self) -> Result<(SessionParams, ConnectionParams), ParamError> {
        let Offer { header_digest, data_digest, session: ours, .. } = self.offer;
        let ConnectionParams { digests, .. } = self.connection;
        if header_digest == DigestWish::Crc && !digests.header {
            return Err(ParamError::DigestRefused(HEADER_DIGEST));
        }
        if data_digest == DigestWish::Crc && !digests.data {
            return Err(ParamError::DigestRefused(DATA_DIGEST));
        }
        let mut session = self.session;
        for (bit, key) in KEYS.iter().enumerate() {
            let is_unanswered = self.offered.has(bit) && !self.seen.has(bit);
            if let Some(value) = key.rule.foregone((key.get)(&ours)).filter(|_| is_unanswered) {
                (key.set)(&mut session, value);
            }
        }
        // RFC 7143, 13.14: it must not be the longer one.
        session.first_burst_len = session.first_burst_len.min(session.max_burst_len);
        Ok((session, self.connection))
    }

    fn handle_session_key(
        &mut self,
        bit: usize,
        key: &Key,
        value: &str,
        out: &mut Outgoing,
    ) -> Result<(), ParamError> {
        if !self.seen.insert(bit) {
            return Err(ParamError::Doubled(key.name));
        }
        let ours = (key.get)(&self.offer.session);
        if self.offered.has(bit) {
            if is_no_value(value) {
                return Ok(());
            }
            // A valid answer is the result of the offer and some value of the peer's.
            let agreed = key.rule.parse(value).filter(|value| key.rule.of(ours, *value) == *value);
            let agreed = agreed.ok_or(ParamError::BadAnswer(key.name))?;
            (key.set)(&mut self.session, agreed);
            return Ok(());
        }
        if self.scope.is_discovery && key.is_normal_only {
            out.push(key.name, IRRELEVANT);
            return Ok(());
        }
        match key.rule.parse(value).filter(|_| self.scope.is_leading) {
            Some(theirs) => {
                let agreed = key.rule.of(ours, theirs);
                (key.set)(&mut self.session, agreed);
                out.push(key.name, &key.rule.print(agreed));
            }
            None => out.push(key.name, REJECT),
        }
        Ok(())
    }

    fn handle_digest(
        &mut self,
        (key, bit, wish): (&'static str, usize, DigestWish),
        value: &str,
        out: &mut Outgoing,
    ) -> Result<bool, ParamError> {
        if !self.seen.insert(bit) {
            return Err(ParamError::Doubled(key));
        }
        if self.offered.has(bit) {
            if is_no_value(value) {
                return Ok(false);
            }
            let is_offered = wish.list().split(',').any(|offered| offered == value);
            return if is_offered { Ok(value == CRC) } else { Err(ParamError::BadAnswer(key)) };
        }
        let list = Some(value).filter(|value| value.len() <= VALUE_LEN_MAX);
        let choice = list.and_then(|list| list.split(',').find(|name| wish.takes(name)));
        out.push(key, choice.unwrap_or(REJECT));
        Ok(choice == Some(CRC))
    }
}

impl DigestWish {
    const fn list(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::PreferNone => "None,CRC32C",
            Self::PreferCrc => "CRC32C,None",
            Self::Crc => "CRC32C",
        }
    }

    fn takes(self, name: &str) -> bool {
        match name {
            CRC => self != Self::None,
            NONE => self != Self::Crc,
            _ => false,
        }
    }
}

fn is_no_value(value: &str) -> bool {
    matches!(value, REJECT | IRRELEVANT | NOT_UNDERSTOOD)
}

fn take_receive_len(value: &str, connection: &mut ConnectionParams, out: &mut Outgoing) {
    match number(value).filter(|len| (LEN_MIN..=LEN_MAX).contains(len)) {
        Some(len) => connection.send_len_max = len,
        // The peer did not accept this end's declaration; the peer decides on the length that it
        // sends.
        None if is_no_value(value) => {}
        None => out.push(RECEIVE_LEN, REJECT),
    }
}

/// Answers a key that this end has only one value for, or does not know.
fn answer_other(key: &str, value: &str, scope: Scope, out: &mut Outgoing) {
    match key {
        // The answer to a key that this end never offered needs no answer.
        _ if is_no_value(value) => {}
        "TaskReporting" if scope.is_discovery => out.push(key, IRRELEVANT),
        "TaskReporting" if scope.is_leading && value.split(',').any(|name| name == "RFC3720") => {
            out.push(key, "RFC3720");
        }
        // RFC 7143, 13: markers are obsolete. Old initiators still offer them, and No is the answer
        // that they handle best.
        "IFMarker" | "OFMarker" => out.push(key, "No"),
        "TaskReporting" | "IFMarkInt" | "OFMarkInt" => out.push(key, REJECT),
        _ => out.push(key, NOT_UNDERSTOOD),
    }
}

/// Answers a key of the full feature phase: only MaxRecvDataSegmentLength can still change.
pub fn answer_in_full_feature_phase(
    key: &str,
    value: &str,
    connection: &mut ConnectionParams,
    out: &mut Outgoing,
) {
    const LOGIN_ONLY: [&str; 9] = [
        HEADER_DIGEST,
        DATA_DIGEST,
        "AuthMethod",
        "TaskReporting",
        "SessionType",
        "InitiatorName",
        "TargetName",
        "TargetPortalGroupTag",
        "TargetAddress",
    ];
    let is_login_only = LOGIN_ONLY.contains(&key) || KEYS.iter().any(|known| known.name == key);
    match key {
        RECEIVE_LEN => take_receive_len(value, connection, out),
        "InitiatorAlias" | "TargetAlias" => {}
        _ if is_login_only => out.push(key, REJECT),
        _ => {
            let scope = Scope { is_discovery: false, is_leading: false };
            answer_other(key, value, scope, out);
        }
    }
}
