"""Volumes as files, and libraries that read them."""

import asyncio
import gc
import os
import pickle
import random
import signal
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import dask.dataframe
import duckdb
import fsspec
import pandas
import pyarrow.csv
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest
from conftest import MIB, Node

import nearflash
from nearflash import filesystem
from nearflash.filesystem import (
    LONG_READ,
    RANGES_IN_FLIGHT,
    READ_AHEAD,
    Range,
    VolumeFileSystem,
)


@pytest.fixture(params=["tcp", "local"])
def place(request, node):
    """The URL up to the volume's name, over TCP and over the Unix socket."""
    return f"nearflash://{node.address if request.param == 'tcp' else node.socket}"


@pytest.fixture
def table():
    numbers = range(20_000)
    return pandas.DataFrame({"number": numbers, "word": [f"word {number}" for number in numbers]})


def write(url, data):
    """Writes a file. Returns its URL with the length."""
    with fsspec.open(url, "wb") as file:
        file.write(data)
    return f"{url}+{len(data)}"


@pytest.fixture
def parquet(place, table):
    with fsspec.open(f"{place}/data/4096", "wb") as file:
        table.to_parquet(file)
        length = file.tell()
    return f"{place}/data/4096+{length}"


def test_paths_name_ranges_of_volumes():
    assert Range.parse("host:1/data") == ("host:1", "data", 0, None)
    assert Range.parse("host:1/data/5") == ("host:1", "data", 5, None)
    assert Range.parse("[::1]:1/data/5+6").url() == "direct://[::1]:1/data"
    assert Range.parse("host:1/data").url(tls=True) == "direct+tls://host:1/data"
    assert Range.parse("/run/a.sock/data/5+6") == ("/run/a.sock", "data", 5, 6)
    assert Range.parse("/run/a.sock/data").url(tls=True) == "direct+local:/run/a.sock/data"
    for path in ["", "host:1", "host:1/", "host:1/data/x", "host:1/data/1+", "host:1/data/1/2"]:
        with pytest.raises(nearflash.InvalidUrl, match="is not a range of a volume"):
            Range.parse(path)


def test_what_was_written_is_read(place):
    data = os.urandom(3 * MIB + 5)
    url = write(f"{place}/data/1000", data)
    with fsspec.open(url, "rb") as file:
        assert file.read() == data
        assert file.read(1) == b""
        file.seek(-5, os.SEEK_END)
        assert file.read() == data[-5:]
        file.seek(7)
        assert file.readinto1(memoryview(target := bytearray(9))) == 9
        assert target == data[7:16]


def test_long_reads_bypass_the_read_ahead(place):
    data = os.urandom(4 * READ_AHEAD)
    files, path = fsspec.url_to_fs(write(f"{place}/data/7", data))
    with files.open(path) as file:
        assert file.read(5) == data[:5]
        assert file.cache.total_requested_bytes == READ_AHEAD + 5
        file.seek(3)
        assert file.read(2 * READ_AHEAD) == data[3 : 3 + 2 * READ_AHEAD]
        assert file.read(2) == data[3 + 2 * READ_AHEAD :][:2]
        file.seek(3)
        assert file.read() == data[3:]
        assert file.tell() == len(data)
        assert file.read(2 * READ_AHEAD) == file.read() == b""
        file.seek(len(data) + 1)
        assert file.read(2 * READ_AHEAD) == file.read(1) == b""
        assert file.tell() == len(data) + 1
        assert file.cache.total_requested_bytes < 3 * READ_AHEAD
    with pytest.raises(ValueError, match="closed"):
        file.read()


def test_only_reads_near_the_last_one_read_ahead(place):
    lines = [b"%d\n" % number for number in range(300_000)]
    data = b"".join(lines)
    files, path = fsspec.url_to_fs(write(f"{place}/data/7", data))
    with files.open(path) as file:
        for start in [len(data) - 8, 1000, 500_000, 100]:
            file.seek(start)
            assert file.read(8) == data[start : start + 8]
        assert file.cache.miss_count == 0
        file.seek(0)
        assert list(file) == lines
        assert file.cache.miss_count < 4


def test_threads_that_share_a_file_read_where_they_have_sought(place):
    data = os.urandom(MIB)
    files, path = fsspec.url_to_fs(write(f"{place}/data/7", data))
    with files.open(path) as file, ThreadPoolExecutor(1) as other:
        for length in [5, LONG_READ]:
            file.seek(100)
            other.submit(file.seek, 7).result()
            assert file.tell() == 100
            assert other.submit(file.read, length).result() == data[7 : 7 + length]
            assert file.read(length) == data[100 : 100 + length]
            # A thread that has not sought continues where the last one stopped.
            assert other.submit(file.read, 3).result() == data[100 + length :][:3]
            assert file.read(3) == data[103 + length :][:3]
            file.seek(50)
            assert other.submit(file.read, 3).result() == data[50:53]
            assert file.read(3) == data[53:56]


