"""Files by name, and libraries that read and write them."""

import contextlib
import errno
import gc
import io
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import dask
import dask.dataframe
import duckdb
import fsspec
import pandas
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest
from conftest import BINARY, MIB, format_files

import nearflash
from nearflash import _named
from nearflash.filesystem import VolumeFileSystem


@pytest.fixture(scope="session")
def path_key(granting_node):
    """A credential with a grant on all files, and on no block of their volume."""
    key = granting_node.grant("path", "--path", "/", "--rights", "rw")
    granting_node.run("grant", "add", "path", "data", "--rights", "r")
    return key


NODES = {"owned by the node": "owning_node", "granted by path": "granting_node"}
"""The fixtures of the nodes that own the files."""


@pytest.fixture(params=["tcp", "local", *NODES])
def place(request, monkeypatch):
    """The URL of the volume of files, which is empty: over TCP and over the Unix socket, one whose
    node owns the files, and one for a client with a grant on its directories alone."""
    node = request.getfixturevalue(NODES.get(request.param, "node"))
    if request.param == "granted by path":
        key = request.getfixturevalue("path_key")
        # For the libraries, too, which get a URL.
        monkeypatch.setitem(fsspec.config.conf, "nearflash", key._asdict())
    url = f"nearflash://{node.socket if request.param == 'local' else node.address}/files"
    files, path = fsspec.url_to_fs(url)
    files.rm(path, recursive=True)
    yield url
    gc.collect()
    assert not [bucket for bucket in _named._buckets.values() if bucket._held], "a lease is left"


@pytest.fixture
def client(place):
    return nearflash.connect(direct(place), **credential())


@pytest.fixture
def table():
    numbers = range(20_000)
    words = [f"word {number}" for number in numbers]
    return pandas.DataFrame({"number": numbers, "part": [n % 3 for n in numbers], "word": words})


taken = pytest.mark.parametrize("place", ["tcp", "local"], indirect=True)
"""For tests of a volume that one process at a time takes."""

owned = pytest.mark.parametrize("place", ["owned by the node"], indirect=True)
"""For tests of a volume whose node owns the files."""


def credential():
    """The key and the secret of a test for a client with a grant on directories."""
    return fsspec.config.conf.get("nearflash", {})


@pytest.fixture
def reading_removed(request, place):
    """A context for reads of a file that was removed or replaced: from the blocks they fail, and if
    the node owns the files, they go on."""
    is_owned = request.node.callspec.params["place"] in NODES

    @contextlib.contextmanager
    def reading(match="was removed, replaced or changed"):
        if is_owned:
            yield
            return
        with pytest.raises(OSError, match=match) as stale:
            yield
        assert stale.value.errno == errno.ESTALE

    return reading


def direct(place):
    """The URL of the volume for other commands."""
    rest = place.removeprefix("nearflash://")
    return f"direct+local:{rest}" if rest.startswith("/") else f"direct://{rest}"


def opened(place):
    return fsspec.url_to_fs(place)


def test_files_are_changed_and_read_by_the_classes_of_the_package(client, reading_removed):
    files = client.files()
    with client.owner() as owner:
        owner.mkdir("/d")
        owner.put("/d/bytes", b"flash")
        data = os.urandom(9 * MIB)
        stat = owner.put("/d/stream", io.BytesIO(data))
        assert stat.size == len(data) == owner.stat("d/stream").size
        assert sum(length for _, length in stat.runs) >= len(data)
        file = files.open("/d/stream")
        assert file.read(5, 7) == data[5:12]
        assert file.readinto(MIB, target := bytearray(3 * MIB)) == 3 * MIB
        assert target == data[MIB : 4 * MIB]
        owner.rename("/d/stream", "/moved")
        assert file.read(0, 4) == data[:4]
        assert [name for name, _ in files.list("/")] == ["d", "moved"]
        assert [name for name, _ in files.list("/", "d")] == ["moved"]
        assert [name for name, _ in files.list("/", count_max=1)] == ["d"]
        with pytest.raises(ValueError, match="are not within"):
            file.read(len(data), 1)
        upload = owner.upload("/never")
        upload.write(b"1")
        upload.discard()
        with pytest.raises(ValueError, match="discarded already"):
            upload.commit()
        lost = owner.upload("/lost")
        owner.remove("/moved")
        with reading_removed("/d/stream of volume 'files' was removed"):
            assert file.read(0, 4) == data[:4]
    with pytest.raises(ValueError, match="was released"):
        lost.write(b"1")
    with pytest.raises(ValueError, match="was released"):
        owner.mkdir("/e")
    assert [name for name, _ in files.list("/d")] == ["bytes"]
    files.close()
    with pytest.raises(ValueError, match="closed"):
        files.list("/")


