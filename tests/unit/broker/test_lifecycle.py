"""A broker's life as its controller sees it: what it asks for, how often, and when it stops asking (C2, C9)."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from tests.unit.broker.virtual_node import PROPERTIES, on_virtual_time

from tidelog.broker.lifecycle import (
    RETRY_S,
    SHUTDOWN_LIMIT_S,
    SHUTDOWN_PATIENCE_S,
    AdvertisedListener,
    BrokerLifecycle,
    Identity,
)
from tidelog.client.errors import ConnectionFailed
from tidelog.core.config.node import NodeConfig
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.wire.messages.broker_registration import BrokerRegistrationResponse

Answer = Callable[[Any], Any]
IDENTITY = Identity(
    cluster_id="c",
    incarnation_id=UUID(int=5),
    listeners=[AdvertisedListener("PLAINTEXT", "here", 9092, "PLAINTEXT")],
    directory_ids=[UUID(int=9)],
    previous_epoch=-1,
)


class Controller:
    """Gives the answers it was told to, the last one for ever; remembers what it was asked, and when."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *answers: Answer) -> None:
        self._loop = loop
        self._answers = list(answers)
        self.asked: list[tuple[float, Any]] = []

    async def send(self, request: Any, *, timeout_ms: int = 30_000) -> Any:
        self.asked.append((self._loop.time(), request))
        answer = self._answers[0] if len(self._answers) == 1 else self._answers.pop(0)
        return answer(request)

    async def send_once(self, request: Any, *, lane: str, timeout_s: float) -> Any:
        return await self.send(request)


def refused(code: ErrorCode) -> Answer:
    return lambda request: BrokerHeartbeatResponse(error_code=code)


def unfenced(_: Any) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(is_fenced=False)


def fails(error: Exception) -> Answer:
    def answer(_: Any) -> Any:
        raise error

    return answer


def life(controller: Controller, *, epoch: int = 7) -> BrokerLifecycle:
    config, _ = NodeConfig.parse(PROPERTIES)
    lifecycle = BrokerLifecycle(asyncio.get_running_loop(), config, controller, lambda: 3, list)
    lifecycle.epoch = epoch
    return lifecycle


@pytest.mark.rule("C2")
def test_a_registration_waits_for_the_process_before_it_and_not_for_anything_else() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        taken = BrokerRegistrationResponse(broker_epoch=12)
        duplicate = BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        controller = Controller(loop, lambda _: duplicate, lambda _: duplicate, lambda _: taken)
        lifecycle = life(controller, epoch=-1)
        await lifecycle.register(IDENTITY)
        assert (lifecycle.epoch, len(controller.asked)) == (12, 3)
        other = BrokerRegistrationResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        with pytest.raises(ApiError, match="INCONSISTENT_CLUSTER_ID"):
            await life(Controller(loop, lambda _: other), epoch=-1).register(IDENTITY)
        late = life(Controller(loop, lambda _: duplicate), epoch=-1)
        before = loop.time()
        with pytest.raises(ApiError, match="DUPLICATE_BROKER_REGISTRATION"):
            await late.register(IDENTITY)
        assert 60 <= loop.time() - before < 61

    on_virtual_time(story)


@pytest.mark.rule("C2")
def test_a_broker_reports_at_once_that_it_has_applied_its_registration() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        applied = [3]

        def answer(request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
            return BrokerHeartbeatResponse(is_fenced=request.current_metadata_offset < 7)

        controller = Controller(loop, answer)
        config, _ = NodeConfig.parse(PROPERTIES)
        lifecycle = BrokerLifecycle(loop, config, controller, lambda: applied[-1], list)
        lifecycle.epoch = 7
        unfencing = loop.create_task(lifecycle.unfence())
        for offset in (5, 7, 8):
            await asyncio.sleep(RETRY_S / 50)
            applied.append(offset)
            lifecycle.metadata_applied()
        await unfencing
        # Not for 5, which says nothing new, and once for what is applied since.
        assert [request.current_metadata_offset for _, request in controller.asked[:2]] == [3, 7]
        assert controller.asked[1][0] == pytest.approx(2 * RETRY_S / 50)
        await lifecycle.stop()

    on_virtual_time(story)


@pytest.mark.rule("C2")
def test_heartbeats_go_on_whatever_one_of_them_meets(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        broken = [fails(ConnectionFailed("gone")), fails(ValueError("never seen")), refused(ErrorCode.NOT_CONTROLLER)]
        controller = Controller(loop, unfenced, *broken, unfenced)
        lifecycle = life(controller)
        await lifecycle.unfence()
        await asyncio.sleep(10)
        times = [at for at, _ in controller.asked]
        # Soon again after each that was not taken, then at the interval.
        assert times[:5] == pytest.approx([0, 0, RETRY_S, 2 * RETRY_S, 3 * RETRY_S])
        assert times[5] - times[4] == pytest.approx(2.0)
        assert not lifecycle.fenced
        await lifecycle.stop()

    on_virtual_time(story)
    assert [record.message for record in caplog.records if record.exc_info] == ["a heartbeat failed; retrying"]


def test_a_broker_that_is_not_known_any_more_says_so_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        controller = Controller(asyncio.get_running_loop(), unfenced, refused(ErrorCode.STALE_BROKER_EPOCH))
        lifecycle = life(controller)
        await lifecycle.unfence()
        await asyncio.sleep(50)
        await lifecycle.stop()
        assert len(controller.asked) > 100

    with caplog.at_level(logging.WARNING):
        on_virtual_time(story)
    assert [record.message for record in caplog.records] == [
        "heartbeat of broker 1 with epoch 7 refused: STALE_BROKER_EPOCH"
    ]


@pytest.mark.rule("C9")
@pytest.mark.parametrize(
    ("answer", "waits_s", "told"),
    [
        (lambda _: BrokerHeartbeatResponse(should_shut_down=True), 0.0, None),
        (unfenced, SHUTDOWN_LIMIT_S, "the controller did not move"),
        (fails(ConnectionFailed("gone")), SHUTDOWN_PATIENCE_S, "no controller answered"),
        (refused(ErrorCode.NOT_CONTROLLER), SHUTDOWN_PATIENCE_S, "no controller answered"),
        (refused(ErrorCode.STALE_BROKER_EPOCH), 0.0, "controlled shutdown refused: STALE_BROKER_EPOCH"),
    ],
    ids=["let go", "never let go", "no answer", "no controller", "not known"],
)
def test_a_shutdown_asks_until_it_is_let_go_and_not_for_ever(
    answer: Answer, waits_s: float, told: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        controller = Controller(loop, answer)
        await life(controller).shut_down()
        assert waits_s <= loop.time() <= waits_s + 2 * RETRY_S
        for _, request in controller.asked:
            assert isinstance(request, BrokerHeartbeatRequest)
            assert request.want_shut_down

    with caplog.at_level(logging.WARNING):
        on_virtual_time(story)
    assert ([] if told is None else [told]) == [record.message[: len(told or "")] for record in caplog.records]
