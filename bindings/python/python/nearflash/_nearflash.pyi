"""The Rust part of the package.

Offsets, lengths and sizes are in bytes, and times in seconds. Every call takes an offset first and
then the length, the data or the buffer.
"""

from collections.abc import Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Self, final
from uuid import UUID

from typing_extensions import Buffer

from nearflash.errors import Error

__all__ = [
    "Client",
    "File",
    "Files",
    "Owner",
    "QueuePair",
    "Stat",
    "Upload",
    "Volume",
    "__version__",
    "_bytes_of",
    "_codes",
    "connect",
]

__version__: str
"""The version of the package."""

def connect(
    url: str,
    key: str | None = None,
    secret: str | None = None,
    *,
    secret_file: str | PathLike[str] | None = None,
    silence_max: float | None = None,
    reconnect_max: float | None = None,
    spin_max: float | None = None,
) -> Client:
    """Connects to a node and authenticates.

    `url` is `direct://HOST:PORT[/VOLUME]`, or `direct+local:PATH.sock[/VOLUME]` for a node on this
    machine, optionally followed by `?digest=header,data`, `key=ID` and `secret-file=PATH`. `key`
    and `secret`, as printed by `nearflash credential create`, take precedence over those of the
    URL. `secret_file`, the path of a file that holds the secret, replaces `secret`; this
    call reads it.

    The time-outs are in seconds: `silence_max` is the longest silence of a node that owes an answer
    (10), `reconnect_max` the time for which reconnecting is tried (30), and `spin_max` the time for
    which a blocking call spins before it sleeps (0.0001).
    """

@final
class Client:
    """A node that the program has connected and authenticated to. It holds no connection: volumes
    and queue pairs have their own, and outlive it."""

    @property
    def volume_name(self) -> str | None:
        """The volume that the URL names, or None."""

    def open(self, name: str | None = None) -> Volume:
        """Opens the volume `name` for blocking calls from any number of threads; without a name,
        the volume that the URL names."""

    def open_sealed(self, seal: bytes) -> Volume:
        """Opens the object of `seal`, the bytes that its owner hands over, for blocking calls from
        any number of threads. Offsets are the object's, and the client needs no grant."""

    def queue_pair(
        self,
        name: str | None = None,
        *,
        depth: int | None = None,
        shared_length: int | None = None,
    ) -> QueuePair:
        """Opens the volume `name` for many operations in flight from one thread; without a name,
        the volume that the URL names.

        `depth` is the maximum number of operations in flight (128). `shared_length` is the memory
        in bytes that is shared with a node on this machine (16 MiB); with 0, the socket carries the
        payload.
        """

    def files(self, name: str | None = None) -> Files:
        """Opens the files of the volume `name`, which is formatted for files, for reading; without
        a name, those of the volume that the URL names."""

    def owner(self, name: str | None = None, *, take_over: bool = False) -> Owner:
        """Changes the files of the volume `name`, which is formatted for files; without a name, of
        the volume that the URL names.

        If the node owns the files, any number of processes change them at the same time. Otherwise,
        this process takes the volume: it raises `BlockingIOError` if another process has it. With
        `take_over`, that process loses it.
        """

