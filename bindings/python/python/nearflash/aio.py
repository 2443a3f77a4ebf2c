"""Volumes for asyncio: many operations in flight over one connection, on the event loop's thread.

    import asyncio
    from nearflash import aio

    async def main():
        async with await aio.open("direct://127.0.0.1:4421/data") as volume:
            await volume.write(0, b"flash")
            head, tail = await asyncio.gather(volume.read(0, 2), volume.read(2, 3))

Operations that tasks start in one pass of the loop are sent together. Cancelling a task is safe at
any point: its operation may still take effect at the node, but accesses no memory of the program
after that.

A volume belongs to the loop that it was opened in. A lost connection is re-established, and reads
are then repeated; an operation that may have changed the volume is not, and raises
`OutcomeUnknown`.
"""

import asyncio
import functools
import warnings
from collections.abc import Awaitable, Callable, Iterator
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

import nearflash
from nearflash._driver import Driver, Post
from nearflash._nearflash import _bytes_of
from nearflash.errors import ConnectionLost

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Client", "Volume", "connect", "open"]

PIECE_LENGTH = 1 << 20
"""The longest piece in bytes; longer reads and writes are split at its multiples."""
PIECES_IN_FLIGHT = 8
"""The maximum number of pieces of one read or write in flight."""
REPEATS_MAX = 8
"""The maximum number of repetitions of a read over new connections."""


async def connect(
    url: str,
    key: str | None = None,
    secret: str | None = None,
    *,
    secret_file: str | PathLike[str] | None = None,
    silence_max: float | None = None,
    reconnect_max: float | None = None,
) -> "Client":
    """Connects to a node and authenticates.

    `url`, `key`, `secret`, `secret_file`, and `silence_max` and `reconnect_max` in seconds, are
    those of `nearflash.connect`.
    """
    client = await asyncio.to_thread(
        nearflash.connect,
        url,
        key,
        secret,
        secret_file=secret_file,
        silence_max=silence_max,
        reconnect_max=reconnect_max,
    )
    return Client(client)


async def open(
    url: str,
    key: str | None = None,
    secret: str | None = None,
    *,
    secret_file: str | PathLike[str] | None = None,
    depth: int | None = None,
    silence_max: float | None = None,
    reconnect_max: float | None = None,
) -> "Volume":
    """Opens the volume that `url` names.

    `depth` is the maximum number of operations in flight (128). `key`, `secret`, `secret_file`, and
    `silence_max` and `reconnect_max` in seconds, are those of `nearflash.connect`.
    """
    client = await connect(
        url,
        key,
        secret,
        secret_file=secret_file,
        silence_max=silence_max,
        reconnect_max=reconnect_max,
    )
    return await client.open(depth=depth)


class Client:
    """A node that the program has connected and authenticated to."""

    def __init__(self, client: nearflash.Client) -> None:
        self._client = client

    @property
    def volume_name(self) -> str | None:
        """The volume that the URL names, or None."""
        return self._client.volume_name

    async def open(self, name: str | None = None, *, depth: int | None = None) -> "Volume":
        """Opens the volume `name`; without a name, the volume that the URL names. At most `depth`
        operations (128) are in flight; further ones wait."""
        # Without shared memory, since the loop waits for the socket only.
        pair = await asyncio.to_thread(self._client.queue_pair, name, depth=depth, shared_length=0)
        return Volume(pair)


