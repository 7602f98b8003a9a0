"""The whole of it: a topic, the load, the faults, the end, the history and its verdict."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from tidelog.client.client import Client
from tidelog.client.topics import create_topic, delete_topic
from tidelog.verify.consuming import Reader
from tidelog.verify.faults import FaultPort
from tidelog.verify.final_read import FinalRead
from tidelog.verify.history import History
from tidelog.verify.librdkafka import FatalErrors, consumer_config, load, probe_config, producer_config
from tidelog.verify.librdkafka_security import security_config
from tidelog.verify.producing import LoadProducer, Probe, Sender, Worker
from tidelog.verify.reads import Reads
from tidelog.verify.rounds import FaultDriver
from tidelog.verify.sends import Sends
from tidelog.verify.verdict import Judgement, Verdict, judge
from tidelog.verify.watch import Watch
from tidelog.verify.workload import RunPlan, VerifyError, Workload

_TICK_S: Final = 0.05
_PROGRESS_EVERY_MS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a run is, for a person who waits for it."""

    phase: str
    elapsed_s: float
    acknowledged: int
    read: int
    faults: int
    leader_changes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a run ended."""

    workload: Workload
    replication_factor: int
    min_isr: int
    judgement: Judgement
    history: History
    elapsed_s: float
    # Consumers that began anew after an error and producers after a fatal one, and the last words of each.
    readers_reopened: int
    producers_reopened: int
    last_error: str | None
    topic_kept: bool


async def run(
    client: Client,
    plan: RunPlan,
    *,
    port: FaultPort | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Runs a plan on the client's cluster; through `port` its nodes are hit."""
    kafka = load()
    # Refuses what librdkafka lacks, before the topic is created.
    security_config(plan.workload.security)
    await client.refresh([])
    workload, brokers = plan.workload, len(client.metadata.brokers)
    if plan.faults.kinds and port is None:
        raise VerifyError("faults need a cluster that tidelog up or Cluster started; pass its directory with --data")
    driver = FaultDriver(port, plan.faults) if port is not None and plan.faults.kinds else None
    await create_topic(
        client,
        workload.topic,
        partitions=workload.partitions,
        replication_factor=workload.replicas(brokers),
        config=workload.topic_config(brokers),
    )
    keep = workload.keep_topic
    try:
        watch = Watch(client.metadata.brokers, workload.topic, workload.partitions, workload.security)
        session = _Session(kafka, plan, watch, driver, on_progress)
        try:
            await session.live()
        finally:
            await session.close()
        judgement = await asyncio.to_thread(judge, session.history, plan.thresholds, plan.faults.kinds)
        # A log that shows a bug is kept: it is the evidence.
        keep = keep or judgement.verdict is Verdict.FAILED
    finally:
        # Also after ctrl-C: without a verdict the topic is no evidence.
        if not keep:
            await delete_topic(client, workload.topic)
    return session.result(judgement, topic_kept=keep)


