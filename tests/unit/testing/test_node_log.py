"""Logs of failed tests: lines about internal topics are folded, warnings are not."""

from pathlib import Path

from tidelog.testing.node_log import fold, last_lines_folded

NOISE = "[2026-01-01 00:00:00,000] INFO __consumer_offsets-{}: leads in epoch 0 (tidelog.events)"
LOADED = "[2026-01-01 00:00:00,000] INFO loaded 0 groups of __consumer_offsets-7 (tidelog.broker)"
EVENTS = "[2026-01-01 00:00:00,000] INFO topic __replication_events (id) created (tidelog.events)"
OWN = "[2026-01-01 00:00:00,000] INFO orders-0: leads in epoch 0 (tidelog.events)"
WARNING = "[2026-01-01 00:00:00,000] WARNING __consumer_offsets-3: ISR refused (tidelog.events)"
QUORUM = "[2026-01-01 00:00:00,000] INFO __cluster_metadata-0: snapshot written (tidelog.quorum)"


def test_lines_about_internal_topics_become_one() -> None:
    text = "\n".join([OWN, *(NOISE.format(number) for number in range(50)), LOADED, WARNING, EVENTS, QUORUM])
    first, *others = fold(text, 10).splitlines()
    assert first == (
        "(52 lines about __consumer_offsets, __replication_events are left out; "
        "Cluster.log(node, internal=True) has them)"
    )
    assert others == [OWN, WARNING, QUORUM]


def test_a_log_without_them_is_as_it_was() -> None:
    assert (
        fold(f"{OWN}\n{WARNING}\nTraceback\n  __consumer_offsets", 3) == f"{WARNING}\nTraceback\n  __consumer_offsets"
    )


def test_the_lines_of_a_test_are_found_behind_those_of_internal_topics(tmp_path: Path) -> None:
    console = tmp_path / "console.log"
    console.write_text("\n".join([OWN, *(NOISE.format(number) for number in range(500))]))
    assert last_lines_folded(console, 5).splitlines()[1:] == [OWN]
