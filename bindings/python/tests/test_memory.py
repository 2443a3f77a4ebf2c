"""Reads and writes of arrays, and reads without a copy."""

import asyncio
import gc

import numpy
import pytest
from conftest import MIB
from test_queue_pair import settle

import nearflash
from nearflash import aio

ARRAYS = [
    numpy.arange(1000, dtype="u1"),
    numpy.arange(1000, dtype=">f8"),
    numpy.arange(24, dtype="c16").reshape(2, 3, 4),
    numpy.array([True, False, True]),
    numpy.array([(1, 2.5), (3, 4.5)], dtype=[("number", "i4"), ("value", "f8")]),
    numpy.array(["2026-11-23", "2026-11-24"], dtype="M8[D]"),
    numpy.array(7.5),
]


def with_pair(url, post):
    """Posts an operation on a queue pair of its own. Returns its result."""
    with nearflash.connect(url).queue_pair() as pair:
        token = post(pair)
        return settle(pair)[token]


def with_aio(url, operate):
    """Awaits an operation on a volume of its own. Returns its result."""

    async def run():
        async with await aio.open(url) as volume:
            return await operate(volume)

    return asyncio.run(run())


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: str(array.dtype))
def test_arrays_of_any_type_are_written_and_read_into(volume, url, array):
    writes = [
        lambda: volume.write(512, array),
        lambda: with_pair(url, lambda pair: pair.post_write(512, array)),
        lambda: with_aio(url, lambda volume: volume.write(512, array)),
    ]
    reads = [
        lambda target: volume.readinto(512, target),
        lambda target: with_pair(url, lambda pair: pair.post_readinto(512, target)),
        lambda target: with_aio(url, lambda volume: volume.readinto(512, target)),
    ]
    for write in writes:
        volume.write(512, bytes(16 * 1024))
        assert write() == array.nbytes
        assert volume.read(512, array.nbytes) == array.tobytes()
    for read in reads:
        target = numpy.zeros_like(array)
        assert read(target) == array.nbytes
        assert numpy.array_equal(target, array)


def test_a_part_of_an_array_is_read_into(volume, url):
    volume.write(0, bytes(range(16)))
    for read in [
        lambda target: volume.readinto(0, target),
        lambda target: with_pair(url, lambda pair: pair.post_readinto(0, target)),
        lambda target: with_aio(url, lambda volume: volume.readinto(0, target)),
    ]:
        rows = numpy.zeros((3, 16), "u1")
        assert read(rows[1]) == 16
        assert rows[1].tobytes() == bytes(range(16))
        assert not rows[0].any()
        assert not rows[2].any()
        for refused in [rows[:, ::2], rows.T]:
            with pytest.raises((BufferError, ValueError), match="contiguous"):
                read(refused)
        rows.flags.writeable = False
        with pytest.raises((BufferError, ValueError), match="read-only"):
            read(rows)


@pytest.mark.parametrize("length", [1, 4096, 100_001, 3 * MIB + 1])
def test_a_view_has_what_was_written(volume, url, length):
    data = numpy.random.default_rng(length).bytes(length)
    volume.write(4095, data)
    for view in [
        with_pair(url, lambda pair: pair.post_read_view(4095, length)),
        with_aio(url, lambda volume: volume.read_view(4095, length)),
    ]:
        # The view outlives its queue pair.
        assert isinstance(view, memoryview)
        assert view.readonly
        assert view == data
        array = numpy.frombuffer(view, "u1")
        del view
        assert array.tobytes() == data
        assert not array.flags.writeable


def test_a_view_of_nothing_is_empty(url):
    assert with_aio(url, lambda volume: volume.read_view(0, 0)) == b""


def test_later_reads_leave_a_view_alone(volume, url):
    volume.write(0, b"a" * 4096 + b"b" * 4096)
    with nearflash.connect(url).queue_pair() as pair:
        token = pair.post_read_view(0, 4096)
        view = settle(pair)[token]
        for _ in range(10):
            other = pair.post_read(4096, 4096)
            assert settle(pair)[other] == b"b" * 4096
        assert view == b"a" * 4096


def test_views_are_the_memory_that_is_shared_with_the_node(node):
    with nearflash.connect(node.local_url).queue_pair(shared_length=4 * MIB) as pair:
        views = []

        def read_views():
            for _ in range(8):
                token = pair.post_read_view(0, MIB)
                views.append(settle(pair)[token])

        with pytest.raises(nearflash.NoMemory):
            read_views()
        assert len(views) > 0
        # The memory is free again when the views are gone, and not before.
        array = numpy.frombuffer(views.pop())
        with pytest.raises(nearflash.NoMemory):
            pair.post_read(0, MIB)
        del array
        gc.collect()
        token = pair.post_read(0, MIB)
        assert len(settle(pair)[token]) == MIB


def test_an_abandoned_or_failed_read_has_no_view(url):
    with nearflash.connect(url).queue_pair() as pair:
        token = pair.post_read_view(0, 1)
        assert pair.abandon(token)
        failed = pair.post_read_view(pair.size, 1)
        assert {token: type(end) for token, end in settle(pair).items()} == {
            failed: nearflash.OutOfRange
        }
