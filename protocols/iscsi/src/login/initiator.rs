//! The initiator's end of a login.

use std::sync::Arc;

use nearflash_session::Output;
use zerocopy::IntoBytes;

use super::demand::SessionKind;
use super::keys::Keys;
use super::prover::Prover;
use super::{LOGIN_DATA_LEN_MAX, TURNS_MAX};
use crate::Digests;
use crate::chap::{Account, Challenge};
use crate::error::PeerError;
use crate::params::{ConnectionParams, Negotiation, Offer, Scope, SessionParams};
use crate::pdu::{
    DataSegmentLen, LoginFlags, LoginRequest, LoginResponse, LoginStatus, Opcode, Serial, Stage,
};
use crate::small::push_small;
use crate::text::{Gathering, Outgoing, Pairs, TEXT_LEN_MAX};

/// The names, credentials and offers of an initiator's login.
#[derive(Clone, Debug)]
pub struct LoginConfig {
    /// InitiatorName.
    pub initiator: String,
    /// InitiatorAlias.
    pub initiator_alias: Option<String>,
    /// ISID: the same for all connections of a session.
    pub isid: [u8; 6],
    /// TSIH: 0 for a new session, the session's for a further connection.
    pub tsih: u16,
    /// CID: the connection's number in its session.
    pub cid: u16,
    /// The session's type, with its target.
    pub kind: SessionKind,
    /// The CHAP account; with a target credential, for mutual CHAP.
    pub account: Option<Arc<Account>>,
    /// The challenge for the target in mutual CHAP: random, for this login only.
    pub challenge: Challenge,
    /// The parameters to offer.
    pub offer: Offer,
}

/// The full feature phase has begun.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Established {
    /// The session's TSIH.
    pub tsih: u16,
    /// The session's parameters; those of a further connection are its leading connection's.
    pub session: SessionParams,
    /// The connection's parameters.
    pub connection: ConnectionParams,
    /// StatSN of the next response.
    pub exp_stat_sn: Serial,
    /// ExpCmdSN of the session.
    pub exp_cmd_sn: Serial,
    /// MaxCmdSN of the session.
    pub max_cmd_sn: Serial,
}

/// The initiator's end of one login.
#[derive(Debug)]
pub struct InitiatorLogin {
    config: LoginConfig,
    cmd_sn: Serial,
    stage: Stage,
    exp_stat_sn: Option<Serial>,
    turns: u32,
    incoming: Gathering,
    outgoing: Outgoing,
    prover: Prover,
    negotiation: Negotiation,
    has_offered: bool,
}

impl InitiatorLogin {
    /// A login, with its first request in `output`. `cmd_sn` is the session's next number.
    pub fn begin(config: LoginConfig, cmd_sn: Serial, output: &mut Output) -> Self {
        let mut outgoing = Outgoing::default();
        outgoing.push("InitiatorName", &config.initiator);
        if let Some(alias) = &config.initiator_alias {
            outgoing.push("InitiatorAlias", alias);
        }
        match &config.kind {
            SessionKind::Discovery => outgoing.push("SessionType", "Discovery"),
            SessionKind::Normal { target } => {
                outgoing.push("TargetName", target);
                outgoing.push("SessionType", "Normal");
            }
        }
        let prover = Prover::begin(config.account.clone(), config.challenge, &mut outgoing);
        let scope = Scope {
            is_discovery: config.kind == SessionKind::Discovery,
            is_leading: config.tsih == 0,
        };
        let mut login = Self {
            negotiation: Negotiation::new(config.offer, scope),
            cmd_sn,
            stage: Stage::Security,
            exp_stat_sn: None,
            turns: 0,
            incoming: Gathering::new(TEXT_LEN_MAX),
            outgoing,
            prover,
            has_offered: false,
            config,
        };
        login.request(output);
        login
    }

    /// Handles a response with all its data: queues the next request, or completes the login.
    ///
    /// # Errors
    /// When the target refuses the login, violates the protocol, or does not authenticate itself.
    pub fn handle(
        &mut self,
        response: &LoginResponse,
        data: &[u8],
        output: &mut Output,
    ) -> Result<Option<Established>, PeerError> {
        self.check_response(response)?;
        if !self.outgoing.is_over() {
            // This end's text continues: the response only acknowledges its last part.
            self.request(output);
            return Ok(None);
        }
        self.incoming.push(data)?;
        self.outgoing.clear();
        if response.flags.is_continued() {
            self.push_request(LoginFlags::within(self.stage), output);
            return Ok(None);
        }
        let text = self.incoming.take();
        self.handle_text(&text)?;
        if response.flags.is_transit() {
            if !self.prover.is_over() {
                return Err(PeerError::Impostor);
            }
            match response.flags.next() {
                Some(Stage::FullFeature) if self.has_offered => {
                    return self.established(response).map(Some);
                }
                Some(Stage::Operational) if self.stage == Stage::Security => {
                    self.stage = Stage::Operational;
                }
                _ => return Err(malformed(FLAGS_OFFSET)),
            }
        }
        self.request(output);
        Ok(None)
    }

