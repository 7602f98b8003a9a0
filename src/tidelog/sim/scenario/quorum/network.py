"""Requests and responses on their way, one by one. Nothing here decides what is lost or late: the driver does.

A request opens a call. It ends when its connection does; until then a response may come, late or twice: whether anybody
still waits for it is the member's own business.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tidelog.sim.scenario.quorum.messages import Body, kind, through_the_wire, told


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One request as its sender sees it."""

    number: int
    source: int
    target: int
    request: Body


@dataclass(slots=True, eq=False)
class Packet:
    """A request or a response between two members; not delivered before its time."""

    source: int
    target: int
    body: Body
    call: Call
    not_before_s: float
    is_response: bool

    def __str__(self) -> str:
        return f"{self.source}->{self.target} {told(self.body)}"

    @property
    def kind(self) -> str:
        return kind(self.body)


class Network:
    """Packets in the order they were sent. A cut pair loses everything in between, in that direction."""

    def __init__(self) -> None:
        self.packets: list[Packet] = []
        self.cuts: set[tuple[int, int]] = set()
        self.calls: dict[int, Call] = {}
        self._numbers = 0

    def open_call(self, source: int, target: int, request: Body) -> Call:
        self._numbers += 1
        call = self.calls[self._numbers] = Call(self._numbers, source, target, request)
        return call

    def send(self, call: Call, now_s: float) -> Packet | None:
        """None when the link is cut."""
        return self._put(Packet(call.source, call.target, through_the_wire(call.request), call, now_s, False))

    def answer(self, call: Call, response: Body, now_s: float) -> Packet | None:
        return self._put(Packet(call.target, call.source, through_the_wire(response), call, now_s, True))

    def _put(self, packet: Packet) -> Packet | None:
        if (packet.source, packet.target) in self.cuts:
            return None
        self.packets.append(packet)
        return packet

    def duplicate(self, packet: Packet) -> Packet:
        copy = replace(packet, body=through_the_wire(packet.body))
        self.packets.append(copy)
        return copy

    def cut(self, source: int, target: int) -> list[Packet]:
        """What was on its way is lost too, and returned."""
        self.cuts.add((source, target))
        lost = [each for each in self.packets if (each.source, each.target) == (source, target)]
        self.packets = [each for each in self.packets if each not in lost]
        return lost

    def calls_to(self, target: int) -> Iterator[Call]:
        return (call for call in self.calls.values() if call.target == target)

    def end_calls(self, source: int, target: int) -> None:
        """Their connection is gone, and with it every response that could have come by it."""
        self.calls = {
            number: call for number, call in self.calls.items() if (call.source, call.target) != (source, target)
        }

    def forget(self, member: int) -> None:
        """A process has ended: it waits for nothing and gets nothing. What it has sent is still on its way."""
        self.packets = [each for each in self.packets if each.target != member]
        self.calls = {number: call for number, call in self.calls.items() if call.source != member}