def test_errors_are_those_of_python(client):
    files = client.files()
    with client.owner() as owner:
        owner.mkdir("/d")
        owner.put("/f", b"1")
        for error, call in [
            (FileNotFoundError, lambda: files.stat("/missing")),
            (FileNotFoundError, lambda: owner.put("/missing/f", b"")),
            (FileExistsError, lambda: owner.put("/f", b"2")),
            (FileExistsError, lambda: owner.mkdir("/d")),
            (IsADirectoryError, lambda: owner.put("/d", b"", replace=True)),
            (IsADirectoryError, lambda: files.open("/d")),
            (NotADirectoryError, lambda: files.list("/f")),
            (NotADirectoryError, lambda: owner.mkdir("/f/d")),
        ]:
            with pytest.raises(error):
                call()
        owner.put("/d/f", b"")
        for number, call in [
            (errno.ENOTEMPTY, lambda: owner.remove("/d")),
            (errno.EINVAL, lambda: owner.rename("/d", "/d/e")),
            (errno.ENOSPC, lambda: owner.put("/big", io.BytesIO(bytes(40 * MIB)))),
            (errno.ENOSPC, lambda: owner.upload("/big", size=1 << 60)),
            (errno.ENAMETOOLONG, lambda: owner.mkdir("/" + 256 * "n")),
            (errno.ENAMETOOLONG, lambda: files.stat("/" + 4096 * "/")),
        ]:
            with pytest.raises(OSError, match=rf"Errno {number}\]"):
                call()
        for path in ["/d/../f", "/d/./f", "/f\0"]:
            with pytest.raises(ValueError, match="name"):
                owner.put(path, b"")
        owner.put("/" + 255 * "n", b"1")
        assert files.stat("/" * 3841 + 255 * "n").size == 1
    with pytest.raises(OSError, match="not formatted for files"):
        client.files("data")


def test_names_that_are_not_text_are_kept(place):
    files, path = opened(place)
    name = os.fsdecode(b"\xff\xfe")
    files.pipe_file(f"{path}/{name}", b"1")
    assert files.ls(path, detail=False) == [f"{path}/{name}"]
    assert files.cat_file(f"{path}/{name}") == b"1"


def test_directories_are_listed_and_matched(place):
    files, path = opened(place)
    files.makedirs(f"{path}/a/b/c")
    for name in ["a/1.bin", "a/b/2.bin", "a/b/c/3.bin", "a/b/c/4.txt"]:
        files.pipe_file(f"{path}/{name}", name.encode())
    assert [entry["type"] for entry in files.ls(f"{path}/a")] == ["file", "directory"]
    assert files.ls(f"{path}/a/1.bin", detail=False) == [f"{path}/a/1.bin"]
    assert files.glob(f"{path}/a/*.bin") == [f"{path}/a/1.bin"]
    assert len(files.glob(f"{path}/**/*.bin")) == 3
    assert files.find(f"{path}/a/b/c") == [f"{path}/a/b/c/3.bin", f"{path}/a/b/c/4.txt"]
    assert [len(names) for _, _, names in files.walk(path)] == [0, 1, 1, 2]
    info = files.info(f"{path}/a/b/2.bin")
    assert (info["name"], info["type"], info["size"]) == (f"{path}/a/b/2.bin", "file", 9)
    assert files.created(info["name"]) <= files.modified(info["name"]) == info["mtime"]
    assert files.isdir(path)
    assert files.exists(f"{path}/a")
    assert not files.exists(f"{path}/missing")
    assert files.du(path) == sum(map(len, ["a/1.bin", "a/b/2.bin", "a/b/c/3.bin", "a/b/c/4.txt"]))
    assert files.cat(f"{path}/a/b/c/*") == {
        f"{path}/a/b/c/3.bin": b"a/b/c/3.bin", f"{path}/a/b/c/4.txt": b"a/b/c/4.txt",
    }  # fmt: skip
    with pytest.raises(FileNotFoundError):
        files.ls(f"{path}/missing")


