"""A persistent map is a dict whose copies share; checked against dicts."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tidelog.metadata.persistent_map import PersistentMap, spread_text, spread_uuid

keys = st.sampled_from([f"key-{number}" for number in range(40)])
changes = st.dictionaries(keys, st.none() | st.integers(), max_size=8)


@given(st.lists(changes, max_size=12))
def test_it_is_the_dumb_twin_and_older_copies_stay(history: list[dict[str, int | None]]) -> None:
    current: PersistentMap[str, int] = PersistentMap(spread_text)
    twin: dict[str, int] = {}
    copies = [(current, dict(twin))]
    for change in history:
        current = current.updated(change)
        for key, value in change.items():
            if value is None:
                twin.pop(key, None)
            else:
                twin[key] = value
        copies.append((current, dict(twin)))
    for copy, expected in copies:
        assert copy == expected and len(copy) == len(expected) and sorted(copy) == sorted(expected)
        for key in expected:
            assert copy[key] == expected[key] == copy.get(key) and key in copy
        assert copy.get("other") is None and copy.get("other", 7) == 7 and "other" not in copy


def test_an_untouched_bucket_is_shared() -> None:
    start = PersistentMap[str, int](spread_text).updated({f"key-{number}": number for number in range(1000)})
    after = start.updated({"key-0": None})
    differing = [one for one, two in zip(start._buckets, after._buckets, strict=True) if one is not two]
    assert len(differing) == 1 and len(after) == 999


def test_ids_spread_by_their_last_byte() -> None:
    start = PersistentMap[UUID, int](spread_uuid).updated({UUID(int=number): number for number in range(512)})
    assert {len(bucket) for bucket in start._buckets} == {2}
    assert repr(PersistentMap[UUID, int](spread_uuid)) == "{}"
