//! The claims of a peer that is not let in: who it says it is, and what it asks for. The log shows them with a
//! refusal. Nothing is proved, so they decide nothing.

use nearflash_iscsi::login::{LoginDemand, SessionKind};
use nearflash_nvme::NqnField;
use nearflash_nvme::fabrics::ConnectData;

use crate::connection::{Connection, Role};
use crate::gauges::Protocol;
use crate::notice::Notice;
use crate::session::{PeerError, Session};

/// The length in bytes of the longest text that is kept; the rest is cut off.
const TEXT_LEN_MAX: usize = 256;

/// The names that a peer gives. `None` for a name that it does not give.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Claim {
    /// The host's NQN, the initiator's name, or the key of a direct client.
    pub name: Option<Box<str>>,
    /// The user of CHAP.
    pub account: Option<Box<str>>,
    /// The subsystem or the target that it asks for.
    pub object: Option<Box<str>>,
}

impl Claim {
    /// The names in a Connect, valid or not.
    pub(crate) fn of_connect(data: &ConnectData) -> Self {
        let (name, object) = (field(&data.host), field(&data.subsystem));
        Self { name, account: None, object }
    }

    /// The names in a login whose initiator was authenticated.
    pub(crate) fn of_login(demand: &LoginDemand) -> Self {
        Self {
            name: kept(&demand.initiator),
            account: demand.account.as_deref().and_then(kept),
            object: match &demand.kind {
                SessionKind::Normal { target } => kept(target),
                SessionKind::Discovery => None,
            },
        }
    }

    /// The name of a direct client that is let in, and of the volume that it may not use.
    pub(crate) fn of_volume(session: &Session, volume: &str) -> Self {
        Self { object: kept(volume), ..Self::of(session) }
    }

    /// The names that the peer of a session has given.
    fn of(session: &Session) -> Self {
        match session {
            Session::NvmeTcp(session) => match session.unproved_names() {
                Some(names) => Self {
                    name: kept(names.host.as_str()),
                    account: None,
                    object: kept(names.subsystem.as_str()),
                },
                None => Self::default(),
            },
            Session::Iscsi(session) => {
                let [name, account, object] = session.claimed_names().map(|it| it.and_then(kept));
                Self { name, account, object }
            }
            Session::Direct(session) => {
                Self { name: session.claimed_key().and_then(kept), ..Self::default() }
            }
        }
    }
}

fn field(field: &NqnField) -> Option<Box<str>> {
    let len = field.0.iter().position(|byte| *byte == 0).unwrap_or(field.0.len());
    kept(&String::from_utf8_lossy(&field.0[..len]))
}

fn kept(text: &str) -> Option<Box<str>> {
    let end = (0..=text.len().min(TEXT_LEN_MAX)).rev().find(|at| text.is_char_boundary(*at));
    let text = &text[..end.unwrap_or(0)];
    (!text.is_empty()).then(|| text.into())
}

impl Connection {
    /// Whether its peer has proved who it is, as far as it must.
    pub(crate) fn is_let_in(&self) -> bool {
        match self.role {
            Role::Handshake => false,
            Role::Direct => self.client.is_some(),
            Role::Initiator { .. } => true,
            Role::Admin(_) | Role::Io(..) => match &self.session {
                Session::NvmeTcp(session) => session.unproved_names().is_none(),
                Session::Direct(_) | Session::Iscsi(_) => true,
            },
        }
    }

    /// The report of an error of its peer.
    pub(crate) fn error_notice(&mut self, error: PeerError) -> Notice {
        let claim = (!self.is_let_in()).then(|| Box::new(Claim::of(&self.session)));
        self.is_refused |= claim.is_some();
        Notice::PeerError { peer: self.peer, error, claim }
    }

    /// The report of its end, if its peer has given a name, has not been let in, and has not been refused either.
    pub(crate) fn abandoned_notice(&mut self) -> Option<Notice> {
        if self.is_refused || self.is_let_in() {
            return None;
        }
        if let Some(error) = self.session.delayed_refusal() {
            return Some(self.error_notice(error));
        }
        let claim = Box::new(Claim::of(&self.session));
        claim.name.as_ref()?;
        self.is_refused = true;
        let protocol = Protocol::of(&self.session);
        Some(Notice::Abandoned { peer: self.peer, protocol, claim })
    }
}