class _Session:
    """The workers of one run and what they bring home."""

    def __init__(
        self,
        kafka: Any,
        plan: RunPlan,
        watch: Watch,
        driver: FaultDriver | None,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self._kafka = kafka
        self._plan = plan
        self._watch = watch
        self._on_progress = on_progress
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._next_progress_ms = 0
        workload = plan.workload
        self.history = History(topic=workload.topic, partitions=workload.partitions)
        # Producers, the probe, consumers, the final read.
        self._threads = ThreadPoolExecutor(workload.producers + workload.consumers + 2, "verify")
        self._senders: list[Sender] = [self._producer(number) for number in range(workload.producers)]
        self._senders.append(self._probe(workload.producers))
        self._readers = [self._reader(number) for number in range(workload.consumers)]
        self._workers: list[tuple[Worker, asyncio.Future[None]]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._driver = driver

    async def live(self) -> None:
        """Load and faults, then the end: answers, ISRs, the log, the consumers."""
        plan, history = self._plan, self.history
        self._tasks.append(asyncio.create_task(self._watch.run()))
        if missing := await self._watch.wait_whole(plan.settle_s):
            raise VerifyError(f"the cluster is not healthy at the start: {missing}")
        for worker in [*self._readers, *self._senders]:
            self._start(worker)
        ends_ms = self._now_ms() + int(plan.seconds * 1000)
        faults: asyncio.Task[None] | None = None
        if self._driver is not None:
            history.faults = self._driver.events
            faults = asyncio.create_task(self._driver.run(self._watch, self._now_ms, ends_ms))
            self._tasks.append(faults)
        await self._until("load", lambda: faults.done() if faults is not None else self._now_ms() >= ends_ms)

        for sender in self._senders:
            sender.stop()
        running = [future for worker, future in self._workers if worker in self._senders]
        await self._until("last answers", lambda: all(future.done() for future in running))
        missing = await self._watch.wait_whole(plan.settle_s)
        history.not_whole = (self._driver.broken if self._driver is not None else None) or missing

        final = FinalRead(
            self._make_consumer,
            self._kafka,
            history.topic,
            range(history.partitions),
            self._now_ms,
            plan.settle_s,
        )
        reading = self._start(final)
        await self._until("final read", reading.done)
        history.final = final.logs
        ends = {partition: log.end_offset for partition, log in final.logs.items() if log.incomplete is None}
        deadline_ms = self._now_ms() + int(plan.settle_s * 1000)
        await self._until(
            "consumers",
            lambda: all(reader.has_read(ends) for reader in self._readers) or self._now_ms() > deadline_ms,
        )
        for reader in self._readers:
            reader.stop()
        await self._until("consumers", lambda: all(future.done() for _, future in self._workers))
        history.leader_changes = self._watch.changes.count

    async def close(self) -> None:
        for worker, _ in self._workers:
            worker.abandon()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *(future for _, future in self._workers), return_exceptions=True)
        self._threads.shutdown()

    def result(self, judgement: Judgement, *, topic_kept: bool) -> Result:
        workload = self._plan.workload
        errors = [reader.last_error for reader in self._readers] + [each.fatal.last for each in self._senders]
        return Result(
            workload=workload,
            replication_factor=workload.replicas(len(self._watch.brokers)),
            min_isr=workload.in_sync(len(self._watch.brokers)),
            judgement=judgement,
            history=self.history,
            elapsed_s=self._now_ms() / 1000,
            readers_reopened=sum(reader.reopened for reader in self._readers),
            producers_reopened=sum(sender.fatal.count for sender in self._senders),
            last_error=next((error for error in errors if error is not None), None),
            topic_kept=topic_kept,
        )

    def _now_ms(self) -> int:
        return int((self._loop.time() - self._began) * 1000)

    def _start(self, worker: Worker) -> "asyncio.Future[None]":
        future = self._loop.run_in_executor(self._threads, worker.work)
        self._workers.append((worker, future))
        return future

    async def _until(self, phase: str, done: Callable[[], bool]) -> None:
        """Waits, tells how far it is, and raises what a worker raised."""
        while True:
            for running in [*(future for _, future in self._workers), *self._tasks]:
                if running.done():
                    running.result()
            if self._on_progress is not None and self._now_ms() >= self._next_progress_ms:
                self._next_progress_ms = self._now_ms() + _PROGRESS_EVERY_MS
                self._on_progress(self._progress(phase))
            if done():
                return
            await asyncio.sleep(_TICK_S)

    def _progress(self, phase: str) -> Progress:
        driver = self._driver
        return Progress(
            phase=driver.under_way if phase == "load" and driver is not None and driver.under_way else phase,
            elapsed_s=self._now_ms() / 1000,
            acknowledged=sum(sender.acknowledged for sender in self._senders),
            read=sum(len(reads) for reads in self.history.reads.values()),
            faults=len(driver.events) if driver is not None else 0,
            leader_changes=self._watch.changes.count,
        )

    # --- workers ---

    def _sends(self, producer: int, *, idempotent: bool) -> dict[int, Sends]:
        sends = {
            partition: Sends(producer, partition, idempotent=idempotent) for partition in range(self.history.partitions)
        }
        self.history.sends.update({(producer, partition): each for partition, each in sends.items()})
        return sends

    def _producer(self, number: int) -> LoadProducer:
        workload = self._plan.workload
        return LoadProducer(
            lambda: self._kafka.Producer(producer_config(workload)),
            FatalErrors(self._kafka),
            workload.topic,
            self._sends(number, idempotent=workload.idempotent),
            self._now_ms,
            self._plan.settle_s,
            rate=workload.rate / workload.producers,
            record_bytes=workload.record_bytes,
            max_records=workload.max_records // workload.producers,
        )

    def _probe(self, number: int) -> Probe:
        workload = self._plan.workload
        return Probe(
            lambda: self._kafka.Producer(probe_config(workload)),
            FatalErrors(self._kafka),
            workload.topic,
            self._sends(number, idempotent=False),
            self._now_ms,
            self._plan.settle_s,
            record_bytes=workload.record_bytes,
            too_large_bytes=workload.max_message_bytes + 1,
        )

    def _reader(self, number: int) -> Reader:
        reads = {partition: Reads(partition) for partition in range(self.history.partitions)}
        self.history.reads.update({(number, partition): each for partition, each in reads.items()})
        topic = self._plan.workload.topic
        return Reader(self._make_consumer, self._kafka.TopicPartition, topic, reads, self._now_ms)

    def _make_consumer(self) -> Any:
        return self._kafka.Consumer(consumer_config(self._plan.workload))
