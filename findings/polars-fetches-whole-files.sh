#!/bin/sh
# polars fetches all of a file that Python opened, for ten rows of one column.
#
# Versions: polars 2.1.0, fsspec 2026.9.0, pyarrow 26.0.1 (writes the file).
# Surprise: read_parquet and scan_parquet take any Python file object, and the second is made to read only what a
#   query needs. With a file object that can seek, both fetch every byte of it first. The same query through a
#   data set of pyarrow fetches the column alone.
# nearflash: the README of its Python package recommends polars.scan_pyarrow_dataset, or a mount.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip install --quiet polars==2.1.0 fsspec==2026.9.0 pyarrow==26.0.1
cat >read.py <<'PYTHON'
import io
import sys

import polars
import pyarrow
import pyarrow.parquet
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

ROWS = 1_000_000
buffer = io.BytesIO()
table = pyarrow.table({"a": list(range(ROWS)), "b": [float(x) for x in range(ROWS)]})
pyarrow.parquet.write_table(table, buffer, row_group_size=50_000, compression="none")
DATA = buffer.getvalue()


class Counting(AbstractFileSystem):
    protocol = "counting"
    fetched = 0

    def _open(self, path, mode="rb", **_):
        return CountingFile(self, path, mode, cache_type="none", size=len(DATA))

    def info(self, path, **_):
        return {"name": path, "size": len(DATA), "type": "file"}


class CountingFile(AbstractBufferedFile):
    def _fetch_range(self, start, end):
        Counting.fetched += end - start
        return DATA[start:end]


def share(query):
    Counting.fetched = 0
    assert query(Counting().open("/t.parquet")).shape == (10, 1)
    return Counting.fetched / len(DATA)


read = share(lambda file: polars.read_parquet(file, columns=["a"], n_rows=10))
scan = share(lambda file: polars.scan_parquet(file).select("a").head(10).collect())
print(f"polars {polars.__version__}: read_parquet {read:.3f}, scan_parquet {scan:.3f} of the file")
sys.exit(0 if min(read, scan) >= 1 else "changed: not the whole file is fetched")
PYTHON
environment/bin/python read.py
echo "as described: the whole file is fetched"