    fn check_response(&mut self, response: &LoginResponse) -> Result<(), PeerError> {
        let status = LoginStatus::new(response.status_class, response.status_detail);
        if !status.is_success() {
            return Err(PeerError::Login(status));
        }
        let stat_sn = Serial::of(response.stat_sn);
        if let Some(expected) = self.exp_stat_sn.filter(|expected| *expected != stat_sn) {
            let opcode = Opcode::LOGIN_RESPONSE;
            return Err(PeerError::Serial { opcode, received: stat_sn.0, expected: expected.0 });
        }
        self.exp_stat_sn = Some(stat_sn.next());
        if response.flags.current() != Some(self.stage) {
            return Err(malformed(FLAGS_OFFSET));
        }
        if response.version_active != 0 {
            return Err(malformed(VERSION_OFFSET));
        }
        if response.isid != self.config.isid {
            return Err(malformed(ISID_OFFSET));
        }
        self.turns += 1;
        if self.turns > TURNS_MAX {
            return Err(PeerError::Sequence(Opcode::LOGIN_RESPONSE));
        }
        Ok(())
    }

    fn handle_text(&mut self, text: &[u8]) -> Result<(), PeerError> {
        let mut keys = Keys::default();
        for pair in Pairs::new(text) {
            let (key, value) = pair?;
            let is_declared =
                matches!(key, "TargetPortalGroupTag" | "TargetAlias" | "TargetAddress");
            // Of two equal keys, the last one counts.
            if !is_declared && keys.take(key, value).is_none() {
                self.negotiation.handle(key, value, &mut self.outgoing)?;
            }
        }
        self.prover.handle(&keys, &mut self.outgoing)
    }

    fn established(&self, response: &LoginResponse) -> Result<Established, PeerError> {
        let tsih = response.tsih.get();
        if tsih == 0 || (self.config.tsih != 0 && self.config.tsih != tsih) {
            return Err(malformed(TSIH_OFFSET));
        }
        let (session, connection) = self.negotiation.result()?;
        Ok(Established {
            tsih,
            session,
            connection,
            exp_stat_sn: Serial::of(response.stat_sn).next(),
            exp_cmd_sn: Serial::of(response.exp_cmd_sn),
            max_cmd_sn: Serial::of(response.max_cmd_sn),
        })
    }

    /// Queues a request with the pending text, and requests the next stage if no text remains.
    fn request(&mut self, output: &mut Output) {
        if self.stage == Stage::Operational && !self.has_offered {
            self.has_offered = true;
            self.negotiation.offer(&mut self.outgoing);
        }
        let flags = match self.stage {
            Stage::Security if !self.prover.has_said_all() => LoginFlags::within(Stage::Security),
            Stage::Security => LoginFlags::transit(Stage::Security, Stage::Operational),
            Stage::Operational | Stage::FullFeature => {
                LoginFlags::transit(Stage::Operational, Stage::FullFeature)
            }
        };
        self.push_request(flags, output);
    }

    fn push_request(&mut self, flags: LoginFlags, output: &mut Output) {
        let (part, continues) = self.outgoing.next_part(LOGIN_DATA_LEN_MAX);
        let flags = if continues { LoginFlags::continued(self.stage) } else { flags };
        let LoginConfig { isid, tsih, cid, .. } = self.config;
        let mut request = LoginRequest::new(flags, isid, tsih, cid);
        request.cmd_sn = self.cmd_sn.field();
        request.exp_stat_sn = self.exp_stat_sn.unwrap_or_default().field();
        let len = u32::try_from(part.len()).expect("a part is no longer than a PDU's data");
        request.data_len = DataSegmentLen::new(len);
        push_small(output, Digests::NONE, request.as_bytes(), part);
    }
}

const FLAGS_OFFSET: u32 = 1;
const VERSION_OFFSET: u32 = 3;
const ISID_OFFSET: u32 = 8;
const TSIH_OFFSET: u32 = 14;

const fn malformed(offset: u32) -> PeerError {
    PeerError::HeaderField { opcode: Opcode::LOGIN_RESPONSE, offset }
}
