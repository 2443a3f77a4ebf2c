//! How a request ended, in the same words everywhere: here, in C, in Python and in the document.

use std::fmt;

use nearflash_request::Outcome;

/// How a request ended. Open: a client takes an unknown value as a failure that it has no words
/// for.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Status(pub u16);

/// A status, its name and its sentence.
type Row = (Status, &'static str, &'static str);

impl Status {
    /// Done.
    pub const OK: Self = Self(0);
    /// Unknown, or not here.
    pub const INVALID_OPCODE: Self = Self(1);
    /// A field cannot be what it is.
    pub const INVALID_FIELD: Self = Self(2);
    /// Past the volume's end.
    pub const OUT_OF_RANGE: Self = Self(3);
    /// No right to do so there.
    pub const NOT_GRANTED: Self = Self(4);
    /// No volume of that name, or of that handle any more.
    pub const NO_SUCH_VOLUME: Self = Self(5);
    /// The volume's layout changed since it was opened.
    pub const STALE_EPOCH: Self = Self(6);
    /// The device is full.
    pub const CAPACITY_EXCEEDED: Self = Self(7);
    /// The device could not read.
    pub const UNRECOVERED_READ: Self = Self(8);
    /// The device could not write.
    pub const WRITE_FAULT: Self = Self(9);
    /// The device cannot be reached.
    pub const DEVICE_UNAVAILABLE: Self = Self(10);
    /// The device cannot do this.
    pub const UNSUPPORTED: Self = Self(11);
    /// Stopped before it took effect.
    pub const ABORTED: Self = Self(12);
    /// Payload was damaged on its way.
    pub const DATA_DIGEST: Self = Self(13);
    /// A header was damaged on its way.
    pub const HEADER_DIGEST: Self = Self(14);
    /// Two requests in flight with one tag.
    pub const DUPLICATE_TAG: Self = Self(15);
    /// More requests in flight than was agreed.
    pub const CREDITS_EXCEEDED: Self = Self(16);
    /// The client did not prove who it is.
    pub const AUTHENTICATION_FAILED: Self = Self(17);
    /// The credential is no longer good.
    pub const CREDENTIAL_EXPIRED: Self = Self(18);
    /// No version in common.
    pub const VERSION: Self = Self(19);
    /// Not now.
    pub const BUSY: Self = Self(20);
    /// Not at this point of the conversation.
    pub const SEQUENCE: Self = Self(21);
    /// It took too long.
    pub const TIMEOUT: Self = Self(22);
    /// The node goes down.
    pub const SHUTTING_DOWN: Self = Self(23);
    /// The rings hold what they cannot.
    pub const RING_BROKEN: Self = Self(24);
    /// A reservation forbids it.
    pub const RESERVED: Self = Self(25);
    /// Nobody may write for now.
    pub const WRITE_PROTECTED: Self = Self(26);

