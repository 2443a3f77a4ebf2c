//! The names in a login: the keys that are declared in its first request.

use super::NAME_LEN_MAX;
use super::demand::SessionKind;
use crate::pdu::LoginStatus;

/// The keys declared so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    initiator: Option<String>,
    initiator_alias: Option<String>,
    target: Option<String>,
    kind: Option<Kind>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Discovery,
    Normal,
}

impl Names {
    /// Takes a pair whose key is one of these. Returns whether it is one.
    pub(super) fn take(&mut self, key: &str, value: &str) -> Result<bool, LoginStatus> {
        let is_new = match key {
            "InitiatorName" => self.initiator.replace(name(value)?).is_none(),
            "InitiatorAlias" => self.initiator_alias.replace(alias(value)?).is_none(),
            "TargetName" => self.target.replace(name(value)?).is_none(),
            "SessionType" => self.kind.replace(kind(value)?).is_none(),
            _ => return Ok(false),
        };
        // RFC 7143, 6.2: no key twice.
        if is_new { Ok(true) } else { Err(LoginStatus::INITIATOR_ERROR) }
    }

    /// Checks that the keys that the first request must have are there. RFC 7143, 6.3.1.
    pub(super) fn check(&self) -> Result<(), LoginStatus> {
        let is_whole = self.initiator.is_some() && (self.is_discovery() || self.target.is_some());
        if is_whole { Ok(()) } else { Err(LoginStatus::MISSING_PARAMETER) }
    }

    /// Initiator and target, as far as they are given.
    pub(super) fn given(&self) -> (Option<&str>, Option<&str>) {
        (self.initiator.as_deref(), self.target.as_deref())
    }

    pub(super) fn is_discovery(&self) -> bool {
        self.kind == Some(Kind::Discovery)
    }

    /// Initiator, its alias and the session's type. Only after [`Self::check`].
    pub(super) fn whole(&self) -> (String, Option<String>, SessionKind) {
        let initiator = self.initiator.clone().expect("the first request has been checked");
        let kind = match self.kind {
            Some(Kind::Discovery) => SessionKind::Discovery,
            Some(Kind::Normal) | None => SessionKind::Normal {
                target: self.target.clone().expect("the first request has been checked"),
            },
        };
        (initiator, self.initiator_alias.clone(), kind)
    }
}

/// An iSCSI name. RFC 7143, 4.2.7: in lower case after its preparation, without blanks.
fn name(value: &str) -> Result<String, LoginStatus> {
    let is_known_type = ["iqn.", "eui.", "naa."].iter().any(|prefix| {
        value.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    });
    let is_plain = value.chars().all(|char| !char.is_control() && !char.is_whitespace());
    if is_known_type && is_plain && value.len() <= NAME_LEN_MAX {
        Ok(value.to_lowercase())
    } else {
        Err(LoginStatus::INITIATOR_ERROR)
    }
}

fn alias(value: &str) -> Result<String, LoginStatus> {
    let is_plain = !value.chars().any(char::is_control) && value.len() <= 255;
    if is_plain { Ok(value.to_owned()) } else { Err(LoginStatus::INITIATOR_ERROR) }
}

fn kind(value: &str) -> Result<Kind, LoginStatus> {
    match value {
        "Discovery" => Ok(Kind::Discovery),
        "Normal" => Ok(Kind::Normal),
        _ => Err(LoginStatus::SESSION_TYPE),
    }
}
