"""Volumes as files of fsspec, so that pandas, pyarrow, Dask and DuckDB read and write them.

A file is a range of a volume, and its name says which:

    nearflash://HOST:PORT/VOLUME                    all of it
    nearflash://HOST:PORT/VOLUME/OFFSET             from there to its end
    nearflash://HOST:PORT/VOLUME/OFFSET+LENGTH      so many bytes, and no more

and with `/PATH.sock` in place of `HOST:PORT` a node of this machine is reached over shared memory.
A volume keeps no lengths: what was written is read with the length that it had, which is what
`tell` says at its end. A file that is closed after writing is on stable media.

    with fsspec.open("nearflash://127.0.0.1:4421/data/0", "wb") as file:
        table.to_parquet(file)
        length = file.tell()
    pandas.read_parquet(f"nearflash://127.0.0.1:4421/data/0+{length}")

Storage options are those of `nearflash.connect`.
"""

import datetime
import os
import re
import threading
from typing import Any, NamedTuple

from fsspec import AbstractFileSystem
from fsspec.spec import AbstractBufferedFile

import nearflash

READ_AHEAD = 1 << 20
"""Bytes that a file reads, and gathers before it writes, at a time."""

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
    """None: to the volume's end."""

    @classmethod
    def parse(cls, path: str) -> "Range":
        """Reads a path, as the file system has it: without `nearflash://`."""
        found = _PATH.fullmatch(path)
        if not found:
            raise nearflash.InvalidUrl(
                f"'{path}' is no range of a volume: "
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
        """Of its volume."""
        scheme = "direct+local:" if self.node.startswith("/") else "direct://"
        return f"{scheme}{self.node}/{self.volume}"


class VolumeFileSystem(AbstractFileSystem):  # type: ignore[misc] # fsspec has no types
    """Ranges of volumes as files."""

    protocol = "nearflash"
    root_marker = ""

    def __init__(self, key: str | None = None, secret: str | None = None, **options: Any) -> None:
        names = ("silence_max", "reconnect_max", "spin_max")
        patience = {name: options.pop(name) for name in names if name in options}
        super().__init__(**options)
        self._connect = {"key": key, "secret": secret, **patience}
        self._lock = threading.Lock()
        self._volumes: dict[tuple[int, str], nearflash.Volume] = {}

    def volume(self, path: str) -> nearflash.Volume:
        """The volume that a path lies on, opened once for all of its files."""
        url = Range.parse(self._strip_protocol(path)).url
        # A forked process does not use its parent's connections.
        place = (os.getpid(), url)
        with self._lock:
            volume = self._volumes.get(place)
            if volume is None:
                volume = self._volumes[place] = nearflash.open(url, **self._connect)
            return volume

    def _place(self, path: str) -> tuple[nearflash.Volume, int, int]:
        """A path's volume, and where on it the file begins and how long it is."""
        wanted = Range.parse(self._strip_protocol(path))
        volume = self.volume(path)
        left = volume.size - wanted.offset
        length = left if wanted.length is None else wanted.length
        if length > left or left < 0:
            raise nearflash.OutOfRange(f"'{path}' ends past the {volume.size} bytes of the volume")
        return volume, wanted.offset, length

    def info(self, path: str, **_options: Any) -> dict[str, Any]:
        """A file's name, size and place."""
        volume, offset, length = self._place(path)
        return {
            "name": self._strip_protocol(path),
            "type": "file",
            "size": length,
            "volume": volume.name,
            "offset": offset,
        }

    def ls(self, path: str, detail: bool = True, **_options: Any) -> list[Any]:
        """The file itself: nodes do not list their volumes to clients."""
        info = self.info(path)
        return [info if detail else info["name"]]

    def modified(self, path: str) -> datetime.datetime:
        """Now: a volume keeps no times, and may have changed up to this moment. Whoever caches by
        time asks the node again."""
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
        """A file's bytes from `start` to `end`, which may count from its end."""
        volume, offset, length = self._place(path)
        first, last, _ = slice(start, end).indices(length)
        return volume.read(offset + first, max(last - first, 0))


class VolumeFile(AbstractBufferedFile):  # type: ignore[misc] # fsspec has no types
    """A range of a volume, read or written from its beginning on."""

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
        """Writes behind what was written before; not past the range's end."""
        if self.tell() + memoryview(data).nbytes > self._length:
            raise nearflash.OutOfRange(f"'{self.path}' has room for {self._length} bytes")
        return int(super().write(data))

    def _initiate_upload(self) -> None:
        """Nothing goes before the first bytes."""

    def _upload_chunk(self, final: bool = False) -> bool:
        data = self.buffer.getbuffer()
        self._volume.write(self._begin + self.offset, data)
        data.release()
        if final:
            self._volume.flush()
        return True