def test_threads_that_share_a_file_do_not_disturb_each_other(place):
    data = os.urandom(4 * MIB)
    files, path = fsspec.url_to_fs(write(f"{place}/data/7", data))

    def read(seed):
        places = random.Random(seed)
        for _ in range(200):
            start = places.randrange(len(data))
            length = places.choice([10, 1000, LONG_READ])
            file.seek(start)
            assert file.read(length) == data[start : start + length]

    # DuckDB 2.0 calls one file object from eight threads.
    with files.open(path) as file, ThreadPoolExecutor(8) as threads:
        list(threads.map(read, range(8)))


def test_text_is_written_and_read(place):
    with fsspec.open(f"{place}/data/0+12", "w") as file:
        file.write("eins\nzwölf\n")
    with fsspec.open(f"{place}/data/0+12") as file:
        assert list(file) == [b"eins\n", "zwölf\n".encode()]


def test_a_file_is_told_of_by_its_size_and_place(place):
    files, path = fsspec.url_to_fs(f"{place}/data/4096+10")
    assert files.info(path) == {
        "name": path, "type": "file", "size": 10, "volume": "data", "offset": 4096,
    }  # fmt: skip
    assert files.ls(path, detail=False) == [path]
    assert files.isfile(path)
    assert files.size(path.removesuffix("+10")) == 32 * MIB - 4096
    assert files.unstrip_protocol(path) == f"{place}/data/4096+10"
    assert not files.exists(path.replace("data", "other"))


def test_parts_of_files_are_read(place):
    files, path = fsspec.url_to_fs(write(f"{place}/data/3", b"0123456789"))
    assert files.cat_file(path) == b"0123456789"
    assert files.cat_file(path, 2, 4) == b"23"
    assert files.cat_file(path, -3) == b"789"
    assert files.cat_file(path, 5, 99) == b"56789"
    assert files.cat_file(path, 4, 2) == b""
    assert files.cat_ranges([path, path], [0, 8], [2, 10]) == [b"01", b"89"]


def test_ranges_are_read_at_the_same_time(place):
    data = os.urandom(3 * MIB)
    files, path = fsspec.url_to_fs(write(f"{place}/data/3", data))
    starts = [number * 50_000 for number in range(60)]
    ends = [start + 70_000 for start in starts]
    read = files.cat_ranges([path] * 60, starts, ends)
    assert read == [data[start:end] for start, end in zip(starts, ends, strict=True)]
    assert files.cat_ranges([path, path], 5, [6, None]) == [data[5:6], data[5:]]
    assert files.cat_ranges([], [], []) == []

    # No read ends before all of them have begun.
    begun = threading.Barrier(RANGES_IN_FLIGHT, timeout=60)

    class Slow(VolumeFileSystem):
        def place(self, path):
            begun.wait()
            return super().place(path)

    read = Slow().cat_ranges([path] * RANGES_IN_FLIGHT, 1, 4)
    assert read == [data[1:4]] * RANGES_IN_FLIGHT


def test_a_range_that_fails_does_not_spoil_the_others(place):
    files, path = fsspec.url_to_fs(write(f"{place}/data/3", b"0123456789"))
    other = path.replace("/data/", "/other/")
    read = files.cat_ranges([path, other, path], [0, 0, 8], [2, 2, 10])
    assert read[::2] == [b"01", b"89"]
    assert type(read[1]) is nearflash.NoSuchVolume
    with pytest.raises(nearflash.NoSuchVolume):
        files.cat_ranges([path, other], 0, 2, on_error="raise")
    with pytest.raises(ValueError, match="equally many"):
        files.cat_ranges([path, path], [0], [1])


def test_local_files_are_copied(place, tmp_path):
    data = os.urandom(9 * MIB + 1)
    (tmp_path / "source").write_bytes(data)
    files, path = fsspec.url_to_fs(f"{place}/data/3+{len(data)}")
    told = fsspec.callbacks.Callback()
    files.put(str(tmp_path / "source"), path)
    files.get(path, str(tmp_path / "target"))
    assert (tmp_path / "target").read_bytes() == data
    files.get_file(path, str(tmp_path / "target"), callback=told)
    assert (told.size, told.value) == (len(data), len(data))
    with pytest.raises(nearflash.OutOfRange, match="has room for 5 bytes"):
        files.put_file(str(tmp_path / "source"), f"{place}/data/3+5")
    with pytest.raises(nearflash.OutOfRange, match="has room for 1 bytes"):
        files.pipe_file(f"{place}/data/3+1", b"12")


