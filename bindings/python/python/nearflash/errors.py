"""The errors of operations and connections.

`name` is the error's name, the same in Rust, in C and in docs/direct-protocol.md. The message is
one line that states the fault, and the remedy if there is one. If Python has a class for an error,
the error is also an instance of that class: `except PermissionError` catches `NotGranted`.
"""

__all__ = [
    "Aborted",
    "AuthenticationFailed",
    "Busy",
    "CapacityExceeded",
    "ConnectionLost",
    "CredentialExpired",
    "CreditsExceeded",
    "DataDigest",
    "DeviceUnavailable",
    "DuplicateTag",
    "Error",
    "HeaderDigest",
    "InvalidCredentials",
    "InvalidField",
    "InvalidLength",
    "InvalidOpcode",
    "InvalidUrl",
    "NoMemory",
    "NoSuchVolume",
    "NotGranted",
    "NotPrimary",
    "OutOfRange",
    "OutcomeUnknown",
    "PathLost",
    "QueueFull",
    "Refused",
    "Reserved",
    "RingBroken",
    "Sequence",
    "ShuttingDown",
    "StaleEpoch",
    "StaleTerm",
    "Superseded",
    "Timeout",
    "Unreachable",
    "UnrecoveredRead",
    "Unsupported",
    "Version",
    "WriteFault",
    "WriteProtected",
]


class Error(Exception):
    """The base class; an instance of it is an error that this version has no class for."""

    name: str = "UNKNOWN"
    """The error's name, the same in every language."""

    is_transient: bool = False
    """Whether a new connection may help, since the connection is at fault and not the request."""


# The node's errors.


class InvalidOpcode(Error):
    """the node does not support this operation"""

    name = "INVALID_OPCODE"


class InvalidField(Error, ValueError):
    """a field of the request has an invalid value"""

    name = "INVALID_FIELD"


class OutOfRange(Error, ValueError):
    """the range ends past the end of the volume"""

    name = "OUT_OF_RANGE"


class NotGranted(Error, PermissionError):
    """the credential does not grant this access to the range"""

    name = "NOT_GRANTED"


class NoSuchVolume(Error, FileNotFoundError):
    """there is no such volume"""

    name = "NO_SUCH_VOLUME"


class StaleEpoch(Error):
    """the volume changed since it was opened: open it again"""

    name = "STALE_EPOCH"


class CapacityExceeded(Error, OSError):
    """the device cannot hold more"""

    name = "CAPACITY_EXCEEDED"


class UnrecoveredRead(Error, OSError):
    """the device could not read its medium"""

    name = "UNRECOVERED_READ"


class WriteFault(Error, OSError):
    """the device could not write its medium"""

    name = "WRITE_FAULT"


class DeviceUnavailable(Error, OSError):
    """the device cannot be reached: try again later"""

    name = "DEVICE_UNAVAILABLE"


class Unsupported(Error):
    """the device cannot do this operation"""

    name = "UNSUPPORTED"


class Aborted(Error):
    """stopped on request before it took effect"""

    name = "ABORTED"


class DataDigest(Error):
    """payload was damaged on its way: send it again"""

    name = "DATA_DIGEST"


class HeaderDigest(Error):
    """a header was damaged on its way"""

    name = "HEADER_DIGEST"


class DuplicateTag(Error):
    """two requests in flight have the same tag"""

    name = "DUPLICATE_TAG"


class CreditsExceeded(Error):
    """more requests in flight than the session allows"""

    name = "CREDITS_EXCEEDED"


class AuthenticationFailed(Error, PermissionError):
    """the client did not prove that it knows the secret of its key"""

    name = "AUTHENTICATION_FAILED"


class CredentialExpired(Error, PermissionError):
    """the credential has expired"""

    name = "CREDENTIAL_EXPIRED"


class Version(Error):
    """client and node have no version of the protocol in common"""

    name = "VERSION"


class Busy(Error):
    """the node cannot do this now: try again later"""

    name = "BUSY"


class Sequence(Error):
    """the message is not allowed in this state"""

    name = "SEQUENCE"


class Timeout(Error, TimeoutError):
    """the handshake did not complete in time"""

    name = "TIMEOUT"


class ShuttingDown(Error, ConnectionError):
    """the node is shutting down"""

    name = "SHUTTING_DOWN"


class RingBroken(Error):
    """the ring memory has an invalid index or entry"""

    name = "RING_BROKEN"


class Reserved(Error):
    """a reservation of the volume by a host forbids this"""

    name = "RESERVED"


class WriteProtected(Error, PermissionError):
    """the volume is write-protected for now"""

    name = "WRITE_PROTECTED"


class PathLost(Error, OSError):
    """another node has the data, and the path to it was lost: it may have been done"""

    name = "PATH_LOST"


class NotPrimary(Error, OSError):
    """the node is not the primary of the mirror: nothing was done"""

    name = "NOT_PRIMARY"


class StaleTerm(Error, OSError):
    """the request was sent in another term of the mirror: nothing was done"""

    name = "STALE_TERM"


# The client's errors.


class InvalidUrl(Error, ValueError):
    """the URL is not valid, or names no volume"""

    name = "INVALID_URL"


class InvalidCredentials(Error, ValueError):
    """the key or its secret cannot be used"""

    name = "INVALID_CREDENTIALS"


class Unreachable(Error, ConnectionError):
    """no node answers at the address"""

    name = "UNREACHABLE"


class Refused(Error, ConnectionError):
    """the node refuses the connection"""

    name = "REFUSED"


class ConnectionLost(Error, ConnectionError):
    """the connection was lost before the answer; nothing was changed"""

    name = "CONNECTION_LOST"


class OutcomeUnknown(Error, ConnectionError):
    """the connection was lost before the answer; whether the volume was changed is unknown"""

    name = "OUTCOME_UNKNOWN"


class QueueFull(Error):
    """the queue pair's depth is reached"""

    name = "QUEUE_FULL"


class InvalidLength(Error, ValueError):
    """the length is not valid for one operation"""

    name = "INVALID_LENGTH"


class NoMemory(Error, MemoryError):
    """the queue pair's memory is used up"""

    name = "NO_MEMORY"


class Superseded(Error):
    """another process has taken the volume over"""

    name = "SUPERSEDED"


BY_NAME: dict[str, type[Error]] = {error.name: error for error in Error.__subclasses__()}
"""Every class by its error's name."""
