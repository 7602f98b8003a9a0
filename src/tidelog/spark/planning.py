"""From options and what the brokers say to offsets and ranges: all that a reader decides on the driver."""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final
from uuid import UUID

from tidelog.client.offsets import FoundOffset
from tidelog.core.ids import ZERO_UUID, TopicPartition
from tidelog.spark.brokers import Brokers, EpochEnd
from tidelog.spark.errors import OptionError
from tidelog.spark.history import DataLoss, rewritten, to_ask, vanished
from tidelog.spark.offsets import NO_EPOCH, Position, StreamOffsets, is_another, names
from tidelog.spark.options import SourceOptions
from tidelog.spark.points import (
    EARLIEST,
    LATEST,
    Earliest,
    Latest,
    NoMatch,
    Point,
    SpecificOffsets,
    SpecificTimestamps,
    Timestamp,
)
from tidelog.spark.ranges import OffsetRange, cut
from tidelog.wire.errors import ApiError, ErrorCode

log = logging.getLogger("tidelog.spark")

Ids = Mapping[TopicPartition, UUID]
# At which partitions there are, while they change.
_LOOKS: Final = 5


def _is_anew(tp: TopicPartition, at: Position, ids: Ids) -> bool:
    return tp in ids and is_another(at.topic_id, ids[tp])


