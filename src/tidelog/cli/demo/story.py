"""The demo's story: three brokers, writers, SIGKILL to a leader, its return, the count, a table, a report."""

import asyncio
import signal
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from tidelog.cli.demo.journal import Event, Journal, Outage
from tidelog.cli.demo.pipeline import Sold, SparkAct
from tidelog.cli.demo.report import page_of
from tidelog.cli.demo.screen import picture
from tidelog.cli.demo.writing import TOPIC, WRITERS, Counted, Score, count, write
from tidelog.cli.program import program
from tidelog.client.client import Client
from tidelog.client.replicas import ReplicaObserver
from tidelog.client.topics import PartitionDescription, create_topic, describe_topic
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.page import Page
from tidelog.cluster.plan import ANY_PORT, ClusterRequest
from tidelog.cluster.run import supervised
from tidelog.cluster.supervisor import Supervisor
from tidelog.jobs.session import why_no_spark

BROKERS: Final = 3
# Of the time that is written: before the kill, and while the killed one is away.
_KILL_AT: Final = 0.35
_AWAY: Final = 0.25
_POLL_S: Final = 0.01
_MS: Final = 1000
# Longer than any election or catching up takes on a busy machine: after it the story ends badly.
_PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The options of the command line."""

    seconds: float
    with_spark: bool
    report: Path
    keep: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result."""

    acknowledged: int
    read_back: int
    missing: int
    doubled: int
    longest_wait_s: float
    # Of the table that Spark made; None without it, and then why.
    table_rows: int | None
    no_table: str | None
    report: str


def tell(plan: Plan, console: Console) -> Outcome:
    """Runs the whole story; ClusterError when it does not end well."""
    with tempfile.TemporaryDirectory(prefix="tidelog-demo-") as directory:
        return asyncio.run(_Story(plan, Path(directory), console).run())


