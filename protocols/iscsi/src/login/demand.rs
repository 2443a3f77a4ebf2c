//! The request of a login to the keeper of the target's sessions, after negotiation.

use crate::params::{ConnectionParams, SessionParams};
use crate::pdu::Serial;

/// The type of a session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SessionKind {
    /// For text only: SendTargets.
    Discovery,
    /// For commands.
    Normal {
        /// TargetName, as the initiator wrote it but in lower case.
        target: String,
    },
}

/// An authenticated initiator asks for the full feature phase.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LoginDemand {
    /// InitiatorName, in lower case.
    pub initiator: String,
    /// InitiatorAlias.
    pub initiator_alias: Option<String>,
    /// The user of its CHAP account, if it authenticated by CHAP.
    pub account: Option<String>,
    /// ISID.
    pub isid: [u8; 6],
    /// TSIH: 0 for a new session, or for one that replaces an old session.
    pub tsih: u16,
    /// CID.
    pub cid: u16,
    /// The session's type, with its target.
    pub kind: SessionKind,
    /// The session's parameters. Ignored when the connection joins a session.
    pub session: SessionParams,
    /// The connection's parameters.
    pub connection: ConnectionParams,
    /// CmdSN of the login: the first command of a new session has it too.
    pub cmd_sn: Serial,
}

/// The answer to a [`LoginDemand`] that is granted: fields of the last login response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Granted {
    /// The session's TSIH, never 0.
    pub tsih: u16,
    /// ExpCmdSN of the session.
    pub exp_cmd_sn: Serial,
    /// MaxCmdSN of the session.
    pub max_cmd_sn: Serial,
}
