"""Volumes for asyncio."""

import asyncio
import functools
import gc
import os
import signal
import warnings

import pytest
from conftest import MIB

import nearflash
from nearflash import aio


def with_loop(test):
    """Runs a test in its own event loop."""

    @functools.wraps(test)
    def run(*arguments, **named):
        asyncio.run(test(*arguments, **named))

    return run


@with_loop
async def test_what_was_written_is_read(url):
    async with await aio.open(url) as volume:
        assert await volume.write(3, b"flash") == 5
        assert await volume.read(3, 5) == b"flash"
        target = bytearray(5)
        assert await volume.readinto(3, target) == 5
        assert target == b"flash"
        assert await volume.read(3, 0) == b""
        assert await volume.write(3, b"") == 0
        await volume.flush()
        await volume.discard(0, 20 * MIB)
        await volume.write(8, bytes(8))
        assert await volume.fetch_add(8, 3) == 0
        assert await volume.compare_and_swap(8, 3, 5) == 3
        assert await volume.fetch_add(8, 0) == 5
        assert (volume.name, volume.size, volume.block_size) == ("data", 32 * MIB, 512)
        assert repr(volume) == "<nearflash.aio.Volume 'data'>"


@with_loop
async def test_a_client_opens_volumes(node):
    client = await aio.connect(f"direct://{node.address}")
    assert client.volume_name is None
    async with await client.open("data") as volume:
        assert volume.uuid.version is not None
    with pytest.raises(nearflash.NoSuchVolume):
        await client.open("other")


@with_loop
async def test_long_reads_and_writes_are_whole(url):
    data = os.urandom(20 * MIB + 3)
    async with await aio.open(url, depth=4) as volume:
        assert await volume.write(4095, data) == len(data)
        assert await volume.read(4095, len(data)) == data
        with pytest.raises(nearflash.OutOfRange):
            await volume.read(0, 1 << 60)
        with pytest.raises(nearflash.OutOfRange):
            await volume.write(20 * MIB, data)


@with_loop
async def test_zeroes_are_written(url):
    async with await aio.open(url, depth=4) as volume:
        for length in [0, 1, 5 * MIB + 3]:
            await volume.write(4094, b"x" * (6 * MIB))
            await volume.write_zeroes(4095, length)
            assert await volume.read(4094, 6 * MIB) == b"x" + bytes(length) + b"x" * (
                6 * MIB - length - 1
            )
        with pytest.raises(nearflash.OutOfRange):
            await volume.write_zeroes(20 * MIB, 20 * MIB)


@with_loop
async def test_more_tasks_than_the_queue_pair_takes_have_their_turn(url):
    async with await aio.open(url, depth=4) as volume:
        await volume.write(0, bytes(range(200)))
        assert await volume.write(4096, bytes(8)) == 8
        reads = [volume.read(place, 1) for place in range(200)]
        assert b"".join(await asyncio.gather(*reads)) == bytes(range(200))
        await asyncio.gather(*(volume.fetch_add(4096, 1) for _ in range(200)))
        assert await volume.fetch_add(4096, 0) == 200


@with_loop
async def test_a_cancelled_task_touches_nothing_afterwards(url):
    async with await aio.open(url, depth=2) as volume:
        await volume.write(0, b"x" * 4096)
        targets = [bytearray(4096) for _ in range(50)]
        tasks = [asyncio.create_task(volume.readinto(0, target)) for target in targets]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        for target in targets:
            target[:] = b"mine"  # raises while its buffer is held
        # The cancelled reads do not affect later operations.
        assert await volume.read(0, 2) == b"xx"
        assert targets == [b"mine"] * 50


@with_loop
async def test_a_long_read_that_is_cancelled_lets_go_of_its_buffer(url):
    async with await aio.open(url) as volume:
        target = bytearray(20 * MIB)
        task = asyncio.create_task(volume.readinto(0, target))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        target.append(1)
        assert len(await volume.read(0, 2)) == 2


@with_loop
async def test_those_in_line_are_called_when_others_give_up(url):
    async with await aio.open(url, depth=1) as volume:
        tasks = [asyncio.create_task(volume.read(0, 1)) for _ in range(30)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        bad = [asyncio.create_task(volume.read(volume.size, 1)) for _ in range(3)]
        ends = await asyncio.gather(*tasks[1::2], *bad, return_exceptions=True)
        assert [type(end) for end in ends] == [bytes] * 15 + [nearflash.OutOfRange] * 3


@with_loop
async def test_a_closed_volume_takes_nothing_more_and_finishes_what_it_has(url):
    volume = await aio.open(url, depth=2)
    tasks = [asyncio.create_task(volume.read(0, 1)) for _ in range(5)]
    await asyncio.sleep(0)
    await volume.close()
    await volume.close()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(end) for end in ends] == [bytes, bytes, ValueError, ValueError, ValueError]
    with pytest.raises(ValueError, match="closed"):
        await volume.read(0, 1)


@with_loop
async def test_a_lost_connection_is_made_again_for_reads(start):
    node = start()
    async with await aio.open(node.url) as volume:
        await volume.write(0, b"still here")
        await volume.flush()
        node.stop()
        reads = [asyncio.create_task(volume.read(place, 1)) for place in range(10)]
        writes = [asyncio.create_task(volume.write(100, b"x")) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        node.end(signal.SIGKILL)
        start(node.address)
        assert b"".join(await asyncio.gather(*reads)) == b"still here"
        ends = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(end) for end in ends] == [nearflash.OutcomeUnknown] * 3
        assert await volume.write(100, b"y") == 1


@with_loop
async def test_a_node_that_is_gone_is_an_error_for_each_who_asks(start):
    node = start()
    volume = await aio.open(node.url, reconnect_max=0)
    node.end(signal.SIGKILL)
    for _ in range(2):
        ends = await asyncio.gather(*(volume.read(0, 1) for _ in range(3)), return_exceptions=True)
        assert all(isinstance(end, ConnectionError) for end in ends)
    await volume.close()


@with_loop
async def test_a_silent_node_is_given_up(start):
    node = start()
    volume = await aio.open(node.url, silence_max=0.05, reconnect_max=0)
    node.stop()
    with pytest.raises(nearflash.OutcomeUnknown):
        await volume.write(0, b"x")
    await volume.close()


@with_loop
async def test_a_volume_that_was_not_closed_is_warned_of(url):
    volume = await aio.open(url)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        driver = volume._driver
        del volume
        gc.collect()
    assert [warning.category for warning in caught] == [ResourceWarning]
    await driver.close()