def test_a_long_directory_is_listed_in_parts(place, monkeypatch):
    monkeypatch.setattr(_named, "ENTRIES_AT_A_TIME", 3)
    files, path = opened(place)
    for count in range(8):
        files.pipe_file(f"{path}/{count}", b"")
        assert len(files.ls(path)) == count + 1


def test_files_and_directories_are_copied_moved_and_removed(place, tmp_path):
    files, path = opened(place)
    data = os.urandom(9 * MIB + 1)
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "f").write_bytes(data)
    files.put(str(tmp_path / "source"), f"{path}/d", recursive=True)
    assert files.cat_file(f"{path}/d/f") == data
    files.get(f"{path}/d", str(tmp_path / "target"), recursive=True)
    assert (tmp_path / "target" / "f").read_bytes() == data
    files.cp(f"{path}/d", f"{path}/e", recursive=True)
    files.mv(f"{path}/e/f", f"{path}/g")
    files.mv(f"{path}/g", f"{path}/e")
    files.mv(f"{path}/e", f"{path}/h")
    assert files.find(path) == [f"{path}/d/f", f"{path}/h/g"]
    assert files.cat_file(f"{path}/h/g", -3) == data[-3:]
    with pytest.raises(IsADirectoryError):
        files.rm(f"{path}/h")
    with pytest.raises(OSError, match="not empty"):
        files.rmdir(f"{path}/h")
    files.rm(f"{path}/h", recursive=True)
    files.rm(f"{path}/d/*")
    files.rmdir(f"{path}/d")
    assert files.ls(path) == []
    with pytest.raises(FileExistsError):
        files.makedirs(path)
    files.makedirs(f"{path}/d", exist_ok=True)
    files.makedirs(f"{path}/d", exist_ok=True)
    with pytest.raises(FileNotFoundError):
        files.mkdir(f"{path}/x/y", create_parents=False)
    with pytest.raises(FileExistsError):
        files.pipe_file(f"{path}/d/f", b"1") or files.pipe_file(f"{path}/d/f", b"2", mode="create")
    assert files.cat_file(f"{path}/d/f") == b"1"


def test_a_file_appears_when_it_is_closed(place):
    files, path = opened(place)
    with files.open(f"{path}/f", "wb") as file:
        assert file.write(b"1234") == 4
        assert file.tell() == 4
        file.flush()
        assert not files.exists(f"{path}/f")
    assert files.cat_file(f"{path}/f") == b"1234"
    with files.open(f"{path}/f", "wb") as file:
        file.write(b"56")
        assert files.cat_file(f"{path}/f") == b"1234"
    assert files.cat_file(f"{path}/f") == b"56"
    with pytest.raises(FileExistsError):
        files.open(f"{path}/f", "xb")
    with pytest.raises(ValueError, match="'rb', 'wb' or 'xb'"):
        files.open(f"{path}/f", "ab")
    with pytest.raises(ValueError, match="closed"):
        file.write(b"7")


