"""Volumes as files of fsspec, so that pandas, pyarrow, Dask and DuckDB read and write them.

A volume that is formatted for files (`nearflash files format`) holds directories and files:

    nearflash://HOST:PORT/VOLUME/DIRECTORY/FILE

They are listed, matched with wildcards, copied, renamed and removed as those of other file systems.
A file appears when it is closed, whole and durable, in place of one of the same name; after an
exception in its `with` block it does not appear at all. If the node owns the files, any number of
processes write at the same time. Otherwise, a process owns the volume while it writes a file. Its
threads write at the same time; another process waits for `take_timeout` seconds, and then gets a
`BlockingIOError` that names the owner. With `take`, the process keeps the volume after its first
write, until `release`. Reading needs no ownership: every call sees the changes that were
durable when it began, and a file that is open stays the same. If it is removed or replaced, reading
it raises an `OSError` with `errno.ESTALE`, and never returns other bytes. If the node owns the
files, every call sees its last changes, and a file that is removed or replaced can be read until it
is closed. A path that no grant covers raises a `PermissionError`.

In any other volume, a file is a range of it, which its name gives:

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

Storage options are `take` and `take_timeout`; `key`, `secret`, `secret_file`, `silence_max`,
`reconnect_max` and `spin_max` as in `nearflash.connect`; and `digest`: "header", "data" or
"header,data", the CRC32C digests that protect the connection.

A file system that is sent to another process, as Dask does, takes its storage options along. With
`secret_file`, these hold no secret: each process reads the file when it connects.

    options = {"key": "app", "secret_file": "/etc/nearflash/app.secret"}
    pandas.read_parquet(url, storage_options=options)
"""

import asyncio
import contextlib
import datetime
import errno
import functools
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from fsspec.asyn import AbstractAsyncStreamedFile, AsyncFileSystem, get_loop
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.core import has_magic
from fsspec.spec import AbstractBufferedFile

import nearflash
from nearflash import _named
from nearflash._named import Named, NamedFile, NamedPlace

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

TAKE_TIMEOUT = 30.0
"""The time in seconds for which a writer waits for another process to release the volume."""

_NAMED = re.compile(r"(?P<node>/.+?\.sock|[^/]+)/(?P<volume>[^/+]+)(?P<name>/.*)?", re.DOTALL)
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

    def url(self, tls: bool = False) -> str:
        """The URL of the volume, with TLS if `tls` and the node has an address."""
        return _url(self.node, self.volume, tls)


def _url(node: str, volume: str, tls: bool) -> str:
    of_address = "direct+tls://" if tls else "direct://"
    scheme = "direct+local:" if node.startswith("/") else of_address
    return f"{scheme}{node}/{volume}"


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

    def readinto(self, start: int, buffer: "Buffer") -> int:
        """Fills `buffer` from `start` on."""
        return self.volume.readinto(self.offset + start, buffer)

    def write(self, start: int, data: "Buffer") -> int:
        """Writes `data` from `start` on. Returns the number of bytes."""
        self.check_room(start, data)
        return self.volume.write(self.offset + start, data)

    def flush_since(self, replaced: int) -> None:
        """Makes the writes durable since the volume had replaced `replaced` connections. A flush
        over a new connection says nothing of writes over the one that it replaces."""
        self.volume.flush()
        if self.volume.replaced_connections != replaced:
            raise nearflash.OutcomeUnknown(
                f"'{self.path}': the connection was lost between its writes and the flush, and the "
                "node's machine may have lost some of them: write it again"
            )

    def check_room(self, start: int, data: "Buffer") -> None:
        """Checks that there is room for `data` from `start` on."""
        if start + memoryview(data).nbytes > self.length:
            raise nearflash.OutOfRange(f"'{self.path}' has room for {self.length} bytes")


