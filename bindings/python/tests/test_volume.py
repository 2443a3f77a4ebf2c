"""Volumes for blocking calls."""

import array
import os
import signal
import threading
import uuid

import pytest
from conftest import MIB

import nearflash


def test_what_was_written_is_read(volume):
    assert volume.write(3, b"flash") == 5
    assert volume.read(0, 10) == b"\0\0\0flash\0\0"


def test_a_volume_says_what_it_is(volume):
    assert (volume.name, volume.size, volume.block_size) == ("data", 32 * MIB, 512)
    assert isinstance(volume.uuid, uuid.UUID)
    assert volume.is_readable
    assert volume.is_writable
    assert repr(volume) == "<nearflash.Volume 'data'>"


@pytest.mark.parametrize("length", [1, 4096, 4097, MIB, 3 * MIB + 1, 20 * MIB])
def test_any_length_is_written_and_read(volume, length):
    data = os.urandom(length)
    volume.write(4095, data)
    assert volume.read(4095, length) == data
    into = bytearray(length)
    assert volume.readinto(4095, into) == length
    assert into == data


def test_nothing_is_read_and_written_as_nothing(volume):
    assert volume.read(7, 0) == b""
    assert volume.readinto(7, bytearray()) == 0
    assert volume.write(7, b"") == 0


def test_any_object_with_a_buffer_is_written(volume):
    words = array.array("d", [1.0, 2.0])
    for data in [b"12345678", bytearray(b"12345678"), memoryview(b"012345678")[1:], words]:
        volume.write(64, data)
        assert volume.read(64, 8) == bytes(memoryview(data).cast("B"))[:8]


def test_any_writable_object_with_a_buffer_is_read_into(volume):
    volume.write(0, b"abcdefgh")
    words = array.array("Q", [0])
    assert volume.readinto(0, words) == 8
    assert words.tobytes() == b"abcdefgh"
    target = bytearray(10)
    assert volume.readinto(0, memoryview(target)[1:9]) == 8
    assert target == b"\0abcdefgh\0"


def test_several_buffers_are_written_and_read_in_one_call(volume):
    words = array.array("Q", [1, 2])
    assert volume.writev(510, [b"flash", words, b"", bytes(MIB)]) == 21 + MIB
    assert volume.read(510, 21) == b"flash" + words.tobytes()
    first, second = bytearray(3), array.array("H", [0])
    assert volume.readv(510, [first, bytearray(), second]) == 5
    assert (first, second.tobytes()) == (b"fla", b"sh")
    assert volume.readv(0, []) == volume.writev(0, []) == 0


def test_buffers_of_one_call_do_not_overlap(volume):
    target = bytearray(10)
    view = memoryview(target)
    volume.readv(0, [view[5:], view[:5]])
    for buffers in [[target, target], [view[:6], view[5:]], [view[2:3], bytearray(1), target]]:
        with pytest.raises(ValueError, match="overlap"):
            volume.readv(0, buffers)
    assert volume.writev(0, [target, target]) == 20


def test_zeroes_are_written(volume):
    volume.write(0, b"x" * 9000)
    volume.write_zeroes(5, 8990)
    assert volume.read(0, 9000) == b"x" * 5 + bytes(8990) + b"x" * 5
    volume.write_zeroes(5, 0)
    with pytest.raises(nearflash.OutOfRange):
        volume.write_zeroes(volume.size - 1, 2)


def test_what_is_not_writable_or_not_in_one_piece_is_refused(volume):
    with pytest.raises(BufferError):
        volume.readinto(0, b"12345678")
    with pytest.raises(BufferError):
        volume.write(0, memoryview(b"12345678")[::2])
    with pytest.raises(TypeError):
        volume.write(0, "text")


def test_a_buffer_is_let_go_of_when_the_call_is_over(volume):
    target = bytearray(8)
    volume.readinto(0, target)
    volume.write(0, target)
    with pytest.raises(nearflash.OutOfRange):
        volume.readinto(volume.size, target)
    target.append(1)  # raises while its buffer is held


def test_words_are_swapped_if_they_are_what_is_expected(volume):
    assert volume.compare_and_swap(8, 0, 7) == 0
    assert volume.compare_and_swap(8, 0, 9) == 7
    assert volume.read(8, 8) == (7).to_bytes(8, "little")


def test_words_are_added_to_modulo_two_to_the_64(volume):
    assert volume.fetch_add(16, 5) == 0
    assert volume.fetch_add(16, -6) == 5
    assert volume.fetch_add(16, 2**64 - 1) == 2**64 - 1
    assert volume.read(16, 8) == (2**64 - 2).to_bytes(8, "little")
    for addend in [2**64, -(2**63) - 1]:
        with pytest.raises(OverflowError):
            volume.fetch_add(16, addend)
    with pytest.raises(TypeError):
        volume.fetch_add(16, "1")


