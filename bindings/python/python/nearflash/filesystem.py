"""Volumes as files of fsspec, so that pandas, pyarrow, Dask and DuckDB read and write them.

A file is a range of a volume, which its name gives:

    nearflash://HOST:PORT/VOLUME                    the whole volume
    nearflash://HOST:PORT/VOLUME/OFFSET             from this offset to the volume's end
    nearflash://HOST:PORT/VOLUME/OFFSET+LENGTH      this number of bytes from this offset

With `/PATH.sock` in place of `HOST:PORT`, a node on this machine is accessed over shared memory. A
volume stores no file lengths: a reader must give the length of the written data, which `tell`
returns at its end. Once a written file is closed, its data is on stable media.

    with fsspec.open("nearflash://127.0.0.1:4421/data/0", "wb") as file:
        table.to_parquet(file)
        length = file.tell()
    pandas.read_parquet(f"nearflash://127.0.0.1:4421/data/0+{length}")

The file system is asynchronous: with the option `asynchronous`, its coroutines (`_cat_file`,
`_cat_ranges`, `_pipe_file`, …) and `open_async` run in any event loop. They make blocking calls on
threads, which belong to no loop, share memory with a node on this machine, and copy while other
Python code runs. A task that is cancelled does not wait for its call, which may still take effect.

    files = fsspec.filesystem("nearflash", asynchronous=True)
    head, tail = await files._cat_ranges([path, path], [0, -8], [8, None])

Storage options are `key`, `secret`, `secret_file`, `silence_max`, `reconnect_max` and `spin_max` as
in `nearflash.connect`, and `digest`: "header", "data" or "header,data", the CRC32C digests that
protect the connection.

A file system that is sent to another process, as Dask does, takes its storage options along. With
`secret_file`, these hold no secret: each process reads the file when it connects.

    options = {"key": "app", "secret_file": "/etc/nearflash/app.secret"}
    pandas.read_parquet(url, storage_options=options)
"""

import asyncio
import datetime
import functools
import os
import re
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from fsspec.asyn import AbstractAsyncStreamedFile, AsyncFileSystem, get_loop
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.spec import AbstractBufferedFile

import nearflash

if TYPE_CHECKING:
    from typing_extensions import Buffer

READ_AHEAD = 1 << 20
"""The number of bytes that a file reads ahead, and collects before it writes them."""

LONG_READ = 256 << 10
"""The length of reads that have no read-ahead, which would copy their bytes once more. Reads far
from the previous one have none either: the bytes behind them may not be needed."""

LINE_READ = 64 << 10
"""The number of bytes that are searched for the end of a line at a time."""

RANGES_IN_FLIGHT = 16
"""The maximum number of calls of a file system's coroutines that run at the same time. Each uses a
connection of its own."""

COPIED_AT_A_TIME = 8 << 20
"""The number of bytes that are copied at a time between files of the file system and local ones."""

VOLUMES_MAX = 64
"""The maximum number of volumes that a file system keeps open. The least recently used one is
closed as soon as no file uses it."""

_PATH = re.compile(
    r"(?P<node>/.+\.sock|[^/]+)/(?P<volume>[^/+]+)"
    r"(?:/(?P<offset>[0-9]+)(?:\+(?P<length>[0-9]+))?)?"
)


class Range(NamedTuple):
    """A range of a volume."""

    node: str
    """`HOST:PORT`, or the path of a Unix socket."""
    volume: str
    offset: int
    length: int | None
    """None for a range up to the volume's end."""

    @classmethod
    def parse(cls, path: str) -> "Range":
        """Parses `path`, a path of the file system, which is without `nearflash://`."""
        found = _PATH.fullmatch(path)
        if not found:
            raise nearflash.InvalidUrl(
                f"'{path}' is not a range of a volume: "
                "write nearflash://HOST:PORT/VOLUME or nearflash://HOST:PORT/VOLUME/OFFSET+LENGTH"
            )
        length = found["length"]
        return cls(
            node=found["node"],
            volume=found["volume"],
            offset=int(found["offset"] or 0),
            length=None if length is None else int(length),
        )

    @property
    def url(self) -> str:
        """The URL of the volume."""
        scheme = "direct+local:" if self.node.startswith("/") else "direct://"
        return f"{scheme}{self.node}/{self.volume}"


