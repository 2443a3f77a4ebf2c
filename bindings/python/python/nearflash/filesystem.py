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

Storage options are `key`, `secret`, `secret_file`, `silence_max`, `reconnect_max` and `spin_max` as
in `nearflash.connect`, and `digest`: "header", "data" or "header,data", the CRC32C digests that
protect the connection.

A file system that is sent to another process, as Dask does, takes its storage options along. With
`secret_file`, these hold no secret: each process reads the file when it connects.

    options = {"key": "app", "secret_file": "/etc/nearflash/app.secret"}
    pandas.read_parquet(url, storage_options=options)
"""

import datetime
import os
import re
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from fsspec import AbstractFileSystem
from fsspec.spec import AbstractBufferedFile

import nearflash

READ_AHEAD = 1 << 20
"""The number of bytes that a file reads at a time, and collects before it writes them."""

RANGES_IN_FLIGHT = 16
"""The maximum number of ranges of one call that are read at the same time. Each uses a connection
of its own."""

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


class VolumeFileSystem(AbstractFileSystem):  # type: ignore[misc] # fsspec has no types
    """Ranges of volumes as files.

    `key`, `secret`, `secret_file`, `silence_max`, `reconnect_max` and `spin_max` are those of
    `nearflash.connect`. `digest` names the digests of the connection: "header", "data" or
    "header,data". The other options are those of `fsspec.AbstractFileSystem`.
    """

    protocol = "nearflash"
    root_marker = ""

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
        # Not the contents of `secret_file`, which are read at each connect.
        self._connect = {"key": key, "secret": secret, **given}
        self._query = "" if digest is None else f"?digest={digest}"
        self._lock = threading.Lock()
        self._volumes: dict[tuple[int, str], nearflash.Volume] = {}

    def volume(self, path: str) -> nearflash.Volume:
        """The volume of the file `path`, opened once for all of its files."""
        url = Range.parse(self._strip_protocol(path)).url
        # A forked process does not use its parent's connections.
        place = (os.getpid(), url)
        with self._lock:
            volume = self._volumes.get(place)
            if volume is None:
                volume = self._volumes[place] = nearflash.open(url + self._query, **self._connect)
            return volume

    def _place(self, path: str) -> tuple[nearflash.Volume, int, int]:
        """A path's volume, and the offset and the length of the file on it."""
        wanted = Range.parse(self._strip_protocol(path))
        volume = self.volume(path)
        left = volume.size - wanted.offset
        length = left if wanted.length is None else wanted.length
        if length > left or left < 0:
            raise nearflash.OutOfRange(f"'{path}' ends past the {volume.size} bytes of the volume")
        return volume, wanted.offset, length

    def info(self, path: str, **_options: Any) -> dict[str, Any]:
        """The name, size in bytes, volume, and offset in bytes of the file `path`."""
        volume, offset, length = self._place(path)
        return {
            "name": self._strip_protocol(path),
            "type": "file",
            "size": length,
            "volume": volume.name,
            "offset": offset,
        }

    def ls(self, path: str, detail: bool = True, **_options: Any) -> list[Any]:
        """The file `path` itself, since nodes do not list their volumes to clients: as `info` with
        `detail`, otherwise by name."""
        info = self.info(path)
        return [info if detail else info["name"]]

    def modified(self, path: str) -> datetime.datetime:
        """The current time, for every `path`: a volume stores no times, and may have changed up to
        now. A cache that compares times therefore reads from the node again."""
        self._place(path)
        return datetime.datetime.now(datetime.UTC)

    def _open(
        self, path: str, mode: str = "rb", block_size: Any = None, **options: Any
    ) -> "VolumeFile":
        if mode not in ("rb", "wb"):
            raise ValueError(f"a volume's file is opened as 'rb' or 'wb', not '{mode}'")
        if not options.get("autocommit", True):
            raise NotImplementedError("volumes have no transactions: write without one")
        place = self._place(path)
        return VolumeFile(self, path, place, mode=mode, block_size=block_size, **options)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_options: Any
    ) -> bytes:
        """Reads the bytes of the file `path` from `start` to `end`; negative values count from its
        end."""
        volume, offset, length = self._place(path)
        first, last, _ = slice(start, end).indices(length)
        return volume.read(offset + first, max(last - first, 0))

    def cat_ranges(
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

        def read(path: str, start: int | None, end: int | None) -> Any:
            try:
                return self.cat_file(path, start, end)
            except Exception as error:
                if on_error == "return":
                    return error
                raise

        firsts, lasts = (
            list(given) if isinstance(given, Iterable) else [given] * len(paths)
            for given in (starts, ends)
        )
        if not len(paths) == len(firsts) == len(lasts):
            raise ValueError("paths, starts and ends are not equally many")
        if len(paths) <= 1:
            return [*map(read, paths, firsts, lasts)]
        with ThreadPoolExecutor(min(len(paths), RANGES_IN_FLIGHT)) as readers:
            return [*readers.map(read, paths, firsts, lasts)]


class VolumeFile(AbstractBufferedFile):  # type: ignore[misc] # fsspec has no types
    """A range of a volume, opened for reading or for writing."""

    def __init__(
        self,
        fs: VolumeFileSystem,
        path: str,
        place: tuple[nearflash.Volume, int, int],
        mode: str,
        block_size: int | None,
        **options: Any,
    ) -> None:
        self._volume, self._begin, self._length = place
        if mode == "rb":
            options["size"] = self._length
        super().__init__(fs, path, mode, block_size=block_size or READ_AHEAD, **options)

    def _fetch_range(self, start: int, end: int) -> bytes:
        end = min(end, self._length)
        return self._volume.read(self._begin + start, max(end - start, 0))

    def write(self, data: Any) -> int:
        """Appends `data` to the data written so far, up to the range's end. Returns the number of
        bytes."""
        if self.tell() + memoryview(data).nbytes > self._length:
            raise nearflash.OutOfRange(f"'{self.path}' has room for {self._length} bytes")
        return int(super().write(data))

    def _initiate_upload(self) -> None:
        """Does nothing: an upload needs no preparation."""

    def _upload_chunk(self, final: bool = False) -> bool:
        data = self.buffer.getbuffer()
        self._volume.write(self._begin + self.offset, data)
        data.release()
        if final:
            self._volume.flush()
        return True
