"""Remote flash as near as local: read and write the volumes of a nearflash node.

    import nearflash

    with nearflash.open("direct://127.0.0.1:4421/data") as volume:
        volume.write(0, b"flash")
        volume.flush()
        assert volume.read(0, 5) == b"flash"

`open` returns a `Volume`, for blocking calls from any number of threads. `connect` returns a
`Client`, which opens volumes by name, and queue pairs for many operations in flight from one
thread. `Client.files` reads the files of a volume that is formatted for files, and `Client.owner`
changes them. `nearflash.aio` is the counterpart for asyncio, and `nearflash.filesystem` presents
volumes as files of fsspec, for pandas, pyarrow, Dask and DuckDB.

Offsets and lengths are in bytes, of any alignment, and times in seconds. Every call takes the
offset first, and then the length, the data or the buffer. Every error of a node is a
`nearflash.Error`, with a class in `nearflash.errors`. Files by name raise Python's own errors, such
as `FileNotFoundError`.
"""

from os import PathLike

from nearflash import errors
from nearflash._nearflash import (
    Client,
    File,
    Files,
    Owner,
    QueuePair,
    Stat,
    Upload,
    Volume,
    __version__,
    connect,
)
from nearflash.errors import (
    Aborted,
    AuthenticationFailed,
    Busy,
    CapacityExceeded,
    ConnectionLost,
    CredentialExpired,
    CreditsExceeded,
    DataDigest,
    DeviceUnavailable,
    DuplicateTag,
    Error,
    HeaderDigest,
    InvalidCredentials,
    InvalidField,
    InvalidLength,
    InvalidOpcode,
    InvalidUrl,
    NoMemory,
    NoSuchVolume,
    NotGranted,
    NotPrimary,
    OutcomeUnknown,
    OutOfRange,
    PathLost,
    QueueFull,
    Refused,
    Reserved,
    RingBroken,
    Sequence,
    ShuttingDown,
    StaleEpoch,
    StaleTerm,
    Superseded,
    Timeout,
    Unreachable,
    UnrecoveredRead,
    Unsupported,
    Version,
    WriteFault,
    WriteProtected,
)

__all__ = [
    "Aborted",
    "AuthenticationFailed",
    "Busy",
    "CapacityExceeded",
    "Client",
    "ConnectionLost",
    "CredentialExpired",
    "CreditsExceeded",
    "DataDigest",
    "DeviceUnavailable",
    "DuplicateTag",
    "Error",
    "File",
    "Files",
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
    "Owner",
    "PathLost",
    "QueueFull",
    "QueuePair",
    "Refused",
    "Reserved",
    "RingBroken",
    "Sequence",
    "ShuttingDown",
    "StaleEpoch",
    "StaleTerm",
    "Stat",
    "Superseded",
    "Timeout",
    "Unreachable",
    "UnrecoveredRead",
    "Unsupported",
    "Upload",
    "Version",
    "Volume",
    "WriteFault",
    "WriteProtected",
    "__version__",
    "connect",
    "errors",
    "open",
]


def open(
    url: str,
    key: str | None = None,
    secret: str | None = None,
    *,
    secret_file: str | PathLike[str] | None = None,
    silence_max: float | None = None,
    reconnect_max: float | None = None,
    spin_max: float | None = None,
) -> Volume:
    """Opens the volume that `url` names.

    `key`, `secret`, `secret_file`, and `silence_max`, `reconnect_max` and `spin_max` in seconds,
    are those of `connect`.
    """
    client = connect(
        url,
        key,
        secret,
        secret_file=secret_file,
        silence_max=silence_max,
        reconnect_max=reconnect_max,
        spin_max=spin_max,
    )
    return client.open()
