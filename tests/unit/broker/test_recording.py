"""Recording is switched on and off while the broker runs."""

import asyncio
import json
import random
from types import SimpleNamespace
from typing import Any, cast

from tidelog.broker.broker import Broker
from tidelog.broker.recording import Recording
from tidelog.core.config.node import NodeConfig
from tidelog.core.events import Event, IsrChanged
from tidelog.core.ids import TopicPartition
from tidelog.replication.roles import Leader


def config_of(*, enabled: bool, interval_ms: int = 3_600_000) -> NodeConfig:
    values = SimpleNamespace(
        node_id=1,
        tidelog_replication_events_enable=enabled,
        tidelog_replication_events_interval_ms=interval_ms,
    )
    return cast(NodeConfig, values)


def led(topic: str) -> Any:
    role = object.__new__(Leader)
    role.epoch, role.epoch_start_offset = cast(Any, 7), cast(Any, 40)
    role.isr_state = cast(Any, SimpleNamespace(isr=frozenset({1, 2}), recovering=True))
    log = SimpleNamespace(log_start_offset=3, high_watermark=41)
    return SimpleNamespace(topic_partition=TopicPartition(topic, 0), role=role, log=log)


def broker_of(*partitions: Any, enabled: bool) -> Any:
    return SimpleNamespace(
        loop=asyncio.get_running_loop(),
        wall_clock=SimpleNamespace(now_ms=lambda: 1),
        config=config_of(enabled=enabled),
        replicas=list(partitions),
    )


def recording_of(broker: Any) -> Recording:
    return Recording(cast(Broker, broker), address=lambda: None, rng=random.Random(1))


def shrunk(topic: str) -> Event:
    return IsrChanged(
        topic=topic,
        partition=0,
        leader_epoch=1,
        old_isr=(1, 2),
        new_isr=(1,),
        log_end_offset=9,
        high_watermark=5,
        reason="2 is behind",
    )


def kept(recording: Recording) -> list[tuple[str, str]]:
    assert recording._events is not None
    lines = [json.loads(line) for line in recording._events._waiting]
    return [(line["event"], line["topic"]) for line in lines]


def tasks() -> set[str]:
    own = asyncio.current_task()
    return {task.get_name() for task in asyncio.all_tasks() if task is not own}


def test_events_pass_whether_or_not_they_are_recorded() -> None:
    async def story() -> None:
        seen: list[Event] = []
        broker = broker_of(enabled=False)
        recording = recording_of(broker)
        sink = recording.beside(seen.append)
        sink(shrunk("off"))
        recording.apply_config(config_of(enabled=True))
        sink(shrunk("on"))
        assert kept(recording) == [("isr_changed", "on")]
        recording.apply_config(config_of(enabled=False))
        sink(shrunk("off again"))
        recording.apply_config(config_of(enabled=True))
        assert kept(recording) == []
        assert len(seen) == 3
        await recording.stop()

    asyncio.run(story())


def test_recording_that_begins_late_starts_with_the_present_leaders() -> None:
    async def story() -> None:
        # A leader of an unclean election, too: that election is over, and must not be counted.
        recording = recording_of(broker_of(led("orders"), led("__replication_events"), enabled=False))
        recording.start()
        recording.apply_config(config_of(enabled=True))
        assert kept(recording) == [("leadership_taken", "orders")]
        await recording.stop()

    asyncio.run(story())


def test_a_broker_that_has_not_joined_records_no_leaders_of_before() -> None:
    async def story() -> None:
        recording = recording_of(broker_of(led("orders"), enabled=True))
        recording.start()
        assert kept(recording) == []
        await recording.stop()

    asyncio.run(story())


def test_nothing_runs_while_recording_is_off() -> None:
    async def story() -> None:
        recording = recording_of(broker_of(enabled=False))
        recording.start()
        assert tasks() == set()
        recording.apply_config(config_of(enabled=True))
        assert tasks() == {"replication events"}
        recording.apply_config(config_of(enabled=False))
        await recording.stop()
        assert tasks() == set()
        # A config that is applied while the node ends starts nothing.
        recording.apply_config(config_of(enabled=True))
        assert tasks() == set()

    asyncio.run(story())


def test_a_new_interval_counts_from_the_next_round_on() -> None:
    async def story() -> None:
        recording = recording_of(broker_of(enabled=True))
        recording.start()
        recording.apply_config(config_of(enabled=True, interval_ms=2000))
        assert recording._events is not None and recording._events._rounds is not None
        assert recording._events._rounds.interval_s == 2
        await recording.stop()

    asyncio.run(story())