class Place(NamedTuple):
    """The place of a file: a range of an open volume."""

    path: str
    volume: nearflash.Volume
    offset: int
    length: int

    def read(self, start: int | None, end: int | None) -> bytes:
        """Reads the bytes from `start` to `end`; negative values count from the file's end."""
        first, last, _ = slice(start, end).indices(self.length)
        return self.volume.read(self.offset + first, max(last - first, 0))

    def write(self, start: int, data: "Buffer") -> int:
        """Writes `data` from `start` on. Returns the number of bytes."""
        self.check_room(start, data)
        return self.volume.write(self.offset + start, data)

    def check_room(self, start: int, data: "Buffer") -> None:
        """Checks that there is room for `data` from `start` on."""
        if start + memoryview(data).nbytes > self.length:
            raise nearflash.OutOfRange(f"'{self.path}' has room for {self.length} bytes")


class VolumeFileSystem(AsyncFileSystem):  # type: ignore[misc] # fsspec has no types
    """Ranges of volumes as files.

    `key`, `secret`, `secret_file`, `silence_max`, `reconnect_max` and `spin_max` are those of
    `nearflash.connect`. `digest` names the digests of the connection: "header", "data" or
    "header,data". The other options are those of `fsspec.asyn.AsyncFileSystem`.
    """

    protocol = "nearflash"
    root_marker = ""
    _pid: int
    _loop: asyncio.AbstractEventLoop | None

    def __init__(
        self,
        key: str | None = None,
        secret: str | None = None,
        *,
        digest: str | None = None,
        **options: Any,
    ) -> None:
        if digest is not None and not {*digest.split(",")} <= {"header", "data"}:
            raise ValueError(f"digest: '{digest}' is not header, data or header,data")
        names = ("secret_file", "silence_max", "reconnect_max", "spin_max")
        given = {name: options.pop(name) for name in names if name in options}
        super().__init__(**options)
        query = "" if digest is None else f"?digest={digest}"

        # A forked process uses neither its parent's connections nor its threads: hence the process
        # id. Not the contents of `secret_file`, which are read at each connect.
        @functools.lru_cache(VOLUMES_MAX)
        def volume(_process: int, url: str) -> nearflash.Volume:
            return nearflash.open(url + query, key, secret, **given)

        @functools.lru_cache(1)
        def threads(_process: int) -> ThreadPoolExecutor:
            return ThreadPoolExecutor(RANGES_IN_FLIGHT, "nearflash")

        self._volume, self._threads = volume, threads

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of the synchronous methods. A forked process has its own."""
        if self._pid != os.getpid():
            self._pid, self._loop = os.getpid(), None if self.asynchronous else get_loop()
        return self._loop

    async def _run(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Runs a call that may wait, on a thread."""
        threads = self._threads(os.getpid())
        return await asyncio.get_running_loop().run_in_executor(threads, call, *arguments)

    def place(self, path: str) -> Place:
        """The place of the file `path`. Its volume is opened once for all of its files."""
        path = self._strip_protocol(path)
        wanted = Range.parse(path)
        volume = self._volume(os.getpid(), wanted.url)
        left = volume.size - wanted.offset
        length = left if wanted.length is None else wanted.length
        if length > left or left < 0:
            raise nearflash.OutOfRange(f"'{path}' ends past the {volume.size} bytes of the volume")
        return Place(path, volume, wanted.offset, length)

    async def _info(self, path: str, **_options: Any) -> dict[str, Any]:
        """The name, size in bytes, volume, and offset in bytes of the file `path`."""
        place = await self._run(self.place, path)
        return {
            "name": place.path,
            "type": "file",
            "size": place.length,
            "volume": place.volume.name,
            "offset": place.offset,
        }

    async def _exists(self, path: str, **_options: Any) -> bool:
        """Whether `path` names a range of a volume that can be opened."""
        return bool(await self._isfile(path))

    async def _ls(self, path: str, detail: bool = True, **_options: Any) -> list[Any]:
        """The file `path` itself, since nodes do not list their volumes to clients: as `info` with
        `detail`, otherwise by name."""
        info = await self._info(path)
        return [info if detail else info["name"]]

    def modified(self, path: str) -> datetime.datetime:
        """The current time, for every `path`: a volume stores no times, and may have changed up to
        now. A cache that compares times therefore reads from the node again."""
        self.place(path)
        return datetime.datetime.now(datetime.UTC)

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_options: Any
    ) -> bytes:
        """Reads the bytes of the file `path` from `start` to `end`; negative values count from its
        end."""
        data: bytes = await self._run(lambda: self.place(path).read(start, end))
        return data

    async def _cat_ranges(
        self,
        paths: list[str],
        starts: int | Iterable[int | None] | None,
        ends: int | Iterable[int | None] | None,
        max_gap: int | None = None,
        on_error: str = "return",
        **_options: Any,
    ) -> list[Any]:
        """Reads many ranges at the same time: of each file of `paths`, the bytes from its place in
        `starts` to that in `ends`, or from and to one number for all of them.

        With `on_error` "return", an exception takes the place of its range's bytes; otherwise the
        first one is raised. `max_gap` has no effect: each range is read on its own.
        """
        firsts, lasts = (
            list(given) if isinstance(given, Iterable) else [given] * len(paths)
            for given in (starts, ends)
        )
        if not len(paths) == len(firsts) == len(lasts):
            raise ValueError("paths, starts and ends are not equally many")
        reads = map(self._cat_file, paths, firsts, lasts)
        return await asyncio.gather(*reads, return_exceptions=on_error == "return")

    async def _pipe_file(self, path: str, value: "Buffer", **_options: Any) -> None:
        """Writes `value` as the file `path`, durably."""

        def pipe() -> None:
            place = self.place(path)
            place.write(0, value)
            place.volume.flush()

        await self._run(pipe)

    async def _get_file(
        self, rpath: str, lpath: str, callback: Any = DEFAULT_CALLBACK, **_options: Any
    ) -> None:
        """Copies the file `rpath` to the local file `lpath`, and tells `callback`."""

        def get() -> None:
            place = self.place(rpath)
            callback.set_size(place.length)
            with open(lpath, "wb") as target:
                for start in range(0, place.length, COPIED_AT_A_TIME):
                    data = place.read(start, start + COPIED_AT_A_TIME)
                    callback.relative_update(target.write(data))

        await self._run(get)

    async def _put_file(
        self, lpath: str, rpath: str, callback: Any = DEFAULT_CALLBACK, **_options: Any
    ) -> None:
        """Copies the local file `lpath` to the file `rpath`, durably, and tells `callback`."""

        def put() -> None:
            place = self.place(rpath)
            with open(lpath, "rb") as source:
                callback.set_size(os.fstat(source.fileno()).st_size)
                start = 0
                while data := source.read(COPIED_AT_A_TIME):
                    start += place.write(start, data)
                    callback.relative_update(len(data))
            place.volume.flush()

        await self._run(put)

    def _open(self, path: str, mode: str = "rb", **options: Any) -> "VolumeFile":
        return VolumeFile(self, self.place(path), mode, **options)

    async def open_async(self, path: str, mode: str = "rb", **options: Any) -> "AsyncVolumeFile":
        """Opens the file `path` for coroutines, as `mode` "rb" or "wb". The `options` are those of
        `open`."""
        return AsyncVolumeFile(self, await self._run(self.place, path), mode, **options)


