"""The checks against a twin that knows nothing of runs and arrays: every observation is a triple in a list."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.verify.small_history import broken, history, sends

from tidelog.verify.history import History
from tidelog.verify.sends import REFUSED
from tidelog.verify.values import FOREIGN, code_of, producer_of

OFFSETS = st.integers(0, 6)
VALUES = st.sampled_from(["0:0", "0:1", "0:2", "0:3", "1:0", "1:1", "foreign", "0:9"])
OUTCOMES = st.one_of(OFFSETS, st.sampled_from(["?", "refused", "acked"]))
RECORDS = st.lists(st.tuples(OFFSETS, VALUES), max_size=7)
# Mostly sound: what everybody agrees on, so that what is wrong stands among what is right.
SOUND = [(0, "0:0"), (1, "1:0"), (2, "0:1"), (3, "0:2"), (4, "1:1"), (5, "0:3")]


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[int, str]]:
    records = SOUND[: draw(st.integers(0, len(SOUND)))]
    for number, record in draw(st.lists(st.tuples(st.integers(0, 5), st.tuples(OFFSETS, VALUES)), max_size=2)):
        records = [*records[:number], record, *records[number + draw(st.integers(0, 1)) :]]
    return records


HISTORIES = st.builds(
    lambda first, second, final, reads: history(
        [sends(0, *first), sends(1, *second, idempotent=False)], final, dict(enumerate(reads))
    ),
    st.lists(OUTCOMES, min_size=4, max_size=4),
    st.lists(OUTCOMES, min_size=2, max_size=2),
    st.one_of(logs(), RECORDS),
    st.lists(st.one_of(logs(), RECORDS), max_size=2),
)


def observations(made: History) -> tuple[list[tuple[int, int]], dict[int, list[tuple[int, int]]]]:
    """(offset, code) of the final log and of each reader."""

    def flat(reads) -> list[tuple[int, int]]:  # type: ignore[no-untyped-def]
        return [
            (run.offset + index - run.first, reads.values[index])
            for run in reads.runs()
            for index in range(run.first, run.last)
        ]

    return flat(made.final[0].reads), {reader: flat(reads) for (reader, _), reads in made.reads.items()}


def dumb(made: History) -> set[str]:
    """Names of what is broken, less what depends on the order of reads."""
    final, readers = observations(made)
    read = [record for records in readers.values() for record in records]
    outcomes = {
        code_of(producer, sequence): outcome
        for (producer, _), each in made.sends.items()
        for sequence, outcome in enumerate(each.outcomes)
    }
    acknowledged = {code: outcome for code, outcome in outcomes.items() if outcome >= 0 or outcome == -4}
    told = [(offset, code) for code, offset in acknowledged.items() if offset >= 0]
    in_log = {code for _, code in final}
    found = set()
    if set(acknowledged) - in_log:
        found.add("lost-write")
    if any(outcomes.get(code) == REFUSED for _, code in final + read):
        found.add("aborted-read")
    if any(code not in outcomes for _, code in final + read):
        found.add("unsent-read")
    if any(code in outcomes and code not in in_log for _, code in read):
        found.add("precommitted-read")
    values, places = defaultdict(set), defaultdict(set)
    for offset, code in final + read + told:
        values[offset].add(code)
        places[code].add(offset)
    if any(len(codes) > 1 for codes in values.values()):
        found.add("inconsistent-offsets")
    if any(len(where) > 1 and code in outcomes and producer_of(code) == 0 for code, where in places.items()):
        found.add("duplicate")
    for records in readers.values():
        got = {offset for offset, _ in records}
        if any(code in acknowledged and offset not in got for offset, code in final):
            found.add("unseen")
    return found


@given(HISTORIES)
def test_the_checks_and_their_dumb_twin_agree(made: History) -> None:
    ordered = {"poll-skip", "nonmonotonic-poll", "nonmonotonic-send", "dense-offsets", "liveness"}
    found, expected = set(broken(made)) - ordered, dumb(made)
    final, _ = observations(made)
    if len({offset for offset, _ in final}) < len(final):
        # A log with two records at one offset: which of the two a consumer missed is not a question.
        found, expected = found - {"unseen"}, expected - {"unseen"}
    assert found == expected


def test_the_twin_knows_what_is_foreign() -> None:
    assert dumb(history([], [(0, "foreign")])) == {"unsent-read"}
    assert FOREIGN < 0
