"""The bytes that requests of all connections hold together.

Counted are buffers with the beginning of a frame and requests that wait for their answer. When the budget is spent,
connections that hold some of it stop reading; one that holds nothing goes on, so nobody is locked out by others.

Unfinished frames could spend the whole budget and wait for each other for ever. So one connection at a time is let
through beyond it (the overdraft) until its frame is whole: the most that is ever held is the budget and one frame.
"""

from collections.abc import Callable


class Share:
    """One connection's part of the budget."""

    __slots__ = ("_budget", "held_bytes", "resume")

    def __init__(self, budget: "RequestBudget", resume: Callable[[], None]) -> None:
        self._budget = budget
        self.resume = resume
        self.held_bytes = 0

    def may_read(self, held_bytes: int, *, mid_frame: bool, frame_done: bool) -> bool:
        """Tells what this connection holds now, and asks whether to read on.

        When not, `resume` is called once that may have changed, and the connection asks again.
        """
        if held_bytes == self.held_bytes and not held_bytes:
            return True
        return self._budget.update(self, held_bytes, mid_frame, frame_done)

    def close(self) -> None:
        self._budget.update(self, 0, False, True)


class RequestBudget:
    """Bytes held by all, and who waits for them to become fewer, in order of arrival."""

    __slots__ = ("_limit_bytes", "_overdraft", "_waiting", "held_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.held_bytes = 0
        # whether each is in the middle of a frame, and so a candidate for the overdraft
        self._waiting: dict[Share, bool] = {}
        self._overdraft: Share | None = None

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def update(self, share: Share, held_bytes: int, mid_frame: bool, frame_done: bool) -> bool:
        self.held_bytes += held_bytes - share.held_bytes
        share.held_bytes = held_bytes
        self._waiting.pop(share, None)
        if share is self._overdraft and (frame_done or not mid_frame):
            self._overdraft = None
        allowed = held_bytes == 0 or self.held_bytes < self._limit_bytes or share is self._overdraft
        if not allowed:
            self._waiting[share] = mid_frame
        if self._waiting:
            self._wake()
        # With nobody before it in the queue the overdraft may just have fallen to the asker.
        return allowed or share is self._overdraft

    def _wake(self) -> None:
        if self.held_bytes < self._limit_bytes:
            waiting, self._waiting = self._waiting, {}
            for share in waiting:
                share.resume()
        elif self._overdraft is None:
            for share, mid_frame in self._waiting.items():
                if mid_frame:
                    self._overdraft = share
                    del self._waiting[share]
                    share.resume()
                    return