@final
class Volume:
    """A volume for blocking calls from any number of threads: concurrent calls have separate
    connections.

    A lost connection is re-established. Reads are then repeated; an operation that may have changed
    the volume is not, and raises `OutcomeUnknown`. Closing does not flush.
    """

    @property
    def name(self) -> str:
        """The volume's name."""

    @property
    def size(self) -> int:
        """The volume's size in bytes, as of the last answer."""

    @property
    def block_size(self) -> int:
        """The size of a logical block in bytes; a write is atomic for each block."""

    @property
    def uuid(self) -> UUID:
        """The volume's UUID, which another volume of the same name does not have."""

    @property
    def is_readable(self) -> bool:
        """Whether some of the volume may be read."""

    @property
    def is_writable(self) -> bool:
        """Whether some of the volume may be written."""

    @property
    def replaced_connections(self) -> int:
        """The number of connections that were lost and replaced since the volume was opened.

        If it is the same before the first write and after a flush, the flush covers all writes
        between them. Otherwise the node's machine may have lost writes together with the
        connection.
        """

    @property
    def closed(self) -> bool:
        """Whether the volume is closed."""

    def with_timeout(self, timeout: float) -> Volume:
        """The same volume, whose calls end after `timeout` seconds at the latest.

        A call that ends so raises `OutcomeUnknown` if it may have changed the volume, and otherwise
        `ConnectionLost`. Its connection is given up: the next call first waits until nothing of it
        is under way any more. Both volumes share their connections, which close with the last of
        the two.
        """

    def read(self, offset: int, length: int) -> bytes:
        """Reads `length` bytes at `offset`, both in bytes and of any alignment."""

    def readinto(self, offset: int, buffer: Buffer) -> int:
        """Reads from the byte `offset` on, until `buffer` is full. Returns the number of bytes.

        `buffer` is any writable object with a C-contiguous buffer, such as a bytearray, a
        memoryview or a NumPy array.
        """

    def readv(self, offset: int, buffers: Sequence[Buffer]) -> int:
        """Fills the `buffers` from the byte `offset` on, one after the other, as `readinto` does.
        They must not overlap. Returns the number of bytes."""

    def write(self, offset: int, data: Buffer) -> int:
        """Writes `data`, any object with a C-contiguous buffer, at the byte `offset`. Returns the
        number of bytes.

        The write is atomic for each logical block, and durable after `flush`. If it raises, some of
        the bytes may have been written.
        """

    def writev(self, offset: int, buffers: Sequence[Buffer]) -> int:
        """Writes the `buffers` at the byte `offset`, one after the other, as `write` does. A block
        is written at once, also if several buffers have parts of it. Returns the number of bytes.
        """

    def write_zeroes(self, offset: int, length: int) -> None:
        """Writes `length` zeroes at the byte `offset`, as `write` does. The node zeroes whole
        blocks, for which no zeroes are sent."""

    def flush(self) -> None:
        """Makes every operation whose call has returned durable on stable media."""

    def discard(self, offset: int, length: int) -> None:
        """Deallocates `length` bytes at the byte `offset`, whose contents are no longer needed; the
        device releases whole blocks of them. They read as before or as zeroes."""

    def compare_and_swap(self, offset: int, expected: int, new: int) -> int:
        """Replaces the little-endian 8-byte word at the byte `offset`, a multiple of 8, by `new` if
        it equals `expected`. Returns the previous word, which is `expected` if it was replaced."""

    def fetch_add(self, offset: int, addend: int) -> int:
        """Adds `addend`, which may be negative, to the little-endian 8-byte word at the byte
        `offset`, a multiple of 8, modulo 2**64. Returns the previous word."""

    def close(self) -> None:
        """Closes the connections once the calls of other threads have returned. Data that was
        written but not flushed may not be durable."""

    def __enter__(self) -> Self:
        """Returns the volume itself."""

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes the volume, whether `type`, `value` and `traceback` report an exception or not."""

@final
class QueuePair:
    """A volume for many operations in flight, from one thread at a time.

    Each `post_…` method returns a token at once; `poll` returns the completed operations in any
    order, as pairs of a token and a result. The result is that of the `Volume` method of the same
    name, or an `Error`, which is returned and not raised.

    When the connection is lost, every operation in flight ends with `ConnectionLost`, or with
    `OutcomeUnknown` if it may have changed the volume; `reconnect` makes the queue pair usable
    again.
    """

    @property
    def name(self) -> str:
        """The volume's name."""

    @property
    def size(self) -> int:
        """The volume's size in bytes, as of the last answer."""

    @property
    def block_size(self) -> int:
        """The size of a logical block in bytes; a write is atomic for each block."""

    @property
    def uuid(self) -> UUID:
        """The volume's UUID, which another volume of the same name does not have."""

    @property
    def depth(self) -> int:
        """The maximum number of operations in flight."""

    @property
    def in_flight(self) -> int:
        """The number of operations in flight: posted, and not yet polled."""

    @property
    def length_max(self) -> int:
        """The length in bytes of the longest operation."""

    @property
    def is_lost(self) -> bool:
        """Whether the connection is lost, so that `reconnect` is needed."""

    def post_read(self, offset: int, length: int) -> int:
        """Reads `length` bytes at the byte `offset`. The result is `bytes`."""

    def post_read_view(self, offset: int, length: int) -> int:
        """Reads `length` bytes at the byte `offset`. The result is a read-only `memoryview` of the
        memory that received them, without a copy.

        With a node on this machine, this memory is a part of the shared memory. It stays in use
        until the last view of it is gone; posts raise `NoMemory` when no shared memory is left. A
        forked process must not use its parent's views.
        """

    def post_readinto(self, offset: int, buffer: Buffer) -> int:
        """Reads from the byte `offset` on, and fills `buffer` only when the completion is polled.
        The result is the number of bytes.

        `buffer` is any writable object with a C-contiguous buffer, such as a NumPy array. It is
        held until the completion is polled, or until `abandon`.
        """

    def post_write(self, offset: int, data: Buffer, *, durable: bool = False) -> int:
        """Writes a copy of `data`, any object with a C-contiguous buffer, at the byte `offset`. The
        result is the number of bytes. With `durable`, it completes when the data is on stable
        media."""

    def post_flush(self) -> int:
        """Makes every operation that completed before this post durable on stable media. It
        completes with None."""

    def post_discard(self, offset: int, length: int) -> int:
        """Deallocates `length` bytes at the byte `offset`, as `Volume.discard`. It completes with
        None."""

    def post_compare_and_swap(self, offset: int, expected: int, new: int) -> int:
        """Replaces the word at the byte `offset` by `new` if it equals `expected`, as
        `Volume.compare_and_swap`. The result is the previous word."""

    def post_fetch_add(self, offset: int, addend: int) -> int:
        """Adds `addend` to the word at the byte `offset`, as `Volume.fetch_add`. The result is the
        previous word."""

    def submit(self) -> None:
        """Sends the posted operations. A post sends itself when no other operation is in flight and
        the last poll returned at most one completion; `poll` sends, too, so that many posts between
        two polls are sent together."""

    def poll(self) -> list[tuple[int, bytes | memoryview | int | Error | None]]:
        """Sends the posted operations, and returns the completed ones: pairs of a token and a
        result. Never waits."""

    def wait(self, timeout: float | None = None) -> bool:
        """Sends the posted operations, and sleeps until there may be a completion, at most
        `timeout` seconds; with None, without a limit. Returns whether there may be one. Other
        threads run meanwhile, but must not use the queue pair."""

    def fileno(self) -> int:
        """The file descriptor of the socket, for event loops: it is readable when there may be
        completions. It is for a queue pair without shared memory, and `reconnect` replaces it."""

    @property
    def has_unsent(self) -> bool:
        """Whether the socket has not accepted all data yet. If so, poll also when the socket is
        writable."""

    @property
    def patience_left(self) -> float | None:
        """The time in seconds until the next poll is due, so that a silent node is detected; None
        when no operation is in flight."""

    def abandon(self, token: int) -> bool:
        """Abandons the operation `token`. It continues, but accesses no Python memory, and `poll`
        does not return its result. Returns whether it was in flight."""

    def reconnect(self) -> None:
        """Connects again after the connection was lost, with increasing delays, for up to the
        `reconnect_max` of `connect`. The next `poll` completes the operations that were in flight,
        as lost."""

    def close(self) -> None:
        """Closes the connection. Whether writes in flight take effect is unknown."""

    def __enter__(self) -> Self:
        """Returns the queue pair itself."""

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes the connection, whether `type`, `value` and `traceback` report an exception or
        not."""

@final
class Files:
    """The files of a volume, for reading from any number of threads. If the node owns the files,
    every call sees its last changes. Otherwise, it sees those that were durable when it began, also
    those of other processes."""

    @property
    def name(self) -> str:
        """The volume's name."""

    def stat(self, path: str | PathLike[str]) -> Stat:
        """The properties of the file or directory `path`."""

    def list(
        self, path: str | PathLike[str], after: str | None = None, count_max: int = 1000
    ) -> list[tuple[str, Stat]]:
        """At most `count_max` entries of the directory `path`, in the order of their names' bytes,
        from the first behind the name `after` on: pairs of a name and its properties, all as of one
        moment, or each as of its own if the node owns the files."""

    def open(self, path: str | PathLike[str]) -> File:
        """Opens the file `path` for reading."""

    def close(self) -> None:
        """Closes the connections once the calls of other threads have returned and no file is used
        any more."""

    def __enter__(self) -> Self:
        """Returns the object itself."""

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes the object, whether `type`, `value` and `traceback` report an exception or not."""

@final
class File:
    """A file that was opened for reading, from any number of threads.

    After the file was removed, replaced or changed, every read raises an `OSError` with
    `errno.ESTALE`. If the node owns the files, it keeps the file, and only reads of bytes that were
    cut off do so.
    """

    @property
    def size(self) -> int:
        """The length in bytes."""

    def stat(self) -> Stat:
        """The properties when the file was opened."""

    def read(self, offset: int, length: int) -> bytes:
        """Reads the `length` bytes at the byte `offset`."""

    def readinto(self, offset: int, buffer: Buffer) -> int:
        """Reads from the byte `offset` on, until `buffer` is full. Returns the number of bytes. If
        it raises, the buffer's contents are not valid."""