class Volume:
    """A volume for the tasks of one event loop."""

    def __init__(self, pair: nearflash.QueuePair) -> None:
        self._driver = Driver(pair)

    @property
    def name(self) -> str:
        """The volume's name."""
        return self._driver.pair.name

    @property
    def size(self) -> int:
        """The volume's size in bytes, as of the last answer."""
        return self._driver.pair.size

    @property
    def block_size(self) -> int:
        """The size of a logical block in bytes; a write is atomic for each block."""
        return self._driver.pair.block_size

    @property
    def uuid(self) -> UUID:
        """The volume's UUID, which another volume of the same name does not have."""
        return self._driver.pair.uuid

    @property
    def replaced_connections(self) -> int:
        """The number of connections that were lost and replaced since the volume was opened. If it
        is the same before the first write and after a flush, the flush covers all writes between
        them. Otherwise the node's machine may have lost writes together with the connection."""
        return self._driver.replaced_connections

    async def read(self, offset: int, length: int) -> bytes:
        """Reads the `length` bytes at `offset`, both of any alignment."""
        if 0 < length <= PIECE_LENGTH:
            piece: bytes = await self._repeat(lambda pair: pair.post_read(offset, length))
            return piece
        return bytes(await self._read_long(offset, length))

    async def read_view(self, offset: int, length: int) -> memoryview:
        """Reads the `length` bytes at `offset`, both of any alignment, into memory of their own.
        Returns a read-only view of it, for `numpy.frombuffer` and the like, without a copy."""
        if 0 < length <= PIECE_LENGTH:
            view: memoryview = await self._repeat(lambda pair: pair.post_read_view(offset, length))
            return view
        return memoryview(await self._read_long(offset, length)).toreadonly()

    async def readinto(self, offset: int, buffer: "Buffer") -> int:
        """Reads from `offset` on, until `buffer` is full: any writable object with a C-contiguous
        buffer. Returns the number of bytes. The buffer is not accessed after a cancellation."""

        def read(at: int, place: memoryview) -> Awaitable[Any]:
            return self._repeat(lambda pair: pair.post_readinto(at, place))

        return await _in_pieces(offset, _bytes_of(buffer, True), read)

    async def write(self, offset: int, data: "Buffer") -> int:
        """Writes `data`, any object with a C-contiguous buffer, at `offset`. Returns the number of
        bytes. The write is atomic for each logical block, and durable after `flush`. If it raises
        or is cancelled, some of the bytes may have been written."""

        def write(at: int, piece: memoryview) -> Awaitable[Any]:
            return self._driver.operate(lambda pair: pair.post_write(at, piece))

        return await _in_pieces(offset, _bytes_of(data, False), write)

    async def write_zeroes(self, offset: int, length: int) -> None:
        """Writes `length` zeroes at `offset`, as `write` does. The zeroes are sent."""
        zeroes = memoryview(bytes(min(length, PIECE_LENGTH)))

        async def write(start: int, end: int) -> None:
            piece = zeroes[: end - start]
            await self._driver.operate(lambda pair: pair.post_write(offset + start, piece))

        await _share_out(offset, length, write)

    async def flush(self) -> None:
        """Makes every operation that was awaited before durable on stable media."""
        await self._driver.operate(lambda pair: pair.post_flush())

    async def discard(self, offset: int, length: int) -> None:
        """Deallocates the `length` bytes at `offset`, whose contents are no longer needed; the
        device releases whole blocks of them. They read as before or as zeroes."""
        step = self._driver.pair.length_max
        for start in range(offset, offset + length, step):
            part = min(step, offset + length - start)
            await self._driver.operate(functools.partial(_post_discard, start, part))

    async def compare_and_swap(self, offset: int, expected: int, new: int) -> int:
        """Replaces the little-endian 8-byte word at `offset`, a multiple of 8, by `new` if it
        equals `expected`. Returns the previous word, which is `expected` if it was replaced."""
        word: int = await self._driver.operate(
            lambda pair: pair.post_compare_and_swap(offset, expected, new)
        )
        return word

    async def fetch_add(self, offset: int, addend: int) -> int:
        """Adds `addend`, which may be negative, to the little-endian 8-byte word at `offset`, a
        multiple of 8, modulo 2**64. Returns the previous word."""
        word: int = await self._driver.operate(lambda pair: pair.post_fetch_add(offset, addend))
        return word

    async def close(self) -> None:
        """Accepts no more operations, waits for those in flight, and closes the connection."""
        await self._driver.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        if not self._driver.is_closed:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=2)

    def __repr__(self) -> str:
        return f"<nearflash.aio.Volume '{self.name}'>"

    async def _read_long(self, offset: int, length: int) -> bytearray:
        # Checks the end of the range before it allocates memory.
        if offset + length > self.size:
            await self.read(offset + length - 1, 1)
        target = bytearray(length)
        await self.readinto(offset, target)
        return target

    async def _repeat(self, post: Post) -> Any:
        """Executes a read, and repeats it after a lost connection."""
        for _ in range(REPEATS_MAX):
            try:
                return await self._driver.operate(post)
            except ConnectionLost:
                continue
        return await self._driver.operate(post)


def _post_discard(offset: int, length: int, pair: nearflash.QueuePair) -> int:
    return pair.post_discard(offset, length)


async def _in_pieces(
    offset: int, buffer: memoryview, operate: Callable[[int, memoryview], Awaitable[Any]]
) -> int:
    """Operates on pieces of a buffer, some at a time. Returns the number of bytes. The buffer is
    not used after the end of this call, even if it raises."""
    with buffer as place:

        async def operate_on(start: int, end: int) -> None:
            with place[start:end] as piece:
                await operate(offset + start, piece)

        await _share_out(offset, len(place), operate_on)
        return len(place)


async def _share_out(
    offset: int, length: int, operate: Callable[[int, int], Awaitable[None]]
) -> None:
    """Operates on the pieces of a range, from a start to an end within it, some at a time."""
    if length <= PIECE_LENGTH:
        if length > 0:
            await operate(0, length)
        return
    pieces = _pieces(offset, length)

    async def work() -> None:
        for start, end in pieces:
            await operate(start, end)

    workers = [asyncio.ensure_future(work()) for _ in range(PIECES_IN_FLIGHT)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.wait(workers)


def _pieces(offset: int, length: int) -> Iterator[tuple[int, int]]:
    start = 0
    while start < length:
        end = min(start + PIECE_LENGTH - (offset + start) % PIECE_LENGTH, length)
        yield start, end
        start = end
