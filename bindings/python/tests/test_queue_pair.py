"""Queue pairs: many operations in flight from one thread."""

import select
import signal

import pytest
from conftest import MIB

import nearflash


@pytest.fixture
def pair(url):
    with nearflash.connect(url).queue_pair(depth=8) as pair:
        pair.post_write(0, bytes(MIB))
        settle(pair)
        yield pair


def settle(pair):
    """Waits for all operations in flight. Returns their results, by token."""
    results = {}
    while pair.in_flight > 0:
        pair.wait(1)
        results.update(pair.poll())
    return results


def test_each_operation_has_the_result_of_its_call(pair):
    write = pair.post_write(0, b"flash")
    durable = pair.post_write(4096, b"durable", durable=True)
    assert settle(pair) == {write: 5, durable: 7}
    target = bytearray(7)
    read = pair.post_read(0, 5)
    into = pair.post_readinto(4096, target)
    add = pair.post_fetch_add(8192, -1)
    pair.submit()
    assert settle(pair) == {read: b"flash", into: 7, add: 0}
    assert target == b"durable"
    swap = pair.post_compare_and_swap(8192, 2**64 - 1, 3)
    flush = pair.post_flush()
    discard = pair.post_discard(MIB, 4096)
    assert settle(pair) == {swap: 2**64 - 1, flush: None, discard: None}


def test_a_queue_pair_says_what_it_is(pair):
    assert (pair.name, pair.size, pair.block_size, pair.depth) == ("data", 32 * MIB, 512, 8)
    assert pair.length_max == 8 * MIB
    assert pair.uuid.version is not None
    assert not pair.is_lost
    assert not pair.has_unsent
    assert pair.patience_left is None


def test_no_more_is_taken_than_its_depth(pair):
    tokens = {pair.post_read(0, 1) for _ in range(8)}
    assert pair.in_flight == 8
    assert 0 < pair.patience_left <= 10
    with pytest.raises(nearflash.QueueFull):
        pair.post_read(0, 1)
    assert settle(pair).keys() == tokens


def test_lengths_that_no_operation_has_are_refused(pair):
    for length in [0, 8 * MIB + 1, 1 << 60]:
        with pytest.raises(nearflash.InvalidLength):
            pair.post_read(0, length)
    with pytest.raises(nearflash.InvalidLength):
        pair.post_write(0, b"")
    assert pair.in_flight == 0


def test_an_operation_that_fails_has_an_error_as_its_result(pair):
    token = pair.post_read(32 * MIB, 1)
    result = settle(pair)[token]
    assert type(result) is nearflash.OutOfRange


def test_an_abandoned_read_lets_go_of_its_buffer_at_once(pair):
    target = bytearray(8)
    pair.post_write(0, b"flash123")
    settle(pair)
    token = pair.post_readinto(0, target)
    with pytest.raises(BufferError):
        target.append(1)
    assert pair.abandon(token)
    target.append(1)
    assert settle(pair) == {}
    assert target == bytes(8) + b"\1"
    assert not pair.abandon(token)


def test_its_socket_is_readable_when_there_is_something_to_poll(node):
    with nearflash.connect(node.url).queue_pair(shared_length=0) as pair:
        token = pair.post_read(0, 1)
        assert select.select([pair.fileno()], [], [], 60)[0]
        assert list(settle(pair)) == [token]


def test_a_closed_queue_pair_says_so(url):
    pair = nearflash.connect(url).queue_pair()
    pair.close()
    pair.close()
    with pytest.raises(ValueError, match="queue pair of volume 'data' is closed"):
        pair.post_flush()


def test_when_the_node_is_gone_reads_are_lost_and_writes_unknown(start):
    node = start()
    pair = nearflash.connect(node.url).queue_pair()
    node.stop()
    read, write = pair.post_read(0, 1), pair.post_write(0, b"x")
    pair.submit()
    node.end(signal.SIGKILL)
    results = settle(pair)
    assert type(results[read]) is nearflash.ConnectionLost
    assert type(results[write]) is nearflash.OutcomeUnknown
    assert pair.is_lost
    with pytest.raises(nearflash.ConnectionLost):
        pair.poll()
    start(node.address)
    pair.reconnect()
    again = pair.post_read(0, 1)
    assert len(settle(pair)[again]) == 1
