"""A mapping whose changed copies are cheap: for tables of an image that hold thousands of entries and change by one.

Entries are spread over a fixed number of buckets; a copy shares every bucket it does not touch. The spreading is by the
key's bytes and not by `hash`, which differs from process to process: iteration must be the same in every run.
"""

from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from typing import Final, Generic, TypeVar, overload
from uuid import UUID
from zlib import crc32

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_BUCKETS: Final = 256


def spread_text(key: str) -> int:
    return crc32(key.encode()) & (_BUCKETS - 1)


def spread_uuid(key: UUID) -> int:
    # The low byte: random in every version of UUID that is used as an id.
    return key.int & (_BUCKETS - 1)


class PersistentMap(Mapping[K, V], Generic[K, V]):
    """Never changes; `updated` gives the changed copy."""

    __slots__ = ("_buckets", "_count", "_filled", "_spread")

    def __init__(self, spread: Callable[[K], int]) -> None:
        self._spread = spread
        self._buckets: list[dict[K, V]] = [{}] * _BUCKETS
        self._count = 0
        self._filled: list[dict[K, V]] | None = None

    def updated(self, changes: Mapping[K, V | None]) -> "PersistentMap[K, V]":
        """A copy with what `changes` sets and without what it maps to None."""
        copy: PersistentMap[K, V] = PersistentMap(self._spread)
        buckets = copy._buckets = list(self._buckets)
        own: set[int] = set()
        count = self._count
        for key, value in changes.items():
            index = self._spread(key)
            if index not in own:
                own.add(index)
                buckets[index] = dict(buckets[index])
            bucket = buckets[index]
            count -= len(bucket)
            if value is None:
                bucket.pop(key, None)
            else:
                bucket[key] = value
            count += len(bucket)
        copy._count = count
        return copy

    def __getitem__(self, key: K) -> V:
        return self._buckets[self._spread(key)][key]

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: D) -> V | D: ...
    def get(self, key: K, /, default: object = None) -> object:
        return self._buckets[self._spread(key)].get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._buckets[self._spread(key)]  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[K]:
        for bucket in self.filled():
            yield from bucket

    def items(self) -> ItemsView[K, V]:
        return _Items(self)

    def values(self) -> ValuesView[V]:
        return _Values(self)

    def filled(self) -> list[dict[K, V]]:
        """The buckets that hold anything, found once: most maps are walked more often than they have entries."""
        if self._filled is None:
            self._filled = [bucket for bucket in self._buckets if bucket]
        return self._filled

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return repr(dict(self))


class _Items(ItemsView[K, V]):
    """Walks the buckets, where the one of `Mapping` looks every key up."""

    _mapping: PersistentMap[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        for bucket in self._mapping.filled():
            yield from bucket.items()


class _Values(ValuesView[V]):
    """The same of the values."""

    _mapping: PersistentMap[object, V]

    def __iter__(self) -> Iterator[V]:
        for bucket in self._mapping.filled():
            yield from bucket.values()