class VolumeFileSystem(AsyncFileSystem):  # type: ignore[misc] # fsspec has no types
    """Volumes as files: files by name, or ranges.

    With `take`, the process keeps a volume of files after its first write, until `release`.
    `take_timeout` is the time in seconds for which a writer waits for another process (30). `key`,
    `secret`, `secret_file`, `silence_max`, `reconnect_max` and `spin_max` are those of
    `nearflash.connect`. `digest` names the digests of the connection: "header", "data" or
    "header,data". `tls` uses TLS for nodes at an address, with the key of the credential. The other
    options are those of `fsspec.asyn.AsyncFileSystem`.
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
        tls: bool = False,
        take: bool = False,
        take_timeout: float = TAKE_TIMEOUT,
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

        @functools.lru_cache(VOLUMES_MAX)
        def bucket(_process: int, url: str) -> _named.Bucket:
            return _named.bucket(url + query, key, secret, given)

        @functools.lru_cache(1)
        def threads(_process: int) -> ThreadPoolExecutor:
            return ThreadPoolExecutor(RANGES_IN_FLIGHT, "nearflash")

        self._volume, self._bucket, self._threads = volume, bucket, threads
        self._holds_files: dict[tuple[int, str], bool] = {}
        self._take, self._take_timeout, self._tls = take, take_timeout, tls
        self._kept: dict[_named.Bucket, _named.Lease] = {}

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

    def _find_named(self, path: str, *, is_written: bool = False) -> Named | None:
        """A path in a volume that is formatted for files; None for a range of another volume."""
        found = _NAMED.fullmatch(path)
        if not found:
            return None
        url = _url(found["node"], found["volume"], self._tls)
        place = (os.getpid(), url)
        # A volume may be formatted after its ranges were read. They are not written from then on.
        if place not in self._holds_files or (is_written and not self._holds_files[place]):
            self._holds_files[place] = self._is_of_files(place)
        if not self._holds_files[place]:
            return None
        volume = f"{found['node']}/{found['volume']}"
        return Named(path, volume, self._bucket(*place), found["name"] or "/")

    def _is_of_files(self, place: tuple[int, str]) -> bool:
        """Whether a volume is formatted for files, of which some may be read."""
        try:
            return _named.holds_files(self._volume(*place))
        except nearflash.NotGranted:
            # With grants on directories, the node that owns the files reads them for this process.
            try:
                self._bucket(*place)
            except nearflash.NotGranted:
                return False
            return True

    def _in_files(self, path: str) -> Named:
        """A path in a volume that must be formatted for files."""
        path = self._strip_protocol(path)
        named = self._find_named(path, is_written=True)
        if named is None:
            raise NotImplementedError(
                f"'{path}' is not in a volume of files: 'nearflash files format' makes one"
            )
        return named

    def _lease(self, bucket: _named.Bucket) -> _named.Lease:
        """Takes a volume for a change, and keeps it if the options say so."""
        if self._take:
            kept = self._kept.get(bucket)
            if kept is None or not bucket.is_held_by(kept.held):
                self._kept[bucket] = bucket.lease(self._take_timeout)
        return bucket.lease(self._take_timeout)

    def _owned(self, named: Named) -> contextlib.AbstractContextManager[nearflash.Owner]:
        if self._take:
            self._lease(named.bucket).release()
        return named.bucket.owned(self._take_timeout)

    def release(self) -> None:
        """Releases the volumes that the option `take` has kept."""
        kept, self._kept = self._kept, {}
        for lease in kept.values():
            lease.release()

    def place(self, path: str) -> Place | NamedPlace:
        """The place of the file `path`, which is opened for reading if it has a name."""
        path = self._strip_protocol(path)
        named = self._find_named(path)
        return named.open() if named else self._range(path)

    def _range(self, path: str, *, is_written: bool = False) -> Place:
        """The place of a range. Its volume is opened once for all of them."""
        wanted = Range.parse(path)
        volume = self._volume(os.getpid(), wanted.url(self._tls))
        left = volume.size - wanted.offset
        length = left if wanted.length is None else wanted.length
        if length > left or left < 0:
            raise nearflash.OutOfRange(f"'{path}' ends past the {volume.size} bytes of the volume")
        return Place(path, volume, wanted.offset, length)

    async def _info(self, path: str, **_options: Any) -> dict[str, Any]:
        """The name, type and size in bytes of `path`. A file by name also has its number `ino` and
        the times `created` and `mtime`, a range its volume and its offset in bytes."""
        info: dict[str, Any] = await self._run(self._describe, self._strip_protocol(path))
        return info

    def _describe(self, path: str) -> dict[str, Any]:
        named = self._find_named(path)
        if named:
            return named.info()
        place = self._range(path)
        return {
            "name": place.path,
            "type": "file",
            "size": place.length,
            "volume": place.volume.name,
            "offset": place.offset,
        }

    async def _exists(self, path: str, **_options: Any) -> bool:
        """Whether `path` exists, or names a range of a volume that can be opened."""
        try:
            await self._info(path)
        except Exception:
            return False
        return True

    async def _ls(self, path: str, detail: bool = True, **_options: Any) -> list[Any]:
        """The entries of the directory `path`, or the file `path` itself: as `info` with `detail`,
        otherwise by name. Nodes do not list their volumes to clients."""
        path = self._strip_protocol(path)

        def ls() -> list[dict[str, Any]]:
            named = self._find_named(path)
            return named.entries() if named else [self._describe(path)]

        entries = await self._run(ls)
        return [entry if detail else entry["name"] for entry in entries]

    def created(self, path: str) -> datetime.datetime:
        """The time at which the file `path` was created."""
        created: datetime.datetime = self._in_files(path).info()["created"]
        return created

    def modified(self, path: str) -> datetime.datetime:
        """The time of the last change of the file `path`. For a range it is the current time: a
        volume stores no times, and may have changed up to now. A cache that compares times
        therefore reads from the node again."""
        info = self._describe(self._strip_protocol(path))
        time: datetime.datetime = info.get("mtime") or datetime.datetime.now(datetime.UTC)
        return time

    async def _mkdir(self, path: str, create_parents: bool = True, **_options: Any) -> None:
        """Creates the directory `path`, and with `create_parents` those in which it lies."""
        path = self._strip_protocol(path)

        def mkdir() -> None:
            named = self._find_named(path, is_written=True)
            if named is None:
                return  # ranges lie in no directory
            with self._owned(named) as owner:
                if create_parents or named.is_root:
                    named.makedirs(owner, exist_ok=False)
                else:
                    owner.mkdir(named.name)

        await self._run(mkdir)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Creates the directory `path`, and those in which it lies. With `exist_ok`, it may
        exist."""
        path = self._strip_protocol(path)

        def makedirs() -> None:
            named = self._find_named(path, is_written=True)
            if named is None:
                return  # ranges lie in no directory
            if exist_ok:
                with contextlib.suppress(FileNotFoundError):
                    if named.info()["type"] == "directory":
                        return
            with self._owned(named) as owner:
                named.makedirs(owner, exist_ok=exist_ok)

        await self._run(makedirs)

    def rmdir(self, path: str) -> None:
        """Removes the empty directory `path`."""
        named = self._in_files(path)
        if named.info()["type"] != "directory":
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        with self._owned(named) as owner:
            owner.remove(named.name)

    async def _rm_file(self, path: str, **_options: Any) -> None:
        """Removes the file `path`."""
        await self._run(self._remove, [self._strip_protocol(path)], False)

    async def _rm(
        self,
        path: str | list[str],
        recursive: bool = False,
        batch_size: int | None = None,
        maxdepth: int | None = None,
        **_options: Any,
    ) -> None:
        """Removes files, by `path` or by pattern, with `recursive` also directories and everything
        in them, up to `maxdepth` below. `batch_size` has no effect."""
        paths = await self._expand_path(path, recursive=recursive, maxdepth=maxdepth)
        # A directory comes after its entries.
        await self._run(self._remove, sorted(paths, reverse=True), recursive)

    def _remove(self, paths: list[str], with_directories: bool) -> None:
        with contextlib.ExitStack() as leases:
            for path in paths:
                named = self._in_files(path)
                if with_directories and named.is_root:
                    continue
                if not with_directories and named.info()["type"] == "directory":
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
                leases.callback(self._lease(named.bucket).release)
                with self._owned(named) as owner:
                    owner.remove(named.name)

    def mv(
        self,
        path1: str,
        path2: str,
        recursive: bool = False,
        maxdepth: int | None = None,
        **options: Any,
    ) -> None:
        """Renames the file or directory `path1` to `path2`, or into `path2` if that is a directory.
        A file of that name is replaced. Between volumes, and with wildcards or `maxdepth`, files
        are copied and then removed, directories with `recursive`."""
        old = None if _is_pattern(path1) or maxdepth else self._in_files(path1)
        new = None if _is_pattern(path2) else self._in_files(path2)
        if old is None or new is None or old.bucket is not new.bucket:
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **options)
            return
        target = new.name
        with contextlib.suppress(FileNotFoundError):
            if new.info()["type"] == "directory":
                target = f"{new.name.rstrip('/')}/{old.name.rsplit('/', 1)[-1]}"
        with self._owned(new) as owner:
            owner.rename(old.name, target, replace=True)

    async def _cp_file(self, path1: str, path2: str, **_options: Any) -> None:
        """Copies the file `path1` to `path2`, whose directories are created. A directory is created
        without its entries."""
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if (await self._info(path1))["type"] == "directory":
            await self._makedirs(path2, exist_ok=True)
            return

        def copy() -> None:
            place = self.place(path1)
            # The entries of a directory are copied at the same time as the directory is created.
            parent = self._find_named(path2.rsplit("/", 1)[0], is_written=True)
            if parent is not None and not parent.is_root:
                with self._owned(parent) as owner:
                    parent.makedirs(owner, exist_ok=True)
            starts = range(0, place.length, COPIED_AT_A_TIME)
            parts = (place.read(start, start + COPIED_AT_A_TIME) for start in starts)
            self._write(path2, parts, place.length)

        await self._run(copy)

    def _write(
        self, path: str, parts: Iterable["Buffer"], size: int | None, mode: str = "overwrite"
    ) -> None:
        """Writes a file, durably: whole, or not at all if it has a name."""
        named = self._find_named(path, is_written=True)
        if named is None:
            place, start = self._range(path, is_written=True), 0
            replaced = place.volume.replaced_connections
            for part in parts:
                start += place.write(start, part)
            place.flush_since(replaced)
            return
        how = "xb" if mode == "create" else "wb"
        with NamedFile(self, named, how, self._lease(named.bucket), size=size) as file:
            for part in parts:
                file.write(part)

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

    async def _pipe_file(
        self, path: str, value: "Buffer", mode: str = "overwrite", **_options: Any
    ) -> None:
        """Writes `value` as the file `path`, durably. With the `mode` "create", a file of that name
        must not exist."""
        size = memoryview(value).nbytes
        await self._run(self._write, self._strip_protocol(path), [value], size, mode)

    async def _get_file(
        self, rpath: str, lpath: str, callback: Any = DEFAULT_CALLBACK, **_options: Any
    ) -> None:
        """Copies the file `rpath` to the local file `lpath`, and tells `callback`."""
        if (await self._info(rpath))["type"] == "directory":
            os.makedirs(lpath, exist_ok=True)
            return

        def get() -> None:
            place = self.place(rpath)
            callback.set_size(place.length)
            buffer = memoryview(bytearray(min(place.length, COPIED_AT_A_TIME)))
            with open(lpath, "wb") as target:
                for start in range(0, place.length, COPIED_AT_A_TIME):
                    part = buffer[: min(place.length - start, COPIED_AT_A_TIME)]
                    place.readinto(start, part)
                    callback.relative_update(target.write(part))

        await self._run(get)

    async def _put_file(
        self,
        lpath: str,
        rpath: str,
        callback: Any = DEFAULT_CALLBACK,
        mode: str = "overwrite",
        **_options: Any,
    ) -> None:
        """Copies the local file `lpath` to the file `rpath`, durably, and tells `callback`. With
        the `mode` "create", a file of that name must not exist."""
        if os.path.isdir(lpath):
            await self._makedirs(rpath, exist_ok=True)
            return

        def put() -> None:
            with open(lpath, "rb") as source:
                size = os.fstat(source.fileno()).st_size
                callback.set_size(size)

                def parts() -> Iterator[bytes]:
                    while data := source.read(COPIED_AT_A_TIME):
                        yield data
                        callback.relative_update(len(data))

                self._write(self._strip_protocol(rpath), parts(), size, mode)

        await self._run(put)

    def _open(self, path: str, mode: str = "rb", **options: Any) -> "VolumeFile | NamedFile":
        path = self._strip_protocol(path)
        named = self._find_named(path, is_written=mode != "rb")
        if named is None:
            return VolumeFile(self, self._range(path), mode, **options)
        if mode == "rb":
            return VolumeFile(self, named.open(), mode, **{**options, "autocommit": True})
        if mode not in ("wb", "xb"):
            raise ValueError(f"a file is opened as 'rb', 'wb' or 'xb', not '{mode}'")
        return NamedFile(self, named, mode, self._lease(named.bucket), **options)

    async def open_async(self, path: str, mode: str = "rb", **options: Any) -> "AsyncVolumeFile":
        """Opens the file `path` for coroutines, as `mode` "rb" or "wb". The `options` are those of
        `open`."""
        path = self._strip_protocol(path)
        named = await self._run(lambda: self._find_named(path, is_written=mode != "rb"))
        if named is not None and mode != "rb":
            raise NotImplementedError(f"'{path}': use _pipe_file or _put_file to write it")
        return AsyncVolumeFile(self, await self._run(self.place, path), mode, **options)


