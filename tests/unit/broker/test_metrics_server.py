"""`/metrics`: what is answered to whom, what a slow or rude client costs, and that docs/metrics.md lists it all."""

import asyncio
import re
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.unit.broker.test_replication import make_topic
from tests.unit.broker.toy_server import in_virtual_time
from tests.unit.broker.virtual_cluster import connect, on_virtual_cluster

from tidelog.broker.measures import NodeMeasures
from tidelog.broker.metrics_server import EXCHANGE_S, MAX_CONNECTIONS, MAX_HEAD_BYTES, MetricsServer
from tidelog.broker.slices import in_slices
from tidelog.core.exposition import Metric, Sample, lines
from tidelog.sim.cluster import SimCluster

PORT = 9404
LIST = Path(__file__).parents[3] / "docs" / "metrics.md"
GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


class Looks:
    """A node without roles that counts how often it is looked at, and takes three turns of the loop for it."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> Generator[None, None, NodeMeasures]:
        self.count += 1
        yield from [None] * 3
        return NodeMeasures(broker=None, controller=None)


async def serve(looks: Looks) -> MetricsServer:
    server = MetricsServer(looks, 7)
    assert await server.listen("localhost", PORT) == PORT
    return server


async def ask(request: bytes, *, half_close: bool = False) -> tuple[str, bytes]:
    """The status line and the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    writer.write(request)
    if half_close:
        writer.write_eof()
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.decode().partition("\r\n")[0], body


def test_who_asks_gets_the_numbers_and_who_asks_wrongly_is_told() -> None:
    async def story() -> None:
        looks = Looks()
        server = await serve(looks)
        status, body = await ask(GET, half_close=True)
        assert status == "HTTP/1.1 200 OK" and 'tidelog_build_info{version="' in body.decode()
        assert await ask(b"HEAD /metrics?x=1 HTTP/1.1\r\n\r\n") == ("HTTP/1.1 200 OK", b"")
        assert looks.count == 2
        for request, told in (
            (b"GET / HTTP/1.1\r\n\r\n", "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"GET /metrics\r\n\r\n", "400"),
            (b"\x00\x00\x00\x12 \r\n\r\n", "400"),
            (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * MAX_HEAD_BYTES, "431"),
        ):
            assert told in (await ask(request))[0]
        assert looks.count == 2
        await server.close()

    in_virtual_time(story())


def test_scrapes_at_the_same_time_share_one_look() -> None:
    async def story() -> None:
        looks = Looks()
        server = await serve(looks)
        answers = await asyncio.gather(*(ask(GET) for _ in range(8)))
        assert {status for status, _ in answers} == {"HTTP/1.1 200 OK"} and looks.count < 8
        await server.close()

    in_virtual_time(story())


def test_a_slow_client_is_cut_off_and_too_many_are_not_let_in() -> None:
    async def story() -> None:
        server = await serve(Looks())
        loop = asyncio.get_running_loop()
        silent = [await asyncio.open_connection("127.0.0.1", PORT) for _ in range(MAX_CONNECTIONS)]
        silent[0][1].write(b"GET /met")
        began_s = loop.time()
        with pytest.raises(ConnectionResetError):
            await ask(GET)
        for reader, writer in silent:
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()
        assert loop.time() - began_s == pytest.approx(EXCHANGE_S, abs=1.0)
        assert (await ask(GET))[0] == "HTTP/1.1 200 OK"
        await server.close()

    in_virtual_time(story())


def test_work_in_slices_lets_others_have_their_turn() -> None:
    async def story() -> None:
        others = 0

        async def other() -> None:
            nonlocal others
            while True:
                others += 1
                await asyncio.sleep(0)

        def steps() -> Generator[None, None, str]:
            yield from [None] * 100
            return "done"

        task = asyncio.create_task(other())
        assert await in_slices(steps(), slice_s=0.0) == "done"
        assert others == 100
        task.cancel()

    in_virtual_time(story())


def test_the_text_format() -> None:
    metrics = [
        Metric(
            name="a_total", kind="counter", help="It.", samples=[Sample(2**60), Sample(0.5, {"x": 'q"\\\n', "y": "z"})]
        )
    ]
    assert "".join(lines(metrics)) == (
        '# HELP a_total It.\n# TYPE a_total counter\na_total 1152921504606846976\na_total{x="q\\"\\\\\\n",y="z"} 0.5\n'
    )


@pytest.mark.rule("O3")
def test_the_documented_list_is_what_is_served() -> None:
    documented = dict(re.findall(r"^\| `([a-z_]+)` \| (gauge|counter) \|", LIST.read_text(), re.MULTILINE))
    found: dict[str, str] = {}

    async def story(cluster: SimCluster) -> None:
        await make_topic(await connect(cluster, 1))
        for node in cluster.nodes:
            # On the test's machine: nodes of a simulation serve no HTTP themselves.
            server = MetricsServer(cluster.node(node).measure_stepwise, node)
            await server.listen("localhost", PORT)
            text = (await ask(GET))[1].decode()
            found.update(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
            await server.close()

    on_virtual_cluster(story)
    assert found == documented


@pytest.mark.parametrize("path", ["prometheus/rules.yml", "grafana/tidelog.json"])
def test_rules_and_dashboard_ask_for_what_is_served(path: str) -> None:
    asked = set(re.findall(r"\b(?:kafka|tidelog|process)_[a-z_]+", (LIST.parent / path).read_text()))
    assert asked and asked <= set(re.findall(r"^\| `([a-z_]+)` \|", LIST.read_text(), re.MULTILINE))
