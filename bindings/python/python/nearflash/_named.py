"""Files by name, below the file system of fsspec: who owns a volume, and files that are written.

All file systems of a process that reach a volume in the same way share one owner. It takes the
volume when the first of them writes, and releases it when the last file is closed, so that
processes write in turn. If the node owns the files, owners of several processes exist at a time.

Invariant: a file that is written appears when it is closed, whole, or never.
"""

import atexit
import contextlib
import datetime
import os
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from fsspec.spec import AbstractBufferedFile

import nearflash

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAGIC = b"nrfiles\x1a"
"""The start of both superblocks of a volume of files."""

SUPERBLOCKS = (0, 4096)
"""The offsets of the superblocks in bytes."""

ENTRIES_AT_A_TIME = 10_000
"""The number of entries of a directory that are listed at a time."""

RETRY = 0.02
"""The time in seconds between two attempts to take a volume that another process has."""


def holds_files(volume: nearflash.Volume) -> bool:
    """Whether a volume, which may be read from its start, is formatted for files."""
    head = volume.read(0, min(volume.size, SUPERBLOCKS[-1] + len(MAGIC)))
    return any(head[start : start + len(MAGIC)] == MAGIC for start in SUPERBLOCKS)


class Held:
    """An owner, and the number of its users."""

    def __init__(self, owner: nearflash.Owner) -> None:
        self.owner = owner
        self.users = 0


class Bucket:
    """The files of one volume in one process."""

    def __init__(self, client: nearflash.Client) -> None:
        self.files = client.files()
        self._client = client
        self._held: Held | None = None
        # Reentrant, since a file that is not used any more may be collected meanwhile.
        self._lock = threading.RLock()

    def lease(self, patience: float) -> "Lease":
        """Takes the volume, unless this process has it. Waits at most `patience` seconds for
        another process to release it."""
        with self._lock:
            if self._held is None:
                self._held = Held(self._take(patience))
            self._held.users += 1
            return Lease(self, self._held)

    @contextlib.contextmanager
    def owned(self, patience: float) -> Iterator[nearflash.Owner]:
        """The owner of the volume, for the time of a change."""
        lease = self.lease(patience)
        try:
            yield lease.owner
        except BaseException as error:
            lease.note(error)
            raise
        finally:
            lease.release()

    def is_held_by(self, held: Held) -> bool:
        """Whether `held` is the present owner."""
        return self._held is held

    def leave(self, held: Held, *, is_broken: bool = False) -> None:
        """Ends one use of an owner, or all uses of one that is broken."""
        with self._lock:
            held.users = 0 if is_broken else held.users - 1
            if held.users > 0:
                return
            if self._held is held:
                self._held = None
            held.owner.close()

    def close(self) -> None:
        """Releases the volume, whoever uses it."""
        held = self._held
        if held is not None:
            self.leave(held, is_broken=True)

    def _take(self, patience: float) -> nearflash.Owner:
        deadline = time.monotonic() + patience
        while True:
            try:
                return self._client.owner()
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(RETRY)


class Lease:
    """One use of an owner."""

    def __init__(self, bucket: Bucket, held: Held) -> None:
        self._bucket: Bucket | None = bucket
        self.held = held
        self._process = os.getpid()

    @property
    def owner(self) -> nearflash.Owner:
        return self.held.owner

    def note(self, error: BaseException) -> None:
        """Gives the owner up after an error of its connection: it does not write any more."""
        if isinstance(error, nearflash.Error) and self._bucket is not None:
            bucket, self._bucket = self._bucket, None
            bucket.leave(self.held, is_broken=True)

    def release(self) -> None:
        bucket, self._bucket = self._bucket, None
        # A forked process has no part in the ownership.
        if bucket is not None and self._process == os.getpid() and self.held.users > 0:
            bucket.leave(self.held)

    def __del__(self) -> None:
        self.release()


_buckets: "weakref.WeakValueDictionary[Any, Bucket]" = weakref.WeakValueDictionary()
_opening = threading.Lock()


def bucket(url: str, key: str | None, secret: str | None, given: dict[str, Any]) -> Bucket:
    """The files of the volume that `url` names, the same for all callers of this process."""
    wanted = (os.getpid(), url, key, secret, *sorted(given.items()))
    with _opening:
        found = _buckets.get(wanted)
        if found is None:
            found = Bucket(nearflash.connect(url, key, secret, **given))
            _buckets[wanted] = found
        return found


@atexit.register
def _release_all() -> None:
    for (process, *_), found in list(_buckets.items()):
        if process == os.getpid():
            found.close()


def _forget_lock() -> None:
    global _opening
    _opening = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)


