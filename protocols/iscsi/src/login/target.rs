//! The target's end of a login.

use nearflash_session::Output;
use zerocopy::IntoBytes;
use zerocopy::big_endian::U16;

use super::authenticator::{Access, Authenticator};
use super::demand::{Granted, LoginDemand};
use super::keys::Keys;
use super::names::Names;
use super::{LOGIN_DATA_LEN_MAX, TURNS_MAX};
use crate::Digests;
use crate::chap::Challenge;
use crate::params::{Negotiation, Offer, Scope};
use crate::pdu::{
    DataSegmentLen, LoginFlags, LoginRequest, LoginResponse, LoginStatus, Serial, Serials, Stage,
};
use crate::small::push_small;
use crate::text::{Gathering, Outgoing, Pairs, TEXT_LEN_MAX};

/// The configuration of a target's end of a login.
#[derive(Clone, Copy, Debug)]
pub struct TargetLoginConfig {
    /// The parameters that it accepts.
    pub offer: Offer,
    /// TargetPortalGroupTag.
    pub portal_group: u16,
    /// The challenge that an initiator must answer: random, for this login only.
    pub challenge: Challenge,
    /// StatSN of the first response.
    pub stat_sn: Serial,
}

/// The result of a login request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LoginStep {
    /// A response is queued; the next request is expected.
    Answered,
    /// [`TargetLogin::grant`] or [`TargetLogin::refuse`] answers; until then, no request is
    /// allowed.
    Demanded(Box<LoginDemand>),
    /// [`TargetLogin::refuse`] answers, delayed after a failed authentication.
    Refused(LoginStatus),
}

/// The fields that all requests of a login share, and that the responses repeat.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Identity {
    isid: [u8; 6],
    tsih: u16,
    cid: u16,
    itt: u32,
}

impl Identity {
    fn of(request: &LoginRequest) -> Self {
        Self {
            isid: request.isid,
            tsih: request.tsih.get(),
            cid: request.cid.get(),
            itt: request.itt.get(),
        }
    }
}

/// The target's end of one login.
#[derive(Debug)]
pub struct TargetLogin {
    config: TargetLoginConfig,
    /// `None` before the first request.
    identity: Option<Identity>,
    stage: Stage,
    /// Flags and CmdSN of the request that is being answered.
    flags: LoginFlags,
    cmd_sn: Serial,
    stat_sn: Serial,
    turns: u32,
    incoming: Gathering,
    outgoing: Outgoing,
    names: Names,
    authenticator: Authenticator,
    /// `None` before the first text is whole.
    negotiation: Option<Negotiation>,
    has_declared: bool,
}

impl TargetLogin {
    /// A login before its first request.
    pub fn new(config: TargetLoginConfig) -> Self {
        Self {
            identity: None,
            stage: Stage::Security,
            flags: LoginFlags::within(Stage::Security),
            cmd_sn: Serial::default(),
            stat_sn: config.stat_sn,
            turns: 0,
            incoming: Gathering::new(TEXT_LEN_MAX),
            outgoing: Outgoing::default(),
            names: Names::default(),
            authenticator: Authenticator::new(config.challenge),
            negotiation: None,
            has_declared: false,
            config,
        }
    }

    /// StatSN of the next response.
    pub const fn stat_sn(&self) -> Serial {
        self.stat_sn
    }

    /// The names that the initiator has given: its own, the user of CHAP, and the target.
    pub fn claimed_names(&self) -> [Option<&str>; 3] {
        let (initiator, target) = self.names.given();
        [initiator, self.authenticator.claimed_user(), target]
    }

    /// A request with all its data.
    pub fn handle(
        &mut self,
        access: &Access,
        request: &LoginRequest,
        data: &[u8],
        output: &mut Output,
    ) -> LoginStep {
        self.try_handle(access, request, data, output).unwrap_or_else(LoginStep::Refused)
    }