def test_coroutines_run_in_any_loop(place, tmp_path):
    files = fsspec.filesystem("nearflash", asynchronous=True)
    path = files._strip_protocol(f"{place}/data/5+10")

    async def use(data):
        await files._pipe_file(path, data)
        assert await files._cat_file(path, 2, -2) == data[2:-2]
        assert await files._cat_ranges([path, path], [0, 8], [2, None]) == [data[:2], data[8:]]
        assert (await files._info(path))["size"] == await files._size(path) == 10
        assert await files._ls(path, detail=False) == [path]
        assert await files._isfile(path)
        assert not await files._exists(path.replace("data", "other"))
        await files._get_file(path, str(tmp_path / "file"))
        assert (tmp_path / "file").read_bytes() == data
        await files._put_file(str(tmp_path / "file"), path)
        async with await files.open_async(path, "wb") as file:
            await file.write(data[::-1])
            with pytest.raises(nearflash.OutOfRange, match="has room for 10 bytes"):
                await file.write(b"1")
        async with await files.open_async(path) as file:
            assert [await file.read(3), await file.read(), await file.read()] == [
                data[:-4:-1], data[6::-1], b"",
            ]  # fmt: skip

    asyncio.run(use(b"0123456789"))
    asyncio.run(use(b"abcdefghij"))
    with files.open(path) as file:
        assert file.read() == b"jihgfedcba"


def test_a_cancelled_task_does_not_wait_for_the_node(start):
    node = start()
    files = VolumeFileSystem(asynchronous=True, silence_max=60, reconnect_max=0)
    path = f"{node.address}/data/0+5"

    async def cancel():
        assert len(await files._cat_file(path)) == 5
        node.stop()
        task = asyncio.create_task(files._cat_file(path))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    # Otherwise, the read would wait for the node until the program's end.
    node.process.send_signal(signal.SIGKILL)


def test_volumes_that_nobody_uses_are_closed(node, monkeypatch):
    monkeypatch.setattr(filesystem, "VOLUMES_MAX", 1)
    files = VolumeFileSystem(skip_instance_cache=True)
    paths = [f"{node.address}/data/0+5", f"{node.socket}/data/0+5"]
    first = weakref.ref(files.place(paths[0]).volume)
    file = files.open(paths[0])
    second = weakref.ref(files.place(paths[1]).volume)
    assert len(file.read()) == 5
    assert first() is not None
    file.close()
    del file
    assert first() is None
    assert second() is not None
    del files
    gc.collect()
    assert second() is None


def test_files_end_where_their_range_does(place):
    files, path = fsspec.url_to_fs(f"{place}/data/0+4")
    with files.open(path, "wb") as file:
        file.write(b"1234")
        with pytest.raises(nearflash.OutOfRange, match="has room for 4 bytes"):
            file.write(b"5")
    assert files.cat_file(path) == b"1234"
    for beyond in [f"{place}/data/{32 * MIB + 1}", f"{place}/data/0+{32 * MIB + 1}"]:
        with pytest.raises(nearflash.OutOfRange, match="ends past the"):
            fsspec.open(beyond, "rb").open()


def test_files_are_not_appended_to(place):
    for mode in ["ab", "xb", "r+b"]:
        with pytest.raises(ValueError, match="'rb' or 'wb'"):
            fsspec.open(f"{place}/data", mode).open()


def test_options_are_those_of_connect(place):
    with pytest.raises(ValueError, match="give both"):
        fsspec.open(f"{place}/data", key="app").open()


