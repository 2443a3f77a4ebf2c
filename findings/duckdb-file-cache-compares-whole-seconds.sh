#!/bin/sh
# DuckDB shows the former contents of a file that was replaced, if both were written in one second.
#
# Versions: DuckDB 1.4.2, fsspec 2026.9.0, pyarrow 26.0.1 (writes the files).
# Surprise: DuckDB keeps data of files in memory, which is on by default (enable_external_file_cache), and checks the
#   time of a file's last change before it uses them. It compares whole seconds, although the file system's
#   `modified` returns fractions: a file of the same length that was replaced 0.9 s later is taken for the former one.
# nearflash: the README of its Python package says so, and names the setting that prevents it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip install --quiet duckdb==1.4.2 fsspec==2026.9.0 pyarrow==26.0.1
cat >replace.py <<'PYTHON'
import datetime
import io
import sys

import duckdb
import fsspec
import pyarrow
import pyarrow.parquet
from fsspec.implementations.memory import MemoryFileSystem


class Timed(MemoryFileSystem):
    """Files in memory, whose time of the last change the program sets."""

    protocol = "timed"
    at = None

    @classmethod
    def _strip_protocol(cls, path):
        return MemoryFileSystem._strip_protocol(path.removeprefix("timed://"))

    def glob(self, path, **_):
        return [path.removeprefix("timed://")]

    def modified(self, path):
        return Timed.at


fsspec.register_implementation("timed", Timed)
files = Timed()


def write(value, at):
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"a": [value] * 1000}), buffer)
    files.pipe_file("t.parquet", buffer.getvalue())
    Timed.at = at


def seen(later, settings=""):
    """The value before the file was replaced, and after it."""
    connection = duckdb.connect()
    connection.register_filesystem(files)
    connection.execute(settings)
    found = []
    at = datetime.datetime(2026, 11, 28, 12, tzinfo=datetime.timezone.utc)
    for value, time in [(1, at), (2, at + datetime.timedelta(seconds=later))]:
        write(value, time)
        found += connection.sql("SELECT max(a) FROM read_parquet('timed://t.parquet')").fetchone()
    return found


print(f"DuckDB {duckdb.__version__}")
soon, later = seen(0.9), seen(1.0)
without = seen(0.9, "SET enable_external_file_cache = false")
print(f"replaced 0.9 s later: {soon}; 1 s later: {later}; 0.9 s later without the cache: {without}")
sys.exit(0 if (soon, later, without) == ([1, 1], [1, 2], [1, 2]) else "changed")
PYTHON
environment/bin/python replace.py
echo "as described: the former contents are shown"
