//! The result of a request, with the same text everywhere: here, in C, in Python and in the
//! document.

use std::fmt;

use nearflash_request::Outcome;
use nearflash_session::codes;

/// The result of a request. A client treats an unknown value as a failure without a description.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Status(pub u16);

codes! { Status {
    OK = 0, "done, and as durable as requested";
    INVALID_OPCODE = 1, "the node does not support this operation";
    INVALID_FIELD = 2, "a field of the request has an invalid value";
    OUT_OF_RANGE = 3, "the range ends past the end of the volume";
    NOT_GRANTED = 4, "the credential does not grant this access to the range";
    NO_SUCH_VOLUME = 5, "there is no such volume";
    STALE_EPOCH = 6, "the volume changed since it was opened: open it again";
    CAPACITY_EXCEEDED = 7, "the device cannot hold more";
    UNRECOVERED_READ = 8, "the device could not read its medium";
    WRITE_FAULT = 9, "the device could not write its medium";
    DEVICE_UNAVAILABLE = 10, "the device cannot be reached: try again later";
    UNSUPPORTED = 11, "the device cannot do this operation";
    ABORTED = 12, "stopped on request before it took effect";
    DATA_DIGEST = 13, "payload was damaged on its way: send it again";
    HEADER_DIGEST = 14, "a header was damaged on its way";
    DUPLICATE_TAG = 15, "two requests in flight have the same tag";
    CREDITS_EXCEEDED = 16, "more requests in flight than the session allows";
    AUTHENTICATION_FAILED = 17, "the client did not prove that it knows the secret of its key";
    CREDENTIAL_EXPIRED = 18, "the credential has expired";
    VERSION = 19, "client and node have no version of the protocol in common";
    BUSY = 20, "the node cannot do this now: try again later";
    SEQUENCE = 21, "the message is not allowed in this state";
    TIMEOUT = 22, "the handshake did not complete in time";
    SHUTTING_DOWN = 23, "the node is shutting down";
    RING_BROKEN = 24, "the ring memory has an invalid index or entry";
    RESERVED = 25, "a reservation of the volume by a host forbids this";
    WRITE_PROTECTED = 26, "the volume is write-protected for now";
    PATH_LOST = 27, "another node has the data, and the path to it was lost: it may have been done";
    NOT_PRIMARY = 28, "the node is not the primary of the mirror: nothing was done";
    STALE_TERM = 29, "the request was sent in another term of the mirror: nothing was done";
} }

impl Status {
    /// Its name, the same in every language; `UNKNOWN` when it has none.
    pub fn name(self) -> &'static str {
        self.known().map_or("UNKNOWN", |(name, _)| name)
    }

    /// The status in one English sentence; the same in every language binding.
    pub fn sentence(self) -> &'static str {
        let known = self.known();
        known.map_or("the node returned an unknown status", |(_, sentence)| sentence)
    }

    /// Whether the request was done.
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

/// The status of an outcome. A compare-and-swap that found another word is a success.
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
            Outcome::PathLost => Self::PATH_LOST,
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
        for (index, (status, name, sentence)) in Status::KNOWN.iter().enumerate() {
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