@final
class Stat:
    """The properties of a file or a directory."""

    @property
    def number(self) -> int:
        """The number of the inode, which no other file of the volume ever has."""

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory."""

    @property
    def size(self) -> int:
        """The length of a file in bytes; 0 for a directory."""

    @property
    def created_ns(self) -> int:
        """The time of creation, in nanoseconds since the start of 1970."""

    @property
    def modified_ns(self) -> int:
        """The time of the last change of the contents, in nanoseconds since the start of 1970."""

    @property
    def runs(self) -> list[tuple[int, int]]:
        """The offset in the volume and the length in bytes of each run of blocks, in order."""

@final
class Owner:
    """Changes the files of a volume, until `close`. If the node owns them, it makes the changes,
    also those of other processes at the same time. Otherwise, the volume is this process's. Threads
    may share it. Every change is durable when its call returns."""

    @property
    def name(self) -> str:
        """The volume's name."""

    @property
    def free(self) -> int:
        """The length in bytes of the space that files can still use."""

    def stat(self, path: str | PathLike[str]) -> Stat:
        """The properties of the file or directory `path`."""

    def upload(
        self,
        path: str | PathLike[str],
        *,
        replace: bool = False,
        size: int | None = None,
    ) -> Upload:
        """Begins the file `path`, whose bytes `Upload.write` appends. It appears with
        `Upload.commit`; with `replace`, in place of a file of that name. If its `size` is known, it
        gets exactly the space that it needs."""

    def put(
        self,
        path: str | PathLike[str],
        source: Any,
        *,
        replace: bool = False,
        size: int | None = None,
    ) -> Stat:
        """Creates the file `path` with the bytes of `source`: any object with a C-contiguous
        buffer, or with a method `read`, whose `size` may be given. With `replace`, it takes the
        place of a file of that name. Returns its properties."""

    def mkdir(self, path: str | PathLike[str]) -> None:
        """Creates the empty directory `path`."""

    def remove(self, path: str | PathLike[str]) -> None:
        """Removes `path`, a file or an empty directory."""

    def rename(
        self,
        source: str | PathLike[str],
        target: str | PathLike[str],
        *,
        replace: bool = False,
    ) -> None:
        """Renames `source`, a file or a directory, to `target`. With `replace`, a file or an empty
        directory of the same kind is replaced."""

    def close(self) -> None:
        """Releases the volume once the calls of other threads have returned. Files that were not
        committed are discarded."""

    def __enter__(self) -> Self:
        """Returns the object itself."""

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes the object, whether `type`, `value` and `traceback` report an exception or not."""

@final
class Upload:
    """A file that is not part of its volume before `commit`. Nobody else sees any of it."""

    def write(self, data: Buffer) -> int:
        """Appends `data`, any object with a C-contiguous buffer. Returns the number of bytes. After
        an error, the file is discarded."""

    def commit(self) -> Stat:
        """Makes the file part of the volume, durably. Returns its properties."""

    def discard(self) -> None:
        """Gives the space back. A file that was committed or discarded stays as it is."""

def _bytes_of(object: Buffer, is_written: bool) -> memoryview:
    """A view of the bytes of `object`, any object with a C-contiguous buffer of any item type. With
    `is_written`, the buffer must be writable."""

def _codes() -> list[tuple[str, str]]:
    """The name and the sentence of every error code of the protocol."""