def _is_pattern(path: Any) -> bool:
    return not isinstance(path, str) or has_magic(path)


def _options(mode: str, place: Place | NamedPlace, options: dict[str, Any]) -> dict[str, Any]:
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

    def __init__(
        self, fs: VolumeFileSystem, place: Place | NamedPlace, mode: str, **options: Any
    ) -> None:
        self._place = place
        # Of the volume, before the first write.
        self._replaced = place.volume.replaced_connections if isinstance(place, Place) else 0
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

    def readinto(self, b: "Buffer") -> int:
        """Fills `b` with the next bytes, as many as are left. Returns their number."""
        target = memoryview(b).cast("B")
        start = self.tell()
        wanted: int = min(target.nbytes, max(self.size - start, 0))
        if wanted < LONG_READ:
            data = self.read(wanted)
            target[: len(data)] = data
            return len(data)
        if not self.readable():
            raise ValueError("the file is closed, or not opened for reading")
        # The bytes go where they are wanted, without a copy.
        if self._sought.pop(threading.get_ident(), None) is None:
            self._sought.clear()
        self._place.readinto(start, target[:wanted])
        self.loc = start + wanted
        self._last = (start, self.loc)
        return wanted

    def readuntil(self, char: bytes = b"\n", blocks: int | None = None) -> bytes:
        """Reads up to and including `char`, or all that is left. `blocks` is the number of bytes
        that are searched at a time."""
        return bytes(super().readuntil(char, blocks or LINE_READ))

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self._place.read(start, end)

    def write(self, data: "Buffer") -> int:
        """Appends `data` to the data written so far, up to the range's end. Returns the number of
        bytes."""
        if isinstance(self._place, Place):
            self._place.check_room(self.loc, data)
        return int(super().write(data))

    def _upload_chunk(self, final: bool = False) -> bool:
        assert isinstance(self._place, Place), "files by name are written as NamedFile"
        with self.buffer.getbuffer() as data:
            self._place.write(self.offset, data)
        if final:
            self._place.flush_since(self._replaced)
        return True


class AsyncVolumeFile(AbstractAsyncStreamedFile):  # type: ignore[misc] # fsspec has no types
    """A range of a volume, opened for coroutines. Reads are not buffered."""

    def __init__(
        self, fs: VolumeFileSystem, place: Place | NamedPlace, mode: str, **options: Any
    ) -> None:
        self._place = place
        self._replaced = place.volume.replaced_connections if isinstance(place, Place) else 0
        super().__init__(fs, place.path, **_options(mode, place, options))

    async def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = await self.fs._run(self._place.read, start, end)
        return data

    async def write(self, data: "Buffer") -> int:
        """Appends `data` to the data written so far, up to the range's end. Returns the number of
        bytes."""
        if isinstance(self._place, Place):
            self._place.check_room(self.loc, data)
        return int(await super().write(data))

    async def _upload_chunk(self, final: bool = False) -> bool:
        await self.fs._run(VolumeFile._upload_chunk, self, final)
        return True