@dataclass(slots=True)
class _Story:
    plan: Plan
    directory: Path
    console: Console
    journal: Journal = field(default_factory=Journal)
    score: Score = field(default_factory=Score)
    _steps: int = 0

    async def run(self) -> Outcome:
        self.console.print(Text("Tidelog demo: kill a leader in the middle of a load, lose nothing\n", style="bold"))
        loop = asyncio.get_running_loop()
        began = loop.time()
        request = ClusterRequest(data=self.directory / "cluster", brokers=BROKERS, free_ports=True, ui_port=ANY_PORT)
        # This data is deleted at the end, so the nodes need no orderly end.
        async with supervised(request, end=Supervisor.kill_all) as supervisor, AsyncExitStack() as stack:
            await supervisor.start_all()
            page = supervisor.page
            assert page is not None, "a port was asked for"
            self._tell(f"{BROKERS} brokers are up on {supervisor.bootstrap} after {loop.time() - began:.1f} s")
            self.console.print(Text.assemble("   watch it in a browser: ", (page.url, "bold")))
            act, no_spark = await self._start_spark(supervisor.bootstrap, stack)
            async with Client(supervisor.bootstrap, retry_timeout_s=_PATIENCE_S) as client:
                await create_topic(client, TOPIC, partitions=WRITERS, config={"min.insync.replicas": "2"})
                await self._write_through_a_kill(supervisor, client)
                counted = await self._count(client)
            sold = await self._on_spark(act, counted, no_spark)
            report = self.plan.report
            report.write_text(page_of(self.journal, self.score, counted, sold, no_spark).html())
            self._tell(f"the report, with pictures: {report.resolve()}")
            if self.plan.keep:
                await self._stay(supervisor, page)
        if not self.plan.keep:
            self._print_next_steps()
        return Outcome(
            acknowledged=self.score.total,
            read_back=counted.found,
            missing=counted.missing,
            doubled=counted.doubled,
            longest_wait_s=round(self.score.longest_wait_s, 3),
            table_rows=None if sold is None else sold.rows,
            no_table=no_spark or None,
            report=str(report.resolve()),
        )

    def _tell(self, text: str | Text) -> None:
        self._steps += 1
        self.console.print(Text.assemble(f"{self._steps}. ", text))

    # --- the kill --------------------------------------------------------------------------------------------------

    async def _write_through_a_kill(self, supervisor: Supervisor, client: Client) -> None:
        seconds = self.plan.seconds
        self._tell(
            f"{WRITERS} writers send to topic {TOPIC!r} for {seconds:g} s: {BROKERS} replicas, acks=all, "
            "min.insync.replicas=2"
        )
        stop = asyncio.Event()
        self.journal.began_s = asyncio.get_running_loop().time()
        observer = ReplicaObserver(client, TOPIC)
        with Live(console=self.console, transient=True, auto_refresh=False) as live:
            async with asyncio.TaskGroup() as group:
                watcher = group.create_task(
                    self.journal.keep(
                        observer,
                        self.score,
                        lambda look: live.update(picture(look, self.console.width), refresh=True),
                    )
                )
                for writer in range(WRITERS):
                    group.create_task(write(client, writer, self.score, stop))
                try:
                    await asyncio.sleep(seconds * _KILL_AT)
                    await self._kill_a_leader(supervisor, client)
                    await asyncio.sleep(seconds * (1 - _KILL_AT - _AWAY))
                finally:
                    stop.set()
                    watcher.cancel()
        self._tell(
            f"{self.score.total} records acknowledged in total; the longest wait for an acknowledgement: "
            f"{self.score.longest_wait_s * _MS:.0f} ms"
        )

    async def _kill_a_leader(self, supervisor: Supervisor, client: Client) -> None:
        loop = asyncio.get_running_loop()

        def happened(text: str) -> float:
            at_s = loop.time() - self.journal.began_s
            self.journal.events.append(Event(at_s, text))
            return at_s

        partitions = (await describe_topic(client, TOPIC)).partitions
        leader = partitions[0].leader
        led = sum(partition.leader == leader for partition in partitions)
        before = self.score.total
        await supervisor.kill(leader)
        killed_s = happened(f"SIGKILL to node {leader}, the leader of {led} of {WRITERS} partitions")
        self._tell(
            f"SIGKILL to node {leader}, the leader of {led} of {WRITERS} partitions, after {before} acknowledged "
            "records: nothing is flushed, no client is warned"
        )
        await _until(client, lambda found: found.leader not in (-1, leader))
        elected_s = happened("other in-sync replicas are leaders")
        self._tell(
            f"other in-sync replicas are leaders after {(elected_s - killed_s) * _MS:.0f} ms; the writers continue"
        )
        await asyncio.sleep(self.plan.seconds * _AWAY)
        started_s = happened(f"node {leader} is started again")
        await supervisor.start(leader)
        await _until(client, lambda found: len(found.isr) == BROKERS)
        in_sync_s = happened(f"node {leader} has caught up: all replicas are in sync")
        self.journal.outages.append(Outage(node=leader, killed_s=killed_s, started_s=started_s, in_sync_s=in_sync_s))
        self._tell(f"node {leader} is back, and in sync {in_sync_s - started_s:.1f} s after its start")

    async def _count(self, client: Client) -> Counted:
        counted = await count(client, self.score)
        verdict = Text("nothing lost, no duplicates" if counted.is_good else "BROKEN: this must not happen")
        verdict.stylize("green bold" if counted.is_good else "red bold")
        words = f"read back {counted.found} records: {counted.missing} missing, {counted.doubled} duplicates: "
        self._tell(Text.assemble(words, verdict))
        if not counted.is_good:
            raise ClusterError(f"{counted.missing} acknowledged records are missing, {counted.doubled} are duplicates")
        return counted

    # --- Spark -----------------------------------------------------------------------------------------------------

    async def _start_spark(self, bootstrap: str, stack: AsyncExitStack) -> tuple[SparkAct | None, str]:
        """The act, whose session starts while the acts before it run; or why there is none."""
        reason = await asyncio.to_thread(why_no_spark) if self.plan.with_spark else "--no-spark was given"
        if reason is not None:
            return None, reason
        folder = SparkAct.prepared(self.directory / "pipeline")
        return await stack.enter_async_context(SparkAct.started(folder, bootstrap)), ""

    async def _on_spark(self, act: SparkAct | None, counted: Counted, no_spark: str) -> Sold | None:
        """None without Spark."""
        if act is None:
            self._tell(f"the Spark part is skipped: {no_spark}")
            return None
        self._tell("a pipeline on Spark makes a Parquet table of the topic")
        loop = asyncio.get_running_loop()
        began = loop.time()
        with self.console.status("   Spark reads, decodes and writes"):
            sold = await act.make_table(lambda line: self.console.print(Text(f"   {line}", style="dim")))
        if not sold.rows == sold.distinct == counted.found:
            raise ClusterError(f"the table has {sold.rows} rows, {sold.distinct} distinct, of {counted.found} records")
        dearest = max(sold.items, key=lambda item: sold.items[item][1])
        self._tell(
            f"{sold.rows} rows after {loop.time() - began:.1f} s, each record exactly once; {dearest} earned the most"
        )
        return sold

    # --- the end ---------------------------------------------------------------------------------------------------

    async def _stay(self, supervisor: Supervisor, page: Page) -> None:
        data, tidelog = supervisor.directory.path, program()
        self.console.print(f"\nThe cluster keeps running on {supervisor.bootstrap}, data in {data}; ctrl-C ends it.")
        self._print_commands(
            (page.url, "the page: watch the cluster and inject faults"),
            (f"{tidelog} replicas {TOPIC} --watch --bootstrap {supervisor.bootstrap}", "every replica, live"),
            (f"{tidelog} chaos kill 1 --data {data}", "kill node 1"),
            (f"{tidelog} chaos start 1 --data {data}", "start node 1 again"),
        )
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, ended.set)
        await ended.wait()

    def _print_next_steps(self) -> None:
        tidelog = program()
        self.console.print("\nWhat to try next:")
        self._print_commands(
            (f"{tidelog} up --detach", "start a cluster that keeps its data, with a page"),
            (f"seq 1000 | {tidelog} produce numbers", "write each line as a record"),
            (f"{tidelog} consume numbers --from-beginning --max 5", "read records back"),
            (f"{tidelog} chaos kill 2", "kill a broker"),
            (f"{tidelog} topics describe numbers", "show leaders and in-sync replicas"),
            (f"{tidelog} quorum describe", "show the metadata quorum"),
            (f"{tidelog} scenario run replication/produce --step", "see how replication works, step by step"),
            (f"{tidelog} dump tidelog-data/node-1/data/numbers-0/*.log --records", "print a segment as text"),
            (f"{tidelog} down", "stop the cluster"),
        )

    def _print_commands(self, *commands: tuple[str, str]) -> None:
        for command, words in commands:
            self.console.print(Text.assemble("  ", (command, "bold"), f"   {words}"))


async def _until(client: Client, holds: Callable[[PartitionDescription], bool]) -> None:
    """Waits until every partition is as it should be."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while not all(holds(found) for found in (await describe_topic(client, TOPIC)).partitions):
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise ClusterError(f"the cluster did not recover within {_PATIENCE_S:g} s") from None