@pytest.mark.filterwarnings("ignore:.*was not written:RuntimeWarning")
def test_a_write_that_fails_leaves_nothing(place, client, table):
    files, path = opened(place)
    with client.owner() as owner:
        free = owner.free

    class Broken(Exception):
        pass

    def write_and_fail(file):
        file.write(bytes(5 * MIB))
        raise Broken

    with pytest.raises(Broken), files.open(f"{path}/f", "wb") as file:
        write_and_fail(file)
    with pytest.raises(Broken), fsspec.open(f"{place}/f", "wb") as file:
        write_and_fail(file)
    file = files.open(f"{path}/f", "wb")
    with pytest.raises(Broken), contextlib.closing(file):
        write_and_fail(file)
    file = files.open(f"{path}/f", "wb")
    file.write(b"1")
    del file
    gc.collect()
    with pytest.raises(OSError, match="no space"), files.open(f"{path}/f", "wb") as file:
        file.write(bytes(40 * MIB))
    with pytest.raises(pyarrow.ArrowException):
        pandas.DataFrame({"a": [1, "b", object()]}).to_parquet(f"{place}/f", engine="pyarrow")
    assert files.ls(path) == []
    with client.owner() as owner:
        assert owner.free == free
    try:
        raise Broken
    except Broken:
        # Begun here, so the exception is not the file's.
        with files.open(f"{path}/f", "wb") as file:
            file.write(b"1")
    assert files.cat_file(f"{path}/f") == b"1"


def test_a_dataset_that_fails_leaves_the_former_file(place):
    files, path = opened(place)
    table = pyarrow.table({"number": list(range(1000))})
    pyarrow.dataset.write_dataset(table, f"{path}/t", format="parquet", filesystem=files)
    [name] = files.ls(f"{path}/t", detail=False)
    former = files.cat_file(name)
    # In a process of its own, which pyarrow may end with SIGABRT: it still closes its file on a
    # thread, for which it waits at the end, when no thread can enter Python any more.
    program = """
import json
import os
import sys
import fsspec
import pyarrow
import pyarrow.dataset

files, path = fsspec.url_to_fs(sys.argv[1], **json.loads(sys.argv[2]))
schema = pyarrow.schema([("number", pyarrow.int64())])

def batches():
    for number in range(64):
        yield pyarrow.record_batch([list(range(100_000))], schema=schema)
        if number == 20:
            raise ValueError("the source is broken")

try:
    pyarrow.dataset.write_dataset(
        batches(), f"{path}/t", schema=schema, format="parquet", filesystem=files,
        existing_data_behavior="overwrite_or_ignore", max_rows_per_group=100_000,
    )
except ValueError as error:
    print(error, flush=True)
os._exit(0)
"""
    command = [sys.executable, "-W", "ignore", "-c", program, place, json.dumps(credential())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert "the source is broken" in done.stdout + done.stderr, done
    assert files.ls(f"{path}/t", detail=False) == [name]
    assert files.cat_file(name) == former


def test_a_file_that_is_replaced_is_whole_or_refused_for_who_reads_it(place, reading_removed):
    files, path = opened(place)
    data = os.urandom(3 * MIB)
    files.pipe_file(f"{path}/f", data)
    files.pipe_file(f"{path}/kept", data)
    with files.open(f"{path}/f") as file, files.open(f"{path}/kept") as kept:
        assert file.read(10) == data[:10]
        for _ in range(9):
            files.pipe_file(f"{path}/f", os.urandom(3 * MIB))
        with reading_removed():
            assert file.read(2 * MIB) == data[10 : 2 * MIB + 10]
        file.seek(10)
        with reading_removed():
            assert file.readinto(target := bytearray(2 * MIB)) == 2 * MIB
            assert target == data[10 : 2 * MIB + 10]
        # These were read while the file was there.
        file.seek(10)
        assert file.read(10) == data[10:20]
        files.mv(f"{path}/kept", f"{path}/moved")
        assert kept.read() == data


def test_readinto_fills_any_buffer(place):
    files, path = opened(place)
    data = os.urandom(3 * MIB + 5)
    files.pipe_file(f"{path}/f", data)
    with files.open(f"{path}/f") as file:
        target = bytearray(2 * MIB)
        assert file.readinto(target) == 2 * MIB
        assert target == data[: 2 * MIB]
        assert file.tell() == 2 * MIB
        assert file.readinto(target) == MIB + 5
        assert target[: MIB + 5] == data[2 * MIB :]
        assert file.readinto(target) == 0
    reads = files.cat_ranges([f"{path}/f"] * 9, [n * 100_000 for n in range(9)], 10**6)
    assert reads == [data[n * 100_000 : 10**6] for n in range(9)]


def test_threads_read_at_the_same_time(place, client):
    with client.owner() as owner:
        owner.put("/f", data := os.urandom(4 * MIB))
    file = client.files().open("/f")

    def read(start):
        return all(file.read(start + n, 70_000) == data[start + n :][:70_000] for n in range(50))

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(read, range(0, 8 * 400_000, 400_000)))


