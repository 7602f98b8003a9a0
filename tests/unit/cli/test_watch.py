"""`--watch`: what is shown while a cluster does not answer, and on a terminal that is too small."""

import asyncio
import io
from collections.abc import Callable

import pytest
from rich.console import Console

from tidelog.cli.watching import View, screen, show_looks
from tidelog.client.errors import ClientError
from tidelog.wire.errors import ApiError, ErrorCode

VIEW: View[str] = View(to_json=lambda found: {"said": found}, to_text=str)
LOST = ClientError("the connection was closed by the broker")
NOBODY = ApiError(ErrorCode.NOT_CONTROLLER, "nobody leads")


def watch(*looks: str | Exception, as_json: bool = False) -> None:
    """Has them found one after the other; then somebody presses ctrl-C."""
    left = iter([*looks, asyncio.CancelledError()])

    async def look() -> str:
        found = next(left)
        if isinstance(found, BaseException):
            raise found
        return found

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(show_looks(look, VIEW, as_json=as_json, watch=True, interval_s=0))


@pytest.mark.parametrize(
    ("as_json", "shown"), [(False, "one\n\ntwo\n\n"), (True, '{"said": "one"}\n{"said": "two"}\n')]
)
def test_watching_outlives_a_broker(as_json: bool, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    watch("one", LOST, LOST, NOBODY, "two", LOST, as_json=as_json)
    said = capsys.readouterr()
    assert said.out == shown
    # Each trouble once, and once more when it is back.
    lines = said.err.splitlines()
    assert len(lines) == 3 and all(line.startswith("tidelog: ") and line.endswith("; retrying") for line in lines)
    assert "closed by the broker" in lines[0] and "nobody leads" in lines[1] and "closed by the broker" in lines[2]


def test_who_was_never_there_is_not_waited_for() -> None:
    async def look() -> str:
        raise LOST

    with pytest.raises(ClientError):
        asyncio.run(show_looks(look, VIEW, as_json=False, watch=True, interval_s=0))


def drawn(do: Callable[[Console], None], height: int = 10) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, width=20, height=height, color_system=None)
    do(console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_keeps_the_last_picture_and_says_what_is_wrong() -> None:
    def do(console: Console) -> None:
        showing = screen(VIEW, console)
        showing.draw("leader 1")
        showing.miss("gone")
        showing.close()

    last = drawn(do).rpartition("\x1b[2K")[2]
    assert "leader 1" in last and "gone" in last


def test_what_does_not_fit_on_a_terminal_is_seen_to_be_cut() -> None:
    def do(console: Console) -> None:
        showing = screen(VIEW, console)
        showing.draw("\n".join(f"Partition: {number} Isr: 1,2,3" for number in range(9)))
        showing.close()

    assert "Partition: 0 Isr: 1…" in drawn(do, height=20)
    low = drawn(do, height=4)
    assert "..." in low[: low.index("Partition: 8")]
