//! The login of a connection: the link between its state machine and the keeper of the sessions.
//!
//! Spec: RFC 7143, 6.3.

use zerocopy::FromBytes;

use super::slots::{IMMEDIATE_MAX, Slots};
use super::{Granted, State, TargetSession};
use crate::error::PeerError;
use crate::login::{LoginDemand, LoginStep, SessionKind};
use crate::pdu::{HEADER_LEN, LoginRequest, LoginStatus};

impl TargetSession {
    /// Login Request, with its data.
    pub(super) fn on_login(
        &mut self,
        header: &[u8; HEADER_LEN],
        data: &[u8],
    ) -> Result<(), PeerError> {
        let request = LoginRequest::ref_from_bytes(header).expect("every header has 48 bytes");
        let access = self.exports.access(self.config.anonymous);
        match self.login.exchange.handle(&access, request, data, &mut self.link.output) {
            LoginStep::Answered => Ok(()),
            LoginStep::Refused(LoginStatus::AUTHENTICATION_FAILURE) => {
                self.delay_refusal();
                Ok(())
            }
            LoginStep::Refused(status) => Err(self.refuse(status)),
            LoginStep::Demanded(demand) => self.ask_for_login(demand),
        }
    }

    /// The names that the initiator has given: its own, the user of CHAP, and the target.
    pub fn claimed_names(&self) -> [Option<&str>; 3] {
        self.login.exchange.claimed_names()
    }

    /// The refusal of a failed authentication, while its answer is delayed.
    pub fn delayed_refusal(&self) -> Option<PeerError> {
        let is_delayed = self.state == State::Refusing;
        is_delayed.then_some(PeerError::Login(LoginStatus::AUTHENTICATION_FAILURE))
    }

    fn delay_refusal(&mut self) {
        self.state = State::Refusing;
        self.liveness.silent_at = self.login.refuse_at;
    }

    /// Refuses a login. After a failed authentication, a delay before it slows down guessing.
    pub(super) fn refuse(&mut self, status: LoginStatus) -> PeerError {
        self.login.exchange.refuse(status, &mut self.link.output);
        PeerError::Login(status)
    }

    /// Requests a decision on the login after authentication and negotiation.
    fn ask_for_login(&mut self, demand: Box<LoginDemand>) -> Result<(), PeerError> {
        self.check_login(&demand).map_err(|status| self.refuse(status))?;
        self.state = State::Granting;
        self.login.demand = Some(demand.clone());
        self.login.demanded = Some(demand);
        Ok(())
    }

    fn check_login(&self, demand: &LoginDemand) -> Result<(), LoginStatus> {
        let is_trusted = self.exports.trusts(demand.account.as_deref(), &demand.initiator);
        if !is_trusted || !self.exports.admits(&demand.initiator) {
            return Err(LoginStatus::AUTHORIZATION_FAILURE);
        }
        match &demand.kind {
            // The same for a target that does not exist and one that the initiator does not see: it learns no
            // names that are not in its list.
            SessionKind::Normal { target }
                if self.exports.target(target).is_none()
                    || !self.exports.shows(target, &demand.initiator) =>
            {
                Err(LoginStatus::NOT_FOUND)
            }
            SessionKind::Normal { .. } | SessionKind::Discovery => Ok(()),
        }
    }

    /// Answers a [`super::Demand::Login`] with the last login response; after it, the connection
    /// lives on the core that was granted.
    ///
    /// # Panics
    /// When no decision was requested.
    pub fn handle_login(&mut self, answer: Result<Granted, LoginStatus>) {
        if self.state == State::Closing {
            return;
        }
        assert!(self.state == State::Granting, "a login is answered once");
        let demand = self.login.demanded.take().expect("only a demanded login is answered");
        match answer {
            Ok(granted) => self.enter(&demand, granted),
            // Like a wrong proof: the answer does not tell them apart, and neither does its delay.
            Err(LoginStatus::AUTHENTICATION_FAILURE) => self.delay_refusal(),
            Err(status) => {
                self.refuse(status);
                self.stop();
            }
        }
    }

    fn enter(&mut self, demand: &LoginDemand, granted: Granted) {
        let Granted { session, cid, .. } = granted;
        let response = crate::login::Granted {
            tsih: session.tsih,
            exp_cmd_sn: session.numbers.expected(),
            max_cmd_sn: session.numbers.last(),
        };
        self.login.exchange.grant(response, &mut self.link.output);
        self.link.stat_sn = self.login.exchange.stat_sn().0;
        self.link.params = demand.connection;
        self.link.framer.rules.digests = demand.connection.digests;
        self.link.framer.rules.data_len_max = demand.connection.receive_len_max;
        let count = session.numbers.window + IMMEDIATE_MAX;
        self.tasks.slots = Slots::new(count);
        self.tasks.ready.reserve(self.tasks.slots.count());
        self.names.cid = cid;
        self.shared = session;
        self.names.initiator = demand.initiator.as_str().into();
        match &demand.kind {
            SessionKind::Normal { target } => {
                self.names.target = target.as_str().into();
                self.units = self.exports.units(target, &demand.initiator).unwrap_or_default();
            }
            SessionKind::Discovery => self.names.is_discovery = true,
        }
        self.state = State::FullFeature;
        if !self.names.is_discovery {
            // The target may have gone while the login waited.
            self.look_at_target();
        }
        // The session may have ended, too, without notice to this connection.
        self.close_if_over();
    }
}