def test_flush_and_discard_are_done(volume):
    volume.write(0, b"kept")
    volume.discard(8192, 8192)
    volume.flush()
    assert volume.read(0, 4) == b"kept"


def test_past_the_end_is_out_of_range(volume):
    size = volume.size
    assert len(volume.read(size - 1, 1)) == 1
    for offset, length in [(size - 1, 2), (size, 1), (2**64 - 1, 1), (0, 1 << 60)]:
        with pytest.raises(nearflash.OutOfRange) as caught:
            volume.read(offset, length)
        assert caught.value.name == "OUT_OF_RANGE"
        assert not caught.value.is_transient
    with pytest.raises(nearflash.OutOfRange):
        volume.write(size - 1, b"12")
    with pytest.raises(nearflash.OutOfRange):
        volume.discard(size, 4096)


def test_a_word_that_is_not_aligned_is_refused(volume):
    with pytest.raises(nearflash.InvalidField):
        volume.fetch_add(4, 1)


def test_negative_offsets_are_refused(volume):
    with pytest.raises(OverflowError):
        volume.read(-1, 1)
    with pytest.raises(OverflowError):
        volume.read(0, -1)


def test_a_closed_volume_says_so(url):
    with nearflash.open(url) as volume:
        assert not volume.closed
    assert volume.closed
    volume.close()
    with pytest.raises(ValueError, match="volume 'data' is closed"):
        volume.read(0, 1)


def test_threads_count_together_and_lose_nothing(volume):
    volume.write(0, bytes(8))
    blocks = [bytes([number]) * 4096 for number in range(8)]

    def work(number):
        for _ in range(50):
            volume.fetch_add(0, 1)
            volume.write(4096 * (number + 1), blocks[number])
            assert volume.read(4096 * (number + 1), 4096) == blocks[number]

    threads = [threading.Thread(target=work, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert volume.read(0, 8) == (400).to_bytes(8, "little")


def test_other_threads_run_while_a_call_waits(start):
    node = start()
    with nearflash.open(node.url, silence_max=60, reconnect_max=0) as volume:
        node.stop()
        raised = []

        def read():
            with pytest.raises(ConnectionError) as caught:
                volume.read(0, 1)
            raised.append(caught.value)

        reader = threading.Thread(target=read)
        reader.start()
        # The test passes if this line is reached while the node is stopped.
        os.kill(node.process.pid, signal.SIGKILL)
        reader.join()
        assert isinstance(raised[0], nearflash.Error)
        assert raised[0].is_transient


def test_a_call_ends_with_its_time(start):
    node = start()
    with nearflash.open(node.url) as volume:
        hurried = volume.with_timeout(0.05)
        hurried.write(0, b"flash")
        node.stop()
        with pytest.raises(nearflash.OutcomeUnknown):
            hurried.write(0, b"other")
        with pytest.raises(nearflash.ConnectionLost):
            hurried.read(0, 5)
        node.process.send_signal(signal.SIGCONT)
        assert volume.read(0, 5) in (b"flash", b"other")
        hurried.close()
        assert len(volume.read(0, 5)) == 5
        for timeout in [-1, float("nan")]:
            with pytest.raises(ValueError, match="not a valid time"):
                volume.with_timeout(timeout)


def test_a_lost_connection_is_made_again_for_reads(start):
    node = start()
    with nearflash.open(node.url) as volume:
        volume.write(0, b"still here")
        volume.flush()
        node.end(signal.SIGKILL)
        start(node.address)
        assert volume.read(0, 10) == b"still here"


def test_a_flush_over_a_new_connection_is_told_from_one_that_covers_the_writes(start):
    node = start()
    with nearflash.open(node.url) as volume:
        volume.write(0, b"flash")
        volume.flush()
        assert volume.replaced_connections == 0
        volume.write(0, b"other")
        node.end(signal.SIGKILL)
        start(node.address)
        # A read is repeated over a new connection, and a flush over that one succeeds.
        volume.read(0, 1)
        volume.flush()
        assert volume.replaced_connections > 0


def test_a_child_opens_volumes_of_its_own(volume):
    volume.write(0, b"parent")
    child = os.fork()
    if child == 0:
        try:
            volume.read(0, 6)
        except ValueError as error:
            os._exit(0 if "forked" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert volume.read(0, 6) == b"parent"


def test_a_childs_end_leaves_its_parents_connection_alone(url):
    volume = nearflash.open(url)
    child = os.fork()
    if child == 0:
        del volume
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert len(volume.read(0, 6)) == 6