class Planner:
    """Of one query."""

    def __init__(self, options: SourceOptions, brokers: Brokers) -> None:
        self.options = options
        self._brokers = brokers

    # --- what there is ---

    def _existing(self, known: StreamOffsets) -> dict[TopicPartition, UUID]:
        """All that the subscription names. OptionError if something of it is not there."""

        def missing(ids: Ids) -> dict[str, str]:
            asked = self.options.subscription
            if asked.assigned is not None:
                lacking = sorted(asked.assigned - ids.keys(), reverse=True)
                return {tp.topic: f"assign: there is no partition {tp}" for tp in lacking}
            there = {tp.topic for tp in ids}
            return {name: f"subscribe: there is no topic {name}" for name in asked.topics or () if name not in there}

        ids = self._subscribed(known, missing)
        for line in sorted(missing(ids).values()):
            raise OptionError(line)
        return ids

    def _subscribed(
        self, known: StreamOffsets, missing: Callable[[Ids], Collection[str]]
    ) -> dict[TopicPartition, UUID]:
        takes = self.options.subscription.takes
        ids = self._sure(self._brokers.partitions(), known, missing)
        return {tp: topic_id for tp, topic_id in sorted(ids.items()) if takes(tp)}

    def _sure(
        self, ids: Ids, known: StreamOffsets, missing: Callable[[Ids], Collection[str]]
    ) -> dict[TopicPartition, UUID]:
        """`ids`, one broker's word, unless topics are `missing` or have another id than is `known`: that has to be what
        the brokers say together, and again some time later, since none may have heard yet of what is missing.
        """
        doubtful = {*missing(ids), *(tp.topic for tp, at in known.items() if _is_anew(tp, at, ids))}
        told = {tp: topic_id for tp, topic_id in ids.items() if tp.topic not in doubtful}
        if not doubtful:
            return told
        found = told | self._brokers.agreed(doubtful)
        for _ in range(self.options.fetch_offset_retries):
            if not missing(found):
                break
            self._brokers.sleep(self.options.fetch_offset_retry_interval_ms / 1000)
            found = told | self._brokers.agreed(doubtful)
        return found

    # --- where a query begins and ends ---

    def resolve(self, point: Point, ids: Mapping[TopicPartition, UUID], *, starting: bool) -> dict[TopicPartition, int]:
        """An offset for every partition."""
        if isinstance(point, Earliest):
            return self._brokers.earliest(ids)
        if isinstance(point, Latest):
            return self._ends(ids)
        if isinstance(point, SpecificOffsets):
            wanted = {tp: at.offset for tp, at in point.offsets.items()}
            self._check_named("startingOffsets" if starting else "endingOffsets", wanted, ids)
        else:
            wanted = self._at_times(point, ids, starting=starting)
        latest = self._ends([tp for tp, offset in wanted.items() if offset == LATEST])
        earliest = self._brokers.earliest([tp for tp, offset in wanted.items() if offset == EARLIEST])
        return wanted | latest | earliest

    def _at_times(
        self, point: Timestamp | SpecificTimestamps, ids: Mapping[TopicPartition, UUID], *, starting: bool
    ) -> dict[TopicPartition, int]:
        if isinstance(point, Timestamp):
            times = dict.fromkeys(ids, point.timestamp)
        else:
            times = dict(point.timestamps)
            self._check_named(f"{'starting' if starting else 'ending'}OffsetsByTimestamp", times, ids)
        found = self._brokers.at_times(times)
        missing = [tp for tp, offset in found.items() if offset < 0]
        if missing and starting and point.no_match is NoMatch.ERROR:
            raise OptionError(
                f"no record at or after the starting timestamp: {names(missing)} "
                f"(startingOffsetsByTimestampStrategy=latest starts at their ends)"
            )
        return found | dict.fromkeys(missing, LATEST)

    def _check_named(
        self, option: str, named: Mapping[TopicPartition, int], ids: Mapping[TopicPartition, UUID]
    ) -> None:
        if named.keys() != ids.keys():
            raise OptionError(
                f"{option} must name every partition that is read (-1 is latest, -2 earliest): it names "
                f"{names(named) or 'none'}, and there are {names(ids) or 'none'}"
            )

    def _ends(self, partitions: "Mapping[TopicPartition, UUID] | list[TopicPartition]") -> dict[TopicPartition, int]:
        return {tp: found.offset for tp, found in self._brokers.latest(partitions).items()}

    # --- a batch ---

    def batch_ranges(self) -> list[OffsetRange]:
        """Of every partition, before they are cut into tasks."""
        options = self.options
        ids = self._existing(options.starting.offsets if isinstance(options.starting, SpecificOffsets) else {})
        start = self.resolve(options.starting, ids, starting=True)
        end = self.resolve(options.ending, ids, starting=False)
        epochs: dict[TopicPartition, int] = {}
        if isinstance(options.starting, SpecificOffsets):
            # Before the ends are looked at: a history that was cut ends before what was read of it.
            moved = self._check_history(options.starting.offsets, ids)
            start |= {tp: at.offset for tp, at in moved.items()}
            epochs = {tp: at.epoch for tp, at in options.starting.offsets.items() if tp not in moved}
        backwards = {tp: offset for tp, offset in sorted(start.items()) if end[tp] < offset}
        if backwards and isinstance(options.starting, SpecificOffsets) and isinstance(options.ending, Latest):
            # As in a stream: the log is shorter than what the user knows of it.
            self._data_loss(
                [
                    f"{tp}: the query starts at offset {at}, and the log ends at {end[tp]}"
                    for tp, at in backwards.items()
                ]
            )
            start |= {tp: end[tp] for tp in backwards}
            backwards = {}
        for tp, offset in backwards.items():
            raise OptionError(f"{tp} would start at {offset} and end before that, at {end[tp]}")
        newest = self._brokers.latest(ids)
        return [
            OffsetRange(
                tp=tp,
                start=start[tp],
                end=end[tp],
                epoch=epochs.get(tp, NO_EPOCH),
                # What is there already is of no later epoch than the newest; what is waited for may be.
                end_epoch=newest[tp].leader_epoch if end[tp] <= newest[tp].offset else NO_EPOCH,
                topic_id=ids[tp],
            )
            for tp in sorted(start)
        ]

    # --- a stream ---

    def initial(self) -> dict[TopicPartition, Position]:
        starting = self.options.starting
        known = starting.offsets if isinstance(starting, SpecificOffsets) else {}
        ids = self._existing(known)
        offsets = self.resolve(starting, ids, starting=True)
        epochs = self._brokers.epochs_before(offsets, self._newest_epochs(offsets))
        found = {}
        for tp, offset in sorted(offsets.items()):
            at = known.get(tp)
            # An epoch that the user gave is what was read there, and an id where: they stay, and are checked.
            is_told = at is not None and at.offset >= 0 and (at.epoch >= 0 or is_another(at.topic_id, ids[tp]))
            found[tp] = known[tp] if is_told else Position(offset, epochs[tp], ids[tp])
        return found

    def latest(self, start: StreamOffsets) -> dict[TopicPartition, Position]:
        """Where the partitions of the subscription end now; not before `start`, unless it stays so."""
        takes = self.options.subscription.takes
        for _ in range(_LOOKS):
            ids = self._subscribed(start, lambda found: {tp.topic for tp in start.keys() - found.keys() if takes(tp)})
            same = {tp: at for tp, at in start.items() if tp in ids and at.topic_id in (ZERO_UUID, ids[tp])}
            if self._brokers.require_epochs(to_ask(same)):
                break
        else:
            raise ApiError(
                ErrorCode.NETWORK_EXCEPTION, f"the brokers keep reporting different partitions: {names(ids)}"
            )
        found = self._brokers.latest(ids)
        for _ in range(self.options.fetch_offset_retries):
            behind = [tp for tp, at in same.items() if found[tp].offset < at.offset]
            if not behind:
                break
            # A leader elected a moment ago may not know yet how far its predecessor had come.
            log.warning("%s: the log ends before the offset of the query; retrying", names(behind))
            self._brokers.sleep(self.options.fetch_offset_retry_interval_ms / 1000)
            found = self._brokers.latest(ids)
        offsets = {tp: at.offset for tp, at in found.items()}
        behind = [tp for tp in same if offsets[tp] < same[tp].offset]
        ends = self._brokers.epoch_ends({tp: epoch for tp, epoch in to_ask(same).items() if tp in behind})
        for tp, end in ends.items():
            # What was read is there up to that. Its leader will know in a moment that it is committed, and to begin at
            # what is known now would be to read the rest again.
            offsets[tp] = max(offsets[tp], min(end.end_offset, same[tp].offset))
        return self._positions(offsets, ids, start, found)

    def frozen(self, ends: StreamOffsets, start: StreamOffsets) -> StreamOffsets:
        """`ends`, looked up when a run began that goes no further. Where history was rewritten before they were
        reached, what there is now: a log that is shorter would be waited for, and what comes to stand there be taken
        for lost.
        """
        ahead = {tp: at for tp, at in ends.items() if start.get(tp) != at}
        ids = self._brokers.of_topics({tp.topic for tp in ahead})
        ids = self._sure(ids, ahead, lambda found: {tp.topic for tp in ahead.keys() - found.keys()})
        lost = {each.tp for each in vanished({}, ahead, ids)}
        there = {tp: at for tp, at in ahead.items() if tp not in lost}
        lost |= {each.tp for each in rewritten(there, {}, self._brokers.epoch_ends(to_ask(there)))}
        if not lost:
            return ends
        now = self.latest(start)
        return {tp: at for tp, at in ends.items() if tp not in lost} | {tp: now[tp] for tp in lost & now.keys()}

    def positions(
        self, offsets: Mapping[TopicPartition, int], start: StreamOffsets, latest: StreamOffsets
    ) -> dict[TopicPartition, Position]:
        """For ends that were moved down from `latest`."""
        moved = {tp: offset for tp, offset in offsets.items() if offset != latest[tp].offset}
        ids = {tp: latest[tp].topic_id for tp in moved}
        return dict(latest) | self._positions(moved, ids, start, self._brokers.latest(moved))

    def _positions(
        self,
        offsets: Mapping[TopicPartition, int],
        ids: Mapping[TopicPartition, UUID],
        start: StreamOffsets,
        found: Mapping[TopicPartition, FoundOffset],
    ) -> dict[TopicPartition, Position]:
        known = {
            tp: start[tp]
            for tp, offset in offsets.items()
            if tp in start and start[tp].offset == offset and start[tp].topic_id == ids[tp]
        }
        new = {tp: offset for tp, offset in offsets.items() if tp not in known}
        epochs = self._brokers.epochs_before(new, {tp: found[tp].leader_epoch for tp in new})
        return known | {tp: Position(offset, epochs[tp], ids[tp]) for tp, offset in new.items()}

    def _newest_epochs(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {tp: found.leader_epoch for tp, found in self._brokers.latest(offsets).items()}

    def begin_new(self, start: StreamOffsets, end: StreamOffsets) -> dict[TopicPartition, Position]:
        """`start` with the partitions that came since: they are read from their beginning (S6)."""
        new = [tp for tp in end if tp not in start]
        begins = self._brokers.earliest(new)
        late = [tp for tp, offset in begins.items() if offset > 0]
        if late:
            self._data_loss(
                [f"{tp} is new and begins at {begins[tp]}: its earlier records were deleted" for tp in sorted(late)]
            )
        return dict(start) | {tp: Position(offset, topic_id=end[tp].topic_id) for tp, offset in begins.items()}

    def stream_ranges(self, start: StreamOffsets, end: StreamOffsets) -> list[OffsetRange]:
        """What one micro-batch reads. The same for the same offsets, however often it is asked for (S4)."""
        gone = start.keys() - end.keys()
        if gone:
            self._data_loss(
                [f"{tp} no longer exists; it was read up to offset {start[tp].offset}" for tp in sorted(gone)]
            )
        end = self._still_there(start, end)
        begun = self.begin_new({tp: at for tp, at in start.items() if tp in end}, end)
        ids = {tp: at.topic_id for tp, at in end.items()}
        begun |= self._check_history(begun, ids)
        shrunk = [tp for tp, at in end.items() if at.offset < begun[tp].offset]
        if shrunk:
            self._data_loss(
                [f"{tp} was read up to {begun[tp].offset} and ends at {end[tp].offset}" for tp in sorted(shrunk)]
            )
        ranges = [
            OffsetRange(
                tp=tp,
                start=begun[tp].offset,
                end=at.offset,
                epoch=begun[tp].epoch,
                end_epoch=at.epoch,
                topic_id=begun[tp].topic_id,
            )
            for tp, at in sorted(end.items())
        ]
        return self.cut(ranges)

    def _still_there(self, start: StreamOffsets, end: StreamOffsets) -> StreamOffsets:
        """`end` without what cannot be read any more: a batch that was planned is run again by a query that is started
        again, and its topic may have been deleted or made anew meanwhile. Nothing of the old one is left to compare;
        what there is instead the next batch reads, from its beginning.
        """
        ids = self._brokers.of_topics({tp.topic for tp in end})
        ids = self._sure(ids, end, lambda found: {tp.topic for tp in end.keys() - found.keys()})
        found = vanished(start, end, ids)
        lost = [each for each in found if each.first < each.end]
        if lost:
            self._data_loss([str(each) for each in lost])
        return {tp: at for tp, at in end.items() if tp not in {each.tp for each in found}}

    def cut(self, ranges: list[OffsetRange]) -> list[OffsetRange]:
        options = self.options
        return cut(ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)

    # --- losses ---

    def _check_history(
        self, start: StreamOffsets, ids: Mapping[TopicPartition, UUID]
    ) -> dict[TopicPartition, Position]:
        """Where to go on in partitions whose history is another one now (S5)."""
        same = {tp: at for tp, at in start.items() if tp in ids and at.topic_id in (ZERO_UUID, ids[tp])}
        ends = self._brokers.epoch_ends(to_ask(same))
        unknown = self._ends([tp for tp, end in ends.items() if end.epoch < 0])
        # A leader that knows no such epoch has nothing of it, and no more than its log holds can be the same.
        ends |= {tp: EpochEnd(-1, min(offset, start[tp].offset)) for tp, offset in unknown.items()}
        found = rewritten(start, ids, ends)
        if found:
            self._data_loss([str(each) for each in found])
        return {each.tp: Position(each.first, topic_id=ids[each.tp]) for each in found}

    def _data_loss(self, lines: list[str]) -> None:
        if self.options.fail_on_data_loss:
            raise DataLoss("; ".join(lines))
        for line in lines:
            log.warning("%s", line)
