"""Drives a queue pair from an event loop.

Each pass of the loop in which an operation was posted, or data arrived, ends with one turn: the
posted operations are sent together, and results go to the futures that wait for them. A caller that
finds the queue pair full waits in a queue.

Invariant: while a thread re-establishes the connection, the queue pair belongs to that thread, and
this module does not access it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from nearflash._nearflash import QueuePair
from nearflash.errors import ConnectionLost, Error, QueueFull

SPIN_MAX = 100e-6
"""The time in seconds for which the loop polls again at once instead of sleeping: a wake-up costs
more than an exchange with a node."""

Post = Callable[[QueuePair], int]


class Driver:
    """The queue pair of one volume, and the callers that wait for it."""

    def __init__(self, pair: QueuePair) -> None:
        self.pair = pair
        self.is_closed = False
        self.replaced_connections = 0
        self._loop = asyncio.get_running_loop()
        self._ends: dict[int, asyncio.Future[Any]] = {}  # results to come, by token
        self._line: deque[asyncio.Future[None]] = deque()  # callers that wait to post
        self._reconnecting: asyncio.Task[None] | None = None
        self._idle: asyncio.Future[None] | None = None  # set while `close` waits
        self._turn_is_due = False
        self._moved_at = 0.0
        self._clock: asyncio.TimerHandle | None = None
        self._fd: int | None = None  # the watched descriptor; None without a connection
        self._is_writing = False  # whether it is watched for writing, too
        self._watch()

    async def operate(self, post: Post) -> Any:
        """Posts an operation, and waits for its result."""
        token = await self._post(post)
        end = self._ends[token] = self._loop.create_future()
        try:
            return await end
        except asyncio.CancelledError:
            # Without a connection, no operation is in flight.
            if self._ends.pop(token, None) is not None and self._fd is not None:
                self.pair.abandon(token)
            raise

    async def close(self) -> None:
        """Accepts no more operations, waits for those in flight, and closes the connection."""
        if self.is_closed:
            return
        self.is_closed = True
        self._call(len(self._line))
        try:
            if self._reconnecting is not None:
                await asyncio.wait([self._reconnecting])
            while self._fd is not None and self.pair.in_flight > 0:
                self._idle = self._loop.create_future()
                await self._idle
        finally:
            self._unwatch()
            if self._reconnecting is None:
                self.pair.close()

    async def _post(self, post: Post) -> int:
        was_called = False
        while True:
            if self.is_closed:
                raise ValueError("the volume is closed: open it again")
            if self._fd is None:
                await self._connected()
                continue
            if was_called or not self._line:
                token = self._try_post(post)
                if token is not None:
                    return token
                if self._fd is None:
                    continue
            await self._stand_in_line(is_first=was_called)
            was_called = True

    def _try_post(self, post: Post) -> int | None:
        """Posts an operation. Returns its token, or None when the queue pair is full or the
        connection is lost."""
        try:
            token = post(self.pair)
        except ConnectionLost:
            self._turn()
            return None
        except QueueFull:
            # With no operation in flight, waiting would not help.
            if self.pair.in_flight == 0:
                raise
            return None
        except BaseException:
            # The next caller gets the place.
            self._call_next()
            raise
        self._moved_at = self._loop.time()
        self._make_due()
        return token

    async def _stand_in_line(self, is_first: bool) -> None:
        called = self._loop.create_future()
        if is_first:
            self._line.appendleft(called)
        else:
            self._line.append(called)
        try:
            await called
        except asyncio.CancelledError:
            if called in self._line:
                self._line.remove(called)
            else:
                self._call_next()
            raise

    def _call_next(self) -> None:
        """Wakes as many callers in the line as there are places; without a connection all of them,
        since they then wait for the reconnect."""
        if self._fd is None:
            self._call(len(self._line))
        else:
            self._call(self.pair.depth - self.pair.in_flight)

    def _call(self, count: int) -> None:
        while self._line and count > 0:
            called = self._line.popleft()
            if not called.done():
                called.set_result(None)
                count -= 1

    def _make_due(self) -> None:
        if not self._turn_is_due:
            self._turn_is_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Sends the posted operations, processes the results, and schedules its next call."""
        self._turn_is_due = False
        if self._fd is None:
            return
        try:
            done = self.pair.poll()
            for token, result in done:
                self._end(token, result)
            if self.pair.is_lost:
                self.pair.poll()  # raises, now that every operation has ended
        except ConnectionLost:
            self._unwatch()
        else:
            self._wait(bool(done))
        self._call_next()
        if self._idle is not None and not self._idle.done():
            if self._fd is None or self.pair.in_flight == 0:
                self._idle.set_result(None)

    def _end(self, token: int, result: Any) -> None:
        end = self._ends.pop(token, None)
        if end is None or end.done():
            return
        if isinstance(result, Error):
            end.set_exception(result)
        else:
            end.set_result(result)

    def _wait(self, has_moved: bool) -> None:
        """Schedules the next turn: at once, when the socket is ready, or in time to detect a silent
        node."""
        now = self._loop.time()
        if has_moved:
            self._moved_at = now
        left = self.pair.patience_left
        if left is not None and now - self._moved_at < SPIN_MAX:
            self._make_due()
        if left is not None and self._clock is None:
            self._clock = self._loop.call_later(left, self._look)
        if self.pair.has_unsent != self._is_writing:
            self._watch_writing(not self._is_writing)

    def _look(self) -> None:
        self._clock = None
        self._turn()

    def _watch(self) -> None:
        self._fd = self.pair.fileno()
        self._loop.add_reader(self._fd, self._turn)

    def _watch_writing(self, is_writing: bool) -> None:
        self._is_writing = is_writing
        if self._fd is not None and is_writing:
            self._loop.add_writer(self._fd, self._turn)
        elif self._fd is not None:
            self._loop.remove_writer(self._fd)

    def _unwatch(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        if self._fd is not None:
            self._watch_writing(False)
            self._loop.remove_reader(self._fd)
            self._fd = None

    async def _connected(self) -> None:
        """Waits until the connection is re-established; the first caller starts the reconnect."""
        if self._reconnecting is None:
            self._reconnecting = self._loop.create_task(self._reconnect())
            # Retrieves an error that no caller waits for any more.
            self._reconnecting.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._reconnecting)

    async def _reconnect(self) -> None:
        try:
            await asyncio.to_thread(self.pair.reconnect)
            self.replaced_connections += 1
            self._watch()
        finally:
            self._reconnecting = None
            self._call_next()
