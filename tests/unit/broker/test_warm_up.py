"""Work that is done before nodes are forked: each node finds it done, and no node finds another one's arguments."""

import pytest

from tidelog.broker.__main__ import parse_arguments
from tidelog.broker.warm_up import warm_up
from tidelog.wire import codec
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.wire.messages.vote import VoteResponse
from tidelog.wire.schema import spec_of


@pytest.mark.parametrize("message", [BrokerHeartbeatRequest, VoteResponse])
def test_messages_of_a_start_are_compiled(monkeypatch: pytest.MonkeyPatch, message: type) -> None:
    monkeypatch.setattr(codec, "_READERS", {})
    monkeypatch.setattr(codec, "_WRITERS", {})
    warm_up()
    newest = (message, spec_of(message).versions.high)
    assert newest in codec._READERS and newest in codec._WRITERS


def test_one_parser_keeps_nothing_of_what_it_has_parsed() -> None:
    first = parse_arguments(["--config", "a", "--set", "x=1", "--links-fd", "5"])
    second = parse_arguments(["--config", "b"])
    assert (first.config, first.set, first.links_fd) == (["a"], ["x=1"], 5)
    assert (second.config, second.set, second.links_fd) == (["b"], [], None)