def _options(mode: str, place: Place, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a file for its base class."""
    if mode not in ("rb", "wb"):
        raise ValueError(f"a volume's file is opened as 'rb' or 'wb', not '{mode}'")
    if not options.get("autocommit", True):
        raise NotImplementedError("volumes have no transactions: write without one")
    block_size = options.get("block_size") or READ_AHEAD
    return {**options, "mode": mode, "size": place.length, "block_size": block_size}


class VolumeFile(AbstractBufferedFile):  # type: ignore[misc] # fsspec has no types
    """A range of a volume, opened for reading or for writing.

    Threads may share it as DuckDB's do, each of which seeks and then reads: the read begins where
    its own thread has sought, even if other threads seek or read in between.
    """

    loc: int

    def __init__(self, fs: VolumeFileSystem, place: Place, mode: str, **options: Any) -> None:
        self._place = place
        self._sought: dict[int, int] = {}  # positions for the next read, by thread
        self._last = (0, 0)  # the previous read
        self._caching = threading.Lock()
        super().__init__(fs, place.path, **_options(mode, place, options))

    def seek(self, loc: int, whence: int = 0) -> int:
        """Moves to `loc`, from the position that `whence` names. Returns the new position."""
        position = int(super().seek(loc, whence))
        self._sought[threading.get_ident()] = position
        return position

    def tell(self) -> int:
        """The position of the next read or write."""
        return self._sought.get(threading.get_ident(), self.loc)

    def read(self, length: int | None = -1) -> bytes:
        """Reads the next `length` bytes, or all that are left."""
        if not self.readable():
            raise ValueError("the file is closed, or not opened for reading")
        start = self._sought.pop(threading.get_ident(), None)
        is_near = start is None or self._last[0] <= start <= self._last[1]
        if start is None:
            # This thread continues where another one stopped, and not the other way round.
            self._sought.clear()
            start = self.loc
        left = max(self.size - start, 0)
        wanted = left if length is None or length < 0 else min(length, left)
        end = start + wanted
        if wanted == 0:
            data = b""
        elif self.cache.name == "readahead" and (wanted >= LONG_READ or not is_near):
            data = self._fetch_range(start, end)
        else:
            with self._caching:
                data = self.cache._fetch(start, end)
        self.loc, self._last = end, (start, end)
        return data

    def readuntil(self, char: bytes = b"\n", blocks: int | None = None) -> bytes:
        """Reads up to and including `char`, or all that is left. `blocks` is the number of bytes
        that are searched at a time."""
        return bytes(super().readuntil(char, blocks or LINE_READ))

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self._place.read(start, end)

    def write(self, data: "Buffer") -> int:
        """Appends `data` to the data written so far, up to the range's end. Returns the number of
        bytes."""
        self._place.check_room(self.loc, data)
        return int(super().write(data))

    def _upload_chunk(self, final: bool = False) -> bool:
        with self.buffer.getbuffer() as data:
            self._place.write(self.offset, data)
        if final:
            self._place.volume.flush()
        return True


class AsyncVolumeFile(AbstractAsyncStreamedFile):  # type: ignore[misc] # fsspec has no types
    """A range of a volume, opened for coroutines. Reads are not buffered."""

    def __init__(self, fs: VolumeFileSystem, place: Place, mode: str, **options: Any) -> None:
        self._place = place
        super().__init__(fs, place.path, **_options(mode, place, options))

    async def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = await self.fs._run(self._place.read, start, end)
        return data

    async def write(self, data: "Buffer") -> int:
        """Appends `data` to the data written so far, up to the range's end. Returns the number of
        bytes."""
        self._place.check_room(self.loc, data)
        return int(await super().write(data))

    async def _upload_chunk(self, final: bool = False) -> bool:
        await self.fs._run(VolumeFile._upload_chunk, self, final)
        return True
