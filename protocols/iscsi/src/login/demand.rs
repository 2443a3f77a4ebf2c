//! What a login asks of whoever keeps the target's sessions, once all is negotiated.

use crate::params::{ConnectionParams, SessionParams};
use crate::pdu::Serial;

/// What a session is for.
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

/// An initiator has proved itself as far as it must, and asks for the full feature phase.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LoginDemand {
    /// InitiatorName, in lower case.
    pub initiator: String,
    /// InitiatorAlias.
    pub initiator_alias: Option<String>,
    /// The user of the CHAP account that it proved to be, if it did.
    pub account: Option<String>,
    /// ISID.
    pub isid: [u8; 6],
    /// TSIH: 0 for a new session, or one that takes an old one's place.
    pub tsih: u16,
    /// CID.
    pub cid: u16,
    /// What for.
    pub kind: SessionKind,
    /// The session's parameters. Without meaning when it joins a session, whose are agreed.
    pub session: SessionParams,
    /// The connection's.
    pub connection: ConnectionParams,
    /// CmdSN of the login: the first command of a new session has it too.
    pub cmd_sn: Serial,
}

/// The answer to a [`LoginDemand`] that is granted: what the last login response says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Granted {
    /// The session's TSIH, never 0.
    pub tsih: u16,
    /// ExpCmdSN of the session.
    pub exp_cmd_sn: Serial,
    /// MaxCmdSN of the session.
    pub max_cmd_sn: Serial,
}
