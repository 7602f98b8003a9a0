"""What clients are told can break an invariant: what is read, what is acknowledged, what ListOffsets says."""

from collections.abc import Callable, Iterator

import pytest
from tests.unit.sim.watched import ORDERS, VALUES, World, watched

from tidelog.sim.workloads.writers import Ledger

END = len(VALUES)


@pytest.fixture
def world() -> Iterator[World]:
    with watched() as found:
        yield found


def test_reading_what_was_acknowledged_breaks_nothing(world: World) -> None:
    for _ in range(2):
        for offset, value in enumerate(VALUES):
            world.watch.on_read(ORDERS, offset, offset, value, 0)
    world.watch.on_latest(ORDERS, 0, END, (-1, -1), 0)
    world.watch.on_latest(ORDERS, 0, END, (0, END), 0)
    world.watch.on_latest(ORDERS, 0, END, (1, END), 0)
    assert world.failure() is None


TOLD: list[tuple[Callable[[World], None], str, str]] = [
    (
        lambda world: world.watch.on_read(ORDERS, 2, 2, b"other", 0),
        "ConsistentRead",
        "2 was b'2' before and is b'other'",
    ),
    (
        lambda world: world.watch.on_read(ORDERS, 2, 3, VALUES[3], 0),
        "ConsistentRead",
        "the next offset to read was 2, but 3 was read",
    ),
    (
        lambda world: world.watch.on_read(ORDERS, 5, 5, b"5", 0),
        "ConsistentRead",
        "no leader had a high watermark above 5",
    ),
    (
        lambda world: world.watch.on_acknowledged(ORDERS, 5, b"5", 0),
        "LeaderCompleteness",
        "5 was acknowledged, but no leader had a high watermark above 5",
    ),
    (
        lambda world: world.watch.on_acknowledged(ORDERS, 3, b"again", 0),
        "ConsistentRead",
        "3 was b'3' before and is b'again' now",
    ),
    (
        lambda world: world.watch.on_latest(ORDERS, 0, 4, (0, 5), 0),
        "HighWatermark",
        "ListOffsets returned 5 in epoch 0, then 4",
    ),
    (
        lambda world: world.watch.on_latest(ORDERS, 0, 5, (1, 4), 0),
        "HighWatermark",
        "ListOffsets returned 4 in epoch 1, then 5 in 0",
    ),
]


@pytest.mark.parametrize(("tell", "invariant", "what"), TOLD)
def test_what_a_client_must_not_be_told(world: World, tell: Callable[[World], None], invariant: str, what: str) -> None:
    tell(world)
    broken = world.failure()
    assert broken is not None
    assert broken.invariant == invariant
    assert what in broken.what
    assert world.watch.describe(broken)[0].startswith("orders-0 committed at metadata offset ")


def test_what_was_read_before_an_unclean_election_counts_no_more(world: World) -> None:
    world.watch.on_read(ORDERS, 2, 2, b"other", 7)
    assert world.failure() is None


PROMISED = {b"a": 0, b"b": 1}


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        ({b"a": [0], b"b": [1], b"c": [2]}, []),
        ({b"a": [0], b"c": [2]}, ["lost-write: b'b'"]),
        ({b"a": [0], b"b": [1, 2]}, ["duplicate: b'b'"]),
        ({b"a": [3], b"b": [1]}, ["inconsistent-offsets: b'a'"]),
        ({b"a": [0], b"b": [1], b"d": [2]}, ["aborted-read: nobody wrote b'd'"]),
    ],
)
def test_what_is_read_back_is_what_was_promised(found: dict[bytes, list[int]], wrong: list[str]) -> None:
    ledger = Ledger(acknowledged={0: dict(PROMISED)}, unknown={0: {b"c": None}})
    told = ledger.compare(0, found)
    assert len(told) == len(wrong)
    assert all(line.startswith(start) for line, start in zip(told, wrong, strict=True))


def test_who_is_not_idempotent_may_write_twice() -> None:
    ledger = Ledger(acknowledged={0: dict(PROMISED)}, doubled={b"b": None})
    assert ledger.compare(0, {b"a": [0], b"b": [1, 2]}) == []
    assert ledger.compare(0, {b"a": [0], b"b": [2, 3]}) != []