def test_threads_write_several_files_at_once(place):
    files, path = opened(place)
    begun = threading.Barrier(4, timeout=60)

    def write(number):
        with files.open(f"{path}/{number}", "wb") as file:
            begun.wait()
            for _ in range(5):
                file.write(bytes([number]) * MIB)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    for number in range(4):
        assert files.cat_file(f"{path}/{number}") == bytes([number]) * 5 * MIB


WRITER = """
import sys, fsspec
files, path = fsspec.url_to_fs(sys.argv[1], take_timeout=float(sys.argv[3]))
with files.open(f"{path}/{sys.argv[2]}", "wb") as file:
    print("open", flush=True)
    file.write(sys.argv[2].encode())
    sys.stdin.read()
"""


def writer(place, name, patience):
    command = [sys.executable, "-c", WRITER, place, name, str(patience)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@taken
def test_processes_write_in_turn_and_a_late_one_is_told_who_has_the_volume(place, client):
    files, path = opened(place)
    with client.owner(), pytest.raises(BlockingIOError, match=f"by another .* {os.getpid()}"):
        client.owner()
    with writer(place, "first", 60) as first:
        assert first.stdout.readline() == "open\n"
        impatient = VolumeFileSystem(take_timeout=0)
        with pytest.raises(BlockingIOError, match=f"by another process: .*process {first.pid}"):
            impatient.pipe_file(f"{path}/second", b"2")
        with writer(place, "third", 60) as third:
            first.stdin.close()
            assert first.wait() == 0, first.stderr.read()
            assert third.stdout.readline() == "open\n"
            third.stdin.close()
            assert third.wait() == 0, third.stderr.read()
    assert files.cat(files.find(path)) == {f"{path}/first": b"first", f"{path}/third": b"third"}


@taken
def test_a_volume_is_kept_on_request(place, client):
    files, path = VolumeFileSystem(take=True), opened(place)[1]
    files.pipe_file(f"{path}/1", b"1")
    with pytest.raises(BlockingIOError):
        client.owner()
    files.pipe_file(f"{path}/2", b"2")
    files.release()
    client.owner().close()


@owned
def test_processes_write_and_read_the_files_of_a_node_at_the_same_time(place, client, table):
    files, path = opened(place)
    part = table[table.part == 0]
    with writer(place, "first", 0) as first, writer(place, "second", 0) as second:
        # Both have a file open, and so has this process.
        assert [first.stdout.readline(), second.stdout.readline()] == ["open\n", "open\n"]
        part.to_parquet(f"{place}/third")
        assert files.ls(path, detail=False) == [f"{path}/third"]
        command = [BINARY, "files", "put", "-", f"{direct(place)}/fourth"]
        subprocess.run(command, input=b"4", check=True, capture_output=True)
        assert files.cat_file(f"{path}/fourth") == b"4"
        command = [BINARY, "files", "get", f"{direct(place)}/third", "-"]
        got = subprocess.run(command, check=True, capture_output=True).stdout
        pandas.testing.assert_frame_equal(pandas.read_parquet(io.BytesIO(got)), part)
        for one in [first, second]:
            one.stdin.close()
            assert one.wait() == 0, one.stderr.read()
    found = files.cat(files.find(path))
    assert [found[f"{path}/{name}"] for name in ["first", "second"]] == [b"first", b"second"]
    # Owners do not exclude each other.
    with client.owner() as one, client.owner() as other:
        one.put("/fourth", b"5", replace=True)
        assert other.stat("/fourth").size == 1
        other.remove("/fourth")
        with pytest.raises(FileNotFoundError):
            one.stat("/fourth")


@owned
def test_a_writer_that_is_killed_leaves_nothing_at_the_node(place, client):
    files, path = opened(place)
    with client.owner() as owner:
        free = owner.free
        with writer(place, "killed", 0) as process:
            assert process.stdout.readline() == "open\n"
            process.kill()
        files.pipe_file(f"{path}/after", b"")
        assert files.ls(path, detail=False) == [f"{path}/after"]
        files.rm_file(f"{path}/after")
        # The node sees the end of the connection some time later.
        while owner.free != free:
            pass


def test_a_grant_on_a_directory_is_one_to_read_and_write_there(granting_node, tmp_path, table):
    admin = granting_node.grant("admin", "--rights", "rw")
    owner = nearflash.connect(f"direct://{granting_node.address}/files", *admin).owner()
    for directory in ["/granted", "/granted/d", "/granted/own", "/other"]:
        owner.mkdir(directory)
    data = os.urandom(3 * MIB + 5)
    owner.put("/granted/d/1.bin", data)
    owner.put("/granted/d/2.bin", b"2")
    owner.put("/other/3.bin", b"3")
    app = granting_node.grant("reader", "--path", "/granted", "--rights", "r")
    granting_node.run("grant", "add", "reader", "files", "--path", "/granted/own", "--rights", "rw")
    (tmp_path / "secret").write_text(app.secret)
    files = VolumeFileSystem(key=app.key, secret_file=str(tmp_path / "secret"))
    root = f"{granting_node.address}/files"
    path = f"{root}/granted"

    # The directories above show the way.
    assert files.ls(root, detail=False) == [path]
    assert files.ls(path, detail=False) == [f"{path}/d", f"{path}/own"]
    assert files.info(f"{path}/d/1.bin")["size"] == len(data)
    assert files.glob(f"{root}/**/*.bin") == [f"{path}/d/1.bin", f"{path}/d/2.bin"]
    assert files.cat(files.find(root)) == {f"{path}/d/1.bin": data, f"{path}/d/2.bin": b"2"}
    assert files.cat_file(f"{path}/d/1.bin", -7, -2) == data[-7:-2]
    with files.open(f"{path}/d/1.bin") as file:
        file.seek(MIB)
        assert file.read(10) == data[MIB : MIB + 10]
    for call in [
        lambda: files.cat_file(f"{root}/other/3.bin"),
        lambda: files.ls(f"{root}/other"),
        lambda: files.info(f"{root}/missing"),
        lambda: files.makedirs(f"{root}/new/d"),
        lambda: files.pipe_file(f"{path}/d/2.bin", b"3"),
        lambda: files.mkdir(f"{path}/own"),
    ]:
        with pytest.raises(PermissionError, match=r"/.*: no grant covers") as denied:
            call()
        assert denied.value.errno == errno.EACCES
    assert not files.exists(f"{root}/other/3.bin")

    url = f"nearflash://{path}/own/table"
    options = files.storage_options
    table.to_parquet(url, storage_options=options)
    read = pandas.read_parquet(url, storage_options=options)
    pandas.testing.assert_frame_equal(read, table)
    files.makedirs(f"{path}/own/a/b")
    files.makedirs(f"{path}/own", exist_ok=True)
    files.cp(f"{path}/d/2.bin", f"{path}/own/copy")
    assert owner.stat("/granted/own/copy").size == 1
    file = files.open(f"{path}/own/copy")
    owner.rename("/granted/own/copy", "/other/copy")
    with pytest.raises(PermissionError, match="no grant covers"):
        file.read()
    owner.rename("/other/copy", "/granted/own/back")
    assert file.read() == b"2"


@pytest.mark.parametrize("place", [*NODES], indirect=True)
def test_files_that_are_not_used_any_more_are_closed_at_the_node(place, client):
    with client.owner() as owner, client.files() as files:
        free = owner.free
        owner.put("/f", bytes(MIB))
        file = files.open("/f")
        owner.remove("/f")
        assert owner.free == free - MIB
        assert file.read(5, 7) == bytes(7)
        del file
        files.stat("/")
        assert owner.free == free


def test_files_of_a_transaction_appear_at_its_end(place):
    files, path = opened(place)
    with files.transaction:
        for name in "12":
            with files.open(f"{path}/{name}", "wb") as file:
                file.write(name.encode())
        assert files.ls(path) == []
    assert files.cat(files.find(path)) == {f"{path}/1": b"1", f"{path}/2": b"2"}

    def fail():
        with files.transaction:
            with files.open(f"{path}/3", "wb") as file:
                file.write(b"3")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert len(files.ls(path)) == 2


def write_in_child(place, files):
    files.pipe_file(f"{place}/child", b"child")
    assert files.cat_file(f"{place}/parent") == b"parent"


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_a_child_opens_its_own_connections(place, how):
    files, path = opened(place)
    files.pipe_file(f"{path}/parent", b"parent")
    assert pickle.loads(pickle.dumps(files)).cat_file(f"{path}/parent") == b"parent"
    child = multiprocessing.get_context(how).Process(target=write_in_child, args=(path, files))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert files.cat_file(f"{path}/child") == b"child"


def test_ranges_are_not_written_once_the_volume_holds_files(start):
    node = start()
    files = VolumeFileSystem()
    path = f"{node.address}/data"
    files.pipe_file(f"{path}/0", b"range")
    format_files(f"direct://{node.address}/data")
    with pytest.raises(FileNotFoundError):
        files.pipe_file(f"{path}/missing/0", b"range")
    files.pipe_file(f"{path}/0", b"file")
    assert files.ls(path, detail=False) == [f"{path}/0"]
    with pytest.raises(NotImplementedError, match="not in a volume of files"):
        files.rm_file(f"{node.address}/files/0")


def test_pandas_writes_a_directory_that_duckdb_reads_with_a_wildcard(place, table):
    files, path = opened(place)
    files.mkdir(f"{path}/table")
    for part in range(3):
        table[table.part == part].to_parquet(f"{place}/table/{part}.parquet")
    with duckdb.connect() as connection:
        connection.register_filesystem(fsspec.filesystem("nearflash"))
        query = f"select count(*), sum(number) from read_parquet('{place}/table/*.parquet')"
        assert connection.sql(query).fetchall() == [(20_000, table.number.sum())]
        connection.sql(f"copy (select 7 as seven) to '{place}/seven.parquet'")
    assert pandas.read_parquet(f"{place}/seven.parquet").seven.tolist() == [7]
    read = pandas.read_parquet(f"{place}/table")
    pandas.testing.assert_frame_equal(read.sort_values("number", ignore_index=True), table)


def test_pyarrow_writes_and_reads_partitions(place, table):
    files, path = opened(place)
    rows = pyarrow.Table.from_pandas(table)
    partitioning = pyarrow.dataset.partitioning(pyarrow.schema([("part", "int64")]), flavor="hive")
    how = {"format": "parquet", "partitioning": partitioning}
    pyarrow.dataset.write_dataset(rows, f"{path}/set", filesystem=files, **how)
    assert len(files.glob(f"{path}/set/part=*/*.parquet")) == 3
    found = pyarrow.dataset.dataset(f"{path}/set", filesystem=files, **how)
    part = found.to_table(filter=pyarrow.dataset.field("part") == 2)
    assert sorted(part["number"].to_pylist()) == list(range(2, 20_000, 3))
    with duckdb.connect() as connection:
        connection.register_filesystem(files)
        query = f"from read_parquet('{place}/set/**/*.parquet', hive_partitioning = true)"
        counted = connection.sql(f"select part, count(*) {query} group by part order by part")
        assert counted.fetchall() == [(0, 6667), (1, 6667), (2, 6666)]


def test_dask_writes_and_reads_a_directory(place, table):
    with dask.config.set(scheduler="threads"):
        frame = dask.dataframe.from_pandas(table, npartitions=4)
        frame.to_parquet(f"{place}/frame")
        assert dask.dataframe.read_parquet(f"{place}/frame").number.sum().compute() == 199990000
        frame.to_csv(f"{place}/csv/*.csv")
        assert len(dask.dataframe.read_csv(f"{place}/csv/*.csv")) == len(table)
