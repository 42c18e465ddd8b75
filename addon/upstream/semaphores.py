"""``Gate``: so many may be inside at once, the others wait in the order in which they came."""

import asyncio
from collections import deque


class Gate:
    """A bound of ``limit``. Each one that entered leaves once."""

    __slots__ = ("_waiting", "inside", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def is_unused(self) -> bool:
        """Whether none is inside and none waits."""
        return not self.inside and not self._waiting

    def try_enter(self) -> bool:
        """Enter and return True, unless it is full or others wait."""
        if self.inside >= self.limit or self._waiting:
            return False
        self.inside += 1
        return True

    async def enter(self) -> None:
        """Enter when all that came before have entered, and one is free."""
        if self.try_enter():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn in self._waiting:
                self._waiting.remove(turn)
            else:
                self.leave()  # The turn came in the moment of giving up: it is the next one's.
            raise

    def leave(self) -> None:
        """Leave; the one that has waited longest enters."""
        self.inside -= 1
        while self._waiting and self.inside < self.limit:
            turn = self._waiting.popleft()
            self.inside += 1
            # A turn that was cancelled this moment is given back by its own ``enter``.
            if not turn.done():
                turn.set_result(None)
