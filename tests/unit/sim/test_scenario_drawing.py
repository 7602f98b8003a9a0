"""Replicas as they are drawn, the rules beside them, and the stories that come with the package."""

from pathlib import Path

import pytest
from tools.rules import numbers

from tidelog.sim.scenario.drawing import draw
from tidelog.sim.scenario.library import Story, find, stories
from tidelog.sim.scenario.picture import Copy, Entry, Picture, Replica
from tidelog.sim.scenario.rules import RULES, cited
from tidelog.sim.scenario.runner import walk
from tidelog.sim.scenario.worlds import WORLDS

FILES = Path(__file__).parents[2] / "scenarios"


def copy(*entries: tuple[int, str], start: int = 0, mark: int | None = 0) -> Copy:
    """A log of (epoch, value)."""
    return Copy(
        epoch=entries[-1][0] if entries else 0,
        log_start_offset=start,
        log_end_offset=start + len(entries),
        high_watermark=mark,
        entries=tuple(Entry(offset, epoch, value) for offset, (epoch, value) in enumerate(entries, start)),
    )


def picture(*copies: Copy | None) -> Picture:
    replicas = [
        Replica(node_id=number, role="down")
        if each is None
        else Replica(node_id=number, role="leads" if number == 1 else "follows 1", leads=number == 1, copy=each)
        for number, each in enumerate(copies, 1)
    ]
    return Picture(name="orders-0", title="leader 1", columns=(), replicas=tuple(replicas))


def test_offsets_stand_below_each_other_and_the_high_watermark_before_what_is_not_committed() -> None:
    diverging = picture(copy((0, "a"), (2, "b"), mark=1), copy((0, "a"), (1, "long"), (1, "c"), mark=3), None)
    assert draw(diverging, None) == [
        "orders-0: leader 1",
        "NODE  ROLE       EPOCH  LEO  HW  LOG  0      1         2",
        "* 1   leads      2      2    1        @0 a | @2 b",
        "  2   follows 1  1      3    3        @0 a   @1 long   c |",
        "  3   down",
    ]


def test_what_moved_since_the_last_step_is_told() -> None:
    before = picture(copy((0, "a"), mark=1), copy((0, "a"), (0, "b"), mark=None), None)
    now = picture(copy((0, "a"), (0, "b"), mark=1), copy((0, "a"), mark=None), copy())
    assert draw(now, before)[1:] == [
        "NODE  ROLE       EPOCH  LEO   HW  LOG  0      1",
        "* 1   leads      0      2 +1  1        @0 a | b",
        "  2   follows 1  0      1 -1  ?        @0 a",
        "  3   follows 1  0      0     0      |",
    ]


def test_a_long_stretch_that_is_the_same_everywhere_is_one_column() -> None:
    hundred = [(0, str(number)) for number in range(100)]
    words = [(0, word) for word in "abcdef"]
    assert draw(picture(copy(*hundred, (1, "x"), mark=100), copy(*hundred[:99], mark=99)), None)[1:] == [
        "NODE  ROLE       EPOCH  LEO  HW   LOG  0..98      99   100",
        "* 1   leads      1      101  100       @0 0..98   99 | @1 x",
        "  2   follows 1  0      99   99        @0 0..98 |",
    ]
    assert draw(picture(copy(*words, start=4, mark=10)), None)[1:] == [
        "NODE  ROLE   EPOCH  LEO  HW  LOG  4..9",
        "* 1   leads  0      10   10       @0 a ... f |",
    ]


def test_a_column_in_which_nobody_has_anything_is_left_out() -> None:
    replica = Replica(node_id=1, role="leader", leads=True, copy=copy(), more=("", "1,2"))
    drawn = draw(Picture(name="log", title="", columns=("VOTE", "VOTERS"), replicas=(replica,)), None)
    assert "VOTERS" in drawn[1]
    assert "VOTE " not in drawn[1]


def test_every_rule_has_one_line_and_nothing_else_has() -> None:
    assert list(RULES) == numbers()
    assert all("\n" not in text and text.endswith(".") and len(text) < 120 for text in RULES.values())


def test_rules_are_found_where_comments_name_them() -> None:
    assert cited(["# first (W2, I3),", "# then (C10) and (W2)", "# no number: (W) W1"]) == ["W2", "I3", "C10"]


def test_the_package_has_every_story() -> None:
    assert [story.name for story in stories()] == [
        f"{path.parent.name}/{path.stem}" for path in sorted(FILES.glob("*/*.txt"))
    ]
    found = find("kip_101")
    assert found is not None and found == find("replication/kip_101")
    assert find("kip") is None


@pytest.mark.parametrize("story", stories(), ids=lambda story: story.name)
def test_every_step_of_every_story_can_be_drawn(story: Story) -> None:
    before: dict[str, Picture] = {}
    for moment in walk(story.scenario, WORLDS):
        now = {each.name: each for each in moment.world.pictures()}
        for name, each in now.items():
            lines = draw(each, before.get(name))
            assert len(lines) == 2 + len(each.replicas)
            for replica, line in zip(each.replicas, lines[2:], strict=True):
                assert replica.role in line
                values = [] if replica.copy is None else [entry.value for entry in replica.copy.entries]
                assert all(value in line for value in {*values[:1], *values[-1:]})
        before = now