    /// Grants the demand: queues the last response. The full feature phase begins after it.
    ///
    /// # Panics
    /// When there was no demand.
    pub fn grant(&mut self, granted: Granted, output: &mut Output) {
        let identity = self.identity.expect("a login is granted after a request");
        self.identity = Some(Identity { tsih: granted.tsih, ..identity });
        let flags = LoginFlags::transit(self.stage, Stage::FullFeature);
        let serials = Serials {
            stat_sn: self.stat_sn,
            exp_cmd_sn: granted.exp_cmd_sn,
            max_cmd_sn: granted.max_cmd_sn,
        };
        self.respond(flags, serials, output);
        self.stage = Stage::FullFeature;
    }

    /// Queues a refusal, which ends the login.
    pub fn refuse(&mut self, status: LoginStatus, output: &mut Output) {
        let flags = LoginFlags(LoginFlags::within(self.stage).0 & 0x0F);
        let itt = self.identity.map_or(0, |identity| identity.itt);
        let mut response = LoginResponse::new(flags, itt, self.serials());
        if let Some(identity) = self.identity {
            response.isid = identity.isid;
            response.tsih = U16::new(identity.tsih);
        }
        (response.status_class, response.status_detail) = (status.class(), status.detail());
        push_small(output, Digests::NONE, response.as_bytes(), &[]);
        self.stat_sn = self.stat_sn.next();
    }

    fn try_handle(
        &mut self,
        access: &Access,
        request: &LoginRequest,
        data: &[u8],
        output: &mut Output,
    ) -> Result<LoginStep, LoginStatus> {
        self.check_request(request)?;
        if !self.outgoing.is_over() {
            // RFC 7143, 6.2: while our text continues, requests have none.
            if !data.is_empty() || self.flags.is_continued() {
                return Err(LoginStatus::INITIATOR_ERROR);
            }
            return self.answer(access, output);
        }
        self.incoming.push(data).map_err(|_| LoginStatus::INITIATOR_ERROR)?;
        if self.flags.is_continued() {
            self.respond(LoginFlags::within(self.stage), self.serials(), output);
            return Ok(LoginStep::Answered);
        }
        self.outgoing.clear();
        let text = self.incoming.take();
        self.handle_text(access, &text)?;
        self.answer(access, output)
    }

    /// RFC 7143, 6.3 and 11.12: version, stages in order, one login at a time.
    fn check_request(&mut self, request: &LoginRequest) -> Result<(), LoginStatus> {
        let identity = *self.identity.get_or_insert(Identity::of(request));
        self.cmd_sn = Serial::of(request.cmd_sn);
        let current = request.flags.current().ok_or(LoginStatus::INVALID_REQUEST)?;
        if self.turns == 0 && current != Stage::FullFeature {
            self.stage = current;
        }
        self.turns += 1;
        if request.version_min > 0 {
            return Err(LoginStatus::UNSUPPORTED_VERSION);
        }
        let flags = request.flags;
        let goes_on = flags.next().is_some_and(|next| next > current) && !flags.is_continued();
        let is_valid = identity == Identity::of(request)
            && request.opcode.is_immediate()
            && current == self.stage
            && (!flags.is_transit() || goes_on)
            && self.turns <= TURNS_MAX;
        self.flags = flags;
        if is_valid { Ok(()) } else { Err(LoginStatus::INVALID_REQUEST) }
    }

    fn handle_text(&mut self, access: &Access, text: &[u8]) -> Result<(), LoginStatus> {
        let is_first = self.negotiation.is_none();
        let mut keys = Keys::default();
        let mut others = Vec::new();
        for pair in Pairs::new(text) {
            let (key, value) = pair.map_err(|_| LoginStatus::INITIATOR_ERROR)?;
            if self.names.take(key, value)? {
                // RFC 7143, 13: names are for the first request only.
                if !is_first && key != "InitiatorAlias" {
                    return Err(LoginStatus::INITIATOR_ERROR);
                }
                continue;
            }
            match keys.take(key, value) {
                None => others.push((key, value)),
                Some(None) => {}
                // RFC 7143, 6.2: no key twice.
                Some(Some(_)) => return Err(LoginStatus::INITIATOR_ERROR),
            }
        }
        let is_security = self.stage == Stage::Security;
        if !is_security && !keys.is_empty() {
            return Err(LoginStatus::INITIATOR_ERROR);
        }
        self.names.check()?;
        let mut negotiation = match self.negotiation.take() {
            Some(negotiation) => negotiation,
            None => self.begin_negotiation(),
        };
        self.authenticator.handle(access, &keys, &mut self.outgoing)?;
        // Not earlier: initiators refuse operational keys in the security stage.
        if !is_security && !std::mem::replace(&mut self.has_declared, true) {
            negotiation.declare(&mut self.outgoing);
        }
        for (key, value) in others {
            let handled = negotiation.handle(key, value, &mut self.outgoing);
            handled.map_err(|_| LoginStatus::INITIATOR_ERROR)?;
        }
        self.negotiation = Some(negotiation);
        Ok(())
    }