class Named(NamedTuple):
    """A path in a volume of files."""

    path: str
    """The path of the file system."""
    volume: str
    """The path of the file system up to the volume."""
    bucket: Bucket
    name: str
    """The path in the volume, which begins with a slash."""

    @property
    def is_root(self) -> bool:
        return not self.name.strip("/")

    def info(self) -> dict[str, Any]:
        """The properties, as of now."""
        return described(self.path, self.bucket.files.stat(self.name))

    def entries(self) -> list[dict[str, Any]]:
        """The entries of a directory, or the file itself."""
        info = self.info()
        if info["type"] == "file":
            return [info]
        found: list[dict[str, Any]] = []
        after = None
        while True:
            part = self.bucket.files.list(self.name, after, ENTRIES_AT_A_TIME)
            found += [described(f"{self.path}/{name}", stat) for name, stat in part]
            if len(part) < ENTRIES_AT_A_TIME:
                return found
            after = part[-1][0]

    def open(self) -> "NamedPlace":
        """Opens the file for reading."""
        file = self.bucket.files.open(self.name)
        return NamedPlace(self.path, file, file.size)

    def makedirs(self, owner: nearflash.Owner, *, exist_ok: bool) -> None:
        """Creates the directory, and those in which it lies."""
        names = [name for name in self.name.split("/") if name]
        for count in range(1, len(names) + 1):
            name, is_last = "/" + "/".join(names[:count]), count == len(names)
            try:
                owner.mkdir(name)
            except FileExistsError:
                if is_last and not exist_ok:
                    raise
                # Another thread may have created it, and it is not durable yet.
                if is_last and not owner.stat(name).is_directory:
                    raise
            except PermissionError:
                # A grant on a directory allows to see those above it, and not to create them.
                if (is_last and not exist_ok) or not owner.stat(name).is_directory:
                    raise
        if not names and not exist_ok:
            raise FileExistsError(f"'{self.path}' exists already")


def described(path: str, stat: nearflash.Stat) -> dict[str, Any]:
    """The properties of a file or a directory, as fsspec has them."""
    return {
        "name": path,
        "type": "directory" if stat.is_directory else "file",
        "size": stat.size,
        "ino": stat.number,
        "created": moment(stat.created_ns),
        "mtime": moment(stat.modified_ns),
    }


def moment(nanoseconds: int) -> datetime.datetime:
    """A time since the start of 1970, to the microsecond."""
    start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return start + datetime.timedelta(microseconds=nanoseconds // 1000)


class NamedPlace(NamedTuple):
    """A file that was opened for reading by its name."""

    path: str
    file: nearflash.File
    length: int

    def read(self, start: int | None, end: int | None) -> bytes:
        """Reads the bytes from `start` to `end`; negative values count from the file's end."""
        first, last, _ = slice(start, end).indices(self.length)
        return self.file.read(first, max(last - first, 0))

    def readinto(self, start: int, buffer: "Buffer") -> int:
        """Fills `buffer` from `start` on."""
        return self.file.readinto(start, buffer)


class NamedFile(AbstractBufferedFile):  # type: ignore[misc] # fsspec has no types
    """A file that is written. It appears when it is closed, in place of one of the same name.

    It is discarded when the `with` block of the file ends with an exception, when it is closed
    while another exception is handled, and when it is not closed.
    """

    loc: int
    closed: bool

    def __init__(self, fs: Any, named: Named, mode: str, lease: Lease, **options: Any) -> None:
        self._handled = sys.exc_info()[1]
        self._lease: Lease | None = lease
        size = options.pop("size", None)
        try:
            self._upload = lease.owner.upload(named.name, replace=mode == "wb", size=size)
        except BaseException as error:
            self._lease = None
            lease.note(error)
            lease.release()
            raise
        super().__init__(fs, named.path, **{**options, "mode": mode})

    def write(self, data: "Buffer") -> int:
        """Appends `data`. Returns the number of bytes."""
        if self.closed:
            raise ValueError("the file is closed")
        try:
            written = self._upload.write(data)
        except BaseException as error:
            self._end(error)
            raise
        self.loc += written
        return written

    def flush(self, force: bool = False) -> None:
        """Does nothing: the bytes are durable when the file is closed."""
        if self.closed:
            raise ValueError("the file is closed")

    def close(self) -> None:
        """Makes the file appear. In a transaction, this waits for its end."""
        if self.closed:
            return
        handled = sys.exc_info()[1]
        self.closed = True
        if handled is not None and handled is not self._handled:
            self.discard()
            warnings.warn(
                f"'{self.path}' was not written: it was closed while {type(handled).__name__} was "
                "handled",
                RuntimeWarning,
                stacklevel=2,
            )
        elif self.autocommit:
            self.commit()

    def commit(self) -> None:
        """Makes the file appear."""
        self.closed = True
        if self._lease is None:
            raise ValueError(f"'{self.path}' was discarded after an error")
        try:
            self._upload.commit()
        except BaseException as error:
            self._end(error)
            raise
        self._end(None)

    def discard(self) -> None:
        """Discards the bytes."""
        self._end(None)

    def _end(self, error: BaseException | None) -> None:
        lease, self._lease = self._lease, None
        if lease is None:
            return
        if error is not None:
            lease.note(error)
        try:
            self._upload.discard()
        finally:
            lease.release()

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is not None and not self.closed:
            self.closed = True
            self.discard()
        self.close()

    def __del__(self) -> None:
        # A forked process cannot discard its parent's file.
        with contextlib.suppress(Exception):
            self.closed = True
            self.discard()
