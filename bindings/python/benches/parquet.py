"""DuckDB scans Parquet: a volume through fsspec, compared with a local file.

    python benches/parquet.py target/release/nearflash FOLDER [--gib 1] [--rounds 7] [--names]

Writes a file of random values to FOLDER, which a later run uses again, and copies it to the volumes
of two nodes: one serves a file in FOLDER, the other memory. Then scans all of them in turn, in each
round, and prints the medians and quartiles of the times, and of the ratios of the local time to the
other; then the same of the processor time of this process and the nodes.

The node reads its file without the page cache (O_DIRECT). So it is compared with the local file
that the page cache does not hold, and the node on memory with the local file that the page cache
holds. With `--names`, the volumes are formatted for files, and hold the file by its name.
DuckDB's own cache of files is off, so that every scan reads every byte.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator

import duckdb
import fsspec

ROWS_PER_GIB = 32_400_000

TABLE = """
copy (
    select
        i as id,
        (hash(i) % 1000000)::integer as customer,
        (hash(i + 1) % 10000000) / 100 as price,
        (hash(i + 2) % 50)::integer as quantity,
        date '2020-01-01' + (hash(i + 3) % 2000)::integer as day,
        ['open', 'paid', 'sent'][(hash(i + 4) % 3 + 1)::integer] as status,
        md5(i::varchar)[:16] as comment,
    from range({rows}) rows(i)
) to '{path}' (format parquet)
"""

QUERIES = {
    "all columns": """
        select count(*), sum(id), sum(customer), round(sum(price)), sum(quantity),
            max(day), max(status), max(comment)
        from read_parquet('{url}')
    """,
    "three columns": """
        select status, round(sum(price)), count(*) from read_parquet('{url}')
        where quantity < 10 group by status order by status
    """,
}


@contextlib.contextmanager
def serving(
    binary: str, folder: pathlib.Path, device: str, size: int
) -> Iterator[tuple[int, list[str]]]:
    """A node with one volume. Yields its process id, and its URLs over TCP and shared memory."""
    folder.mkdir()
    command = [
        binary, "serve", "--device", f"flash={device}", "--volume", f"data={size}@flash",
        "--direct", "127.0.0.1:0", "--direct-local", str(folder / "direct.sock"),
        "--nvme-tcp", "127.0.0.1:0", "--data-dir", str(folder / "state"),
    ]  # fmt: skip
    with open(folder / "node.log", "w") as log:
        node = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    try:
        assert node.stdout is not None
        ready = node.stdout.readline()
        assert ready, (folder / "node.log").read_text()
        address = json.loads(ready)["direct"][0]
        urls = [f"nearflash://{address}/data/0", f"nearflash://{folder}/direct.sock/data/0"]
        yield node.pid, urls
    finally:
        node.terminate()
        node.wait()


def processor_time(nodes: list[int]) -> float:
    """The processor time in seconds of this process and the nodes."""
    fields = [pathlib.Path(f"/proc/{node}/stat").read_text().split()[13:15] for node in nodes]
    ticks = sum(int(user) + int(system) for user, system in fields)
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def scan(url: str, query: str, nodes: list[int]) -> tuple[float, float, list[tuple]]:
    """The time and the processor time in seconds of a scan with a new connection, and the rows."""
    with duckdb.connect() as connection:
        connection.execute("set enable_external_file_cache = false")
        connection.register_filesystem(fsspec.filesystem("nearflash"))
        began, worked = time.perf_counter(), processor_time(nodes)
        rows = connection.execute(query.format(url=url)).fetchall()
        return time.perf_counter() - began, processor_time(nodes) - worked, rows


def drop_from_page_cache(path: pathlib.Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def spread(values: list[float]) -> str:
    first, median, third = statistics.quantiles(values, n=4, method="inclusive")
    return f"{median:.2f} ({first:.2f} to {third:.2f})"


def compare(
    query: str, rounds: int, urls: dict[str, str], nodes: list[int], cold: Callable[[], None]
) -> None:
    names, taken = list(urls), {name: [] for name in urls}
    answers = set()
    for number in range(rounds):
        # Each takes every place of the round in turn.
        for name in names[number % len(names) :] + names[: number % len(names)]:
            if name == "local file, cold":
                cold()
            elif name == "local file, warm":
                scan(urls[name], query, nodes)
            *times, rows = scan(urls[name], query, nodes)
            taken[name].append(times)
            answers.add(str(rows))
    assert len(answers) == 1, answers
    for name in names:
        local = "local file, cold" if "on a file" in name else "local file, warm"
        print(f"  {name}, ratios to the {local}")
        for what, ours, theirs in zip(
            ["time", "processor time"],
            zip(*taken[name], strict=True),
            zip(*taken[local], strict=True),
            strict=True,
        ):
            ratios = [one / other for one, other in zip(theirs, ours, strict=True)]
            print(f"    {what}: {spread(list(ours))} s, ratio {spread(ratios)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("folder")
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--names", action="store_true")
    options = parser.parse_args()
    path = pathlib.Path(options.folder).resolve() / f"{options.gib}gib.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        duckdb.sql(TABLE.format(rows=int(options.gib * ROWS_PER_GIB), path=path))
    length = path.stat().st_size
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as folder,
        contextlib.ExitStack() as stack,
    ):
        place = pathlib.Path(folder).resolve()
        urls = {"local file, warm": str(path), "local file, cold": str(path)}
        size = (-(-length // (1 << 20)) << 20) + (32 << 20)
        devices = {
            "a file": f"file:{place / 'flash.img'},size={2 * size}",
            "memory": f"ram:{2 * size}",
        }
        nodes = []
        for what, device in devices.items():
            node = serving(options.binary, place / what.split()[-1], device, size)
            pid, places = stack.enter_context(node)
            nodes.append(pid)
            if options.names:
                volume = places[0].removesuffix("/0").replace("nearflash", "direct")
                subprocess.run([options.binary, "files", "format", volume], check=True)
                places = [url.removesuffix("0") + "table.parquet" for url in places]
            else:
                places = [f"{url}+{length}" for url in places]
            for how, url in zip(["TCP", "shared memory"], places, strict=True):
                urls[f"node on {what}, {how}"] = url
            fsspec.filesystem("nearflash").put_file(str(path), places[-1])
        print(f"{length / 2**30:.2f} GiB, {options.rounds} rounds; median and quartiles")
        for name, query in QUERIES.items():
            print(name)
            compare(query, options.rounds, urls, nodes, lambda: drop_from_page_cache(path))


if __name__ == "__main__":
    main()