    /// Every status in order of its number.
    const ROWS: [Row; 27] = [
        (Self::OK, "OK", "done, and as durable as was asked"),
        (Self::INVALID_OPCODE, "INVALID_OPCODE", "the node does not know this operation here"),
        (Self::INVALID_FIELD, "INVALID_FIELD", "a field of the request cannot be what it is"),
        (Self::OUT_OF_RANGE, "OUT_OF_RANGE", "the range ends past the end of the volume"),
        (Self::NOT_GRANTED, "NOT_GRANTED", "the credential has no such right on this range"),
        (Self::NO_SUCH_VOLUME, "NO_SUCH_VOLUME", "there is no such volume, or no more"),
        (Self::STALE_EPOCH, "STALE_EPOCH", "the volume changed since it was opened: open it again"),
        (Self::CAPACITY_EXCEEDED, "CAPACITY_EXCEEDED", "the device cannot hold more"),
        (Self::UNRECOVERED_READ, "UNRECOVERED_READ", "the device could not read its medium"),
        (Self::WRITE_FAULT, "WRITE_FAULT", "the device could not write its medium"),
        (Self::DEVICE_UNAVAILABLE, "DEVICE_UNAVAILABLE", "the device cannot be reached for now"),
        (Self::UNSUPPORTED, "UNSUPPORTED", "the device cannot do this operation"),
        (Self::ABORTED, "ABORTED", "stopped on request before it took effect"),
        (Self::DATA_DIGEST, "DATA_DIGEST", "payload was damaged on its way: send it again"),
        (Self::HEADER_DIGEST, "HEADER_DIGEST", "a header was damaged on its way"),
        (Self::DUPLICATE_TAG, "DUPLICATE_TAG", "two requests in flight have the same tag"),
        (Self::CREDITS_EXCEEDED, "CREDITS_EXCEEDED", "more requests in flight than was agreed"),
        (
            Self::AUTHENTICATION_FAILED,
            "AUTHENTICATION_FAILED",
            "the client did not prove that it knows the secret of its key",
        ),
        (Self::CREDENTIAL_EXPIRED, "CREDENTIAL_EXPIRED", "the credential has expired"),
        (Self::VERSION, "VERSION", "client and node have no version of the protocol in common"),
        (Self::BUSY, "BUSY", "the node cannot do this now: try again later"),
        (Self::SEQUENCE, "SEQUENCE", "this message may not come at this point"),
        (Self::TIMEOUT, "TIMEOUT", "the handshake was not over in time"),
        (Self::SHUTTING_DOWN, "SHUTTING_DOWN", "the node is going down"),
        (Self::RING_BROKEN, "RING_BROKEN", "the rings hold what they cannot hold"),
        (Self::RESERVED, "RESERVED", "a reservation of the volume by a host forbids this"),
        (Self::WRITE_PROTECTED, "WRITE_PROTECTED", "the volume is write-protected for now"),
    ];

    /// Every status in order of its number.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ROWS.iter().map(|(status, ..)| *status)
    }

    fn row(self) -> Option<&'static Row> {
        Self::ROWS.get(usize::from(self.0))
    }

    /// Its name, the same in every language; `UNKNOWN` when it has none.
    pub fn name(self) -> &'static str {
        self.row().map_or("UNKNOWN", |(_, name, _)| name)
    }

    /// What it means, in one sentence; the same in every language.
    pub fn sentence(self) -> &'static str {
        self.row().map_or("the node gave a status that is not known here", |row| row.2)
    }

    /// Whether the request was done.
    #[inline]
    pub const fn is_ok(self) -> bool {
        self.0 == Self::OK.0
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

/// What the engine's outcomes are called here. A compare-and-swap that found another word was done:
/// the word is the answer.
impl From<Outcome> for Status {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Success | Outcome::Miscompare => Self::OK,
            Outcome::OutOfRange => Self::OUT_OF_RANGE,
            Outcome::VolumeGone => Self::NO_SUCH_VOLUME,
            Outcome::CapacityExceeded => Self::CAPACITY_EXCEEDED,
            Outcome::UnrecoveredRead => Self::UNRECOVERED_READ,
            Outcome::WriteFault => Self::WRITE_FAULT,
            Outcome::DeviceUnavailable => Self::DEVICE_UNAVAILABLE,
            Outcome::Unsupported => Self::UNSUPPORTED,
            Outcome::Aborted => Self::ABORTED,
            Outcome::ReservationConflict => Self::RESERVED,
            Outcome::WriteProtected => Self::WRITE_PROTECTED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_stands_at_its_number() {
        for (index, (status, name, sentence)) in Status::ROWS.iter().enumerate() {
            assert_eq!(usize::from(status.0), index);
            assert_eq!(status.name(), *name);
            assert_eq!(status.sentence(), *sentence);
        }
    }

    #[test]
    fn an_unknown_status_is_a_failure_with_words() {
        let status = Status(0xFFFF);
        assert!(!status.is_ok());
        assert_eq!(format!("{status:?}"), "UNKNOWN (65535)");
    }
}