def test_a_file_system_goes_to_other_processes(node):
    files = VolumeFileSystem(silence_max=5)
    files.pipe_file(f"{node.address}/data/0", b"flash")
    other = pickle.loads(pickle.dumps(files))
    assert other.cat_file(f"{node.address}/data/0+5") == b"flash"
    child = os.fork()
    if child == 0:
        os._exit(0 if files.cat_file(f"{node.address}/data/0+5") == b"flash" else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_no_secret_goes_to_other_processes(start, tmp_path):
    node = start()
    secret = node.run("credential", "create", "app")["secret"]
    node.run("grant", "add", "app", "data", "--rights", "rw")
    file = tmp_path / "secret"
    file.write_text(secret)
    files = VolumeFileSystem(key="app", secret_file=str(file))
    path = f"{node.address}/data/0+5"
    files.pipe_file(path, b"flash")
    open_file = files.open(path)
    for sent in [pickle.dumps(files), pickle.dumps(open_file), files.to_json().encode()]:
        for form in [secret.encode(), bytes.fromhex(secret)]:
            assert form not in sent
        assert os.fsencode(file) in sent
    VolumeFileSystem.clear_instance_cache()
    other = pickle.loads(pickle.dumps(files))
    assert other is not files
    assert other.cat_file(path) == b"flash"
    # Each connect reads the file.
    file.write_text("00" * 32)
    VolumeFileSystem.clear_instance_cache()
    with pytest.raises(nearflash.AuthenticationFailed):
        pickle.loads(pickle.dumps(files)).cat_file(path)


def test_a_range_is_not_said_to_be_durable_if_its_connection_was_replaced(start):
    node = start()
    files = VolumeFileSystem()
    path = f"{node.address}/data/0"
    files.pipe_file(path, b"flash")

    def replace():
        node.end(signal.SIGKILL)
        start(node.address)
        # A read is repeated over a new connection, and a flush over that one succeeds.
        files.cat_file(f"{path}+5")
        return b"second"

    with pytest.raises(nearflash.OutcomeUnknown, match="write it again"):
        files._write(path, (part() for part in [lambda: b"first", replace]), None)
    files.pipe_file(path, b"flash")
    file = files.open(path, "wb", block_size=4)
    file.write(b"12345678")
    file.flush()
    replaced = files.place(path).volume.replaced_connections
    # As if the connection had been replaced since the file was opened.
    file._replaced = replaced - 1
    with pytest.raises(nearflash.OutcomeUnknown, match="write it again"):
        file.close()


def test_tls_is_a_storage_option(tmp_path):
    node = Node(tmp_path, "127.0.0.1:0,tls=required")
    try:
        key = node.grant("app", "--rights", "rw")
        options = {"key": key.key, "secret": key.secret}
        path = f"{node.address}/files/0"
        files = VolumeFileSystem(tls=True, **options)
        files.pipe_file(path, b"flash")
        assert files.cat_file(f"{path}+5") == b"flash"
        with pytest.raises(nearflash.ConnectionLost, match="direct\\+tls"):
            VolumeFileSystem(reconnect_max=0, **options).cat_file(f"{path}+5")
    finally:
        node.end()


def test_digests_are_a_storage_option(place):
    for digest in ["header", "data", "header,data"]:
        url = f"{place}/data/0+5"
        with fsspec.open(url, "wb", digest=digest) as file:
            file.write(b"flash")
        with fsspec.open(url, "rb", digest=digest) as file:
            assert file.read() == b"flash"
    for digest in ["", "crc", "header,", "data&key=app"]:
        with pytest.raises(ValueError, match="digest: "):
            VolumeFileSystem(digest=digest)


def test_pandas_reads_parquet(parquet, table):
    pandas.testing.assert_frame_equal(pandas.read_parquet(parquet), table)
    numbers = pandas.read_parquet(parquet, columns=["number"])
    pandas.testing.assert_frame_equal(numbers, table[["number"]])


def test_pandas_reads_csv(place, table):
    url = write(f"{place}/data/0", table.to_csv(index=False).encode())
    pandas.testing.assert_frame_equal(pandas.read_csv(url), table)


def test_pandas_writes_csv_itself(place, table):
    length = len(table.to_csv(index=False).encode())
    table.to_csv(f"{place}/data/8192", index=False)
    read = pandas.read_csv(f"{place}/data/8192+{length}")
    pandas.testing.assert_frame_equal(read, table)


def test_pyarrow_reads_parquet_and_datasets(parquet, table):
    files, path = fsspec.url_to_fs(parquet)
    read = pyarrow.parquet.read_table(path, filesystem=files)
    pandas.testing.assert_frame_equal(read.to_pandas(), table)
    handler = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(files))
    dataset = pyarrow.dataset.dataset(path, filesystem=handler, format="parquet")
    assert dataset.count_rows(filter=pyarrow.dataset.field("number") < 10) == 10


def test_pyarrow_writes_csv(place, table):
    files, path = fsspec.url_to_fs(f"{place}/data/0")
    with files.open(path, "wb") as file:
        pyarrow.csv.write_csv(pyarrow.Table.from_pandas(table), file)
        length = file.tell()
    with files.open(f"{path}+{length}", "rb") as file:
        read = pyarrow.csv.read_csv(file)
    pandas.testing.assert_frame_equal(read.to_pandas(), table)


def test_duckdb_queries_parquet(parquet):
    with duckdb.connect() as connection:
        connection.register_filesystem(fsspec.filesystem("nearflash"))
        query = f"select count(*), max(word) from read_parquet('{parquet}') where number < 1000"
        assert connection.sql(query).fetchall() == [(1000, "word 999")]


def test_dask_reads_parquet_and_csv(place, parquet, table):
    with dask.config.set(scheduler="threads"):
        assert dask.dataframe.read_parquet(parquet).number.sum().compute() == table.number.sum()
        url = write(f"{place}/data/{8 * MIB}", table.to_csv(index=False).encode())
        read = dask.dataframe.read_csv(url, blocksize=65536)
        assert read.npartitions > 1
        assert read.number.sum().compute() == table.number.sum()
