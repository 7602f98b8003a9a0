"""Changes since a cursor: everything first, then only changes, and everything again after too many removals."""

from tidelog.web import board as board_module
from tidelog.web.board import Board, Entry, NodeRow, Partition


def entry(text: str) -> Entry:
    return Entry(id=0, time_ms=1, kind="isr", severity="info", text=text)


def test_first_everything_then_what_changed() -> None:
    board = Board()
    for number in range(3):
        board.put_partition(Partition(topic="orders", number=number))
    board.put_node(NodeRow(id=1))
    first = board.changes(0)
    assert first["reset"] and [row[1] for row in first["partitions"]] == [0, 1, 2]
    board.put_partition(Partition(topic="orders", number=1, leader=2))
    board.put_partition(Partition(topic="orders", number=2))  # as it was
    then = board.changes(first["version"])
    assert [row[:3] for row in then["partitions"]] == [["orders", 1, 2]]
    assert "nodes" not in then and "reset" not in then
    assert board.changes(then["version"]).keys() == {"version", "now", "groups_total"}


def test_a_removal_is_reported_until_the_partition_returns() -> None:
    board = Board()
    board.put_partition(Partition(topic="orders", number=0))
    before = board.version
    board.remove_partition(("orders", 0))
    assert board.changes(before)["gone"] == [("orders", 0)]
    board.put_partition(Partition(topic="orders", number=0))
    assert "gone" not in board.changes(before)


def test_a_cursor_that_missed_too_many_removals_gets_everything() -> None:
    board = Board()
    for number in range(board_module.MOST_REMOVED + 2):
        board.put_partition(Partition(topic="orders", number=number))
    cursor = board.version
    for number in range(1, board_module.MOST_REMOVED + 2):
        board.remove_partition(("orders", number))
    told = board.changes(cursor)
    assert told["reset"] and [row[1] for row in told["partitions"]] == [0]


def test_the_timeline_is_bounded() -> None:
    board = Board()
    for number in range(board_module.MOST_ENTRIES + 10):
        board.tell(entry(str(number)))
    kept = board.changes(0)["timeline"]
    assert len(kept) == board_module.MOST_ENTRIES and kept[0]["text"] == "10"


def test_a_page_knows_how_many_groups_it_does_not_show() -> None:
    board = Board()
    board.put_groups({"a": {"id": "a"}}, total=70)
    first = board.changes(0)
    assert first["groups_total"] == 70 and len(first["groups"]) == 1
    board.put_groups({"a": {"id": "a"}}, total=71)
    then = board.changes(first["version"])
    assert then["version"] > first["version"] and then["groups_total"] == 71 and "groups" not in then


def test_a_cursor_of_another_start_gets_everything() -> None:
    board = Board()
    board.put_node(NodeRow(id=1))
    assert board.changes(board.version + 100)["reset"]


def test_a_copy_goes_its_own_way() -> None:
    board = Board()
    board.tell(entry("before"))
    twin = board.copy()
    twin.tell(entry("after"))
    assert len(board.timeline) == 1 and len(twin.timeline) == 2