    /// The portal group is part of the target's first text. RFC 7143, 13.9.
    fn begin_negotiation(&mut self) -> Negotiation {
        let is_discovery = self.names.is_discovery();
        let is_leading = self.identity.is_some_and(|identity| identity.tsih == 0);
        if !is_discovery {
            self.outgoing.push("TargetPortalGroupTag", &self.config.portal_group.to_string());
        }
        Negotiation::new(self.config.offer, Scope { is_discovery, is_leading })
    }

    /// Sends the pending text, and enters the next stage if no text remains.
    fn answer(&mut self, access: &Access, output: &mut Output) -> Result<LoginStep, LoginStatus> {
        let is_authenticated = self.authenticator.is_over(access);
        let next = self.flags.next().filter(|_| self.flags.is_transit());
        if (next.is_some() || self.stage != Stage::Security) && !is_authenticated {
            // An authentication under way continues in this stage; one that never began has failed.
            if !self.authenticator.is_under_way() {
                return Err(LoginStatus::AUTHENTICATION_FAILURE);
            }
        }
        let fits = self.outgoing.left() <= crate::length(LOGIN_DATA_LEN_MAX);
        let flags = match next.filter(|_| fits && is_authenticated) {
            Some(Stage::FullFeature) => {
                return Ok(LoginStep::Demanded(Box::new(self.demand()?)));
            }
            Some(next) => LoginFlags::transit(self.stage, next),
            None => LoginFlags::within(self.stage),
        };
        self.respond(flags, self.serials(), output);
        if let Some(next) = flags.next().filter(|_| flags.is_transit()) {
            self.stage = next;
        }
        Ok(LoginStep::Answered)
    }

    fn demand(&self) -> Result<LoginDemand, LoginStatus> {
        let identity = self.identity.expect("a login is demanded after a request");
        let negotiation = self.negotiation.as_ref().expect("the first request's text is complete");
        let (session, connection) =
            negotiation.result().map_err(|_| LoginStatus::INITIATOR_ERROR)?;
        let (initiator, initiator_alias, kind) = self.names.whole();
        Ok(LoginDemand {
            initiator,
            initiator_alias,
            account: self.authenticator.user(),
            isid: identity.isid,
            tsih: identity.tsih,
            cid: identity.cid,
            kind,
            session,
            connection,
            cmd_sn: self.cmd_sn,
        })
    }

    /// Before the session is known, the command window holds only the login.
    const fn serials(&self) -> Serials {
        Serials { stat_sn: self.stat_sn, exp_cmd_sn: self.cmd_sn, max_cmd_sn: self.cmd_sn }
    }

    /// Queues a response with the next part of the text.
    fn respond(&mut self, flags: LoginFlags, serials: Serials, output: &mut Output) {
        let (part, continues) = self.outgoing.next_part(LOGIN_DATA_LEN_MAX);
        let flags = if continues { LoginFlags::continued(self.stage) } else { flags };
        let identity = self.identity.expect("a response answers a request");
        let mut response = LoginResponse::new(flags, identity.itt, serials);
        response.isid = identity.isid;
        response.tsih = U16::new(identity.tsih);
        let len = u32::try_from(part.len()).expect("a part is no longer than a PDU's data");
        response.data_len = DataSegmentLen::new(len);
        push_small(output, Digests::NONE, response.as_bytes(), part);
        self.stat_sn = self.stat_sn.next();
    }
}
