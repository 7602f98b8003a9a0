"""One member of a group."""

from dataclasses import dataclass

from tidelog.coordinator.offsets_records import MemberMetadata

# How a waiting request is known here; the shell makes it up.
Token = int
Protocols = tuple[tuple[str, bytes], ...]


@dataclass(slots=True, kw_only=True)
class Member:
    """Invariants: `protocols` is in the member's order of preference; it waits for at most one of join and sync."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    awaiting_join: Token | None = None
    awaiting_sync: Token | None = None
    # Has never seen a generation: it cannot heartbeat, so its waiting does not keep it alive.
    is_new: bool = False

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_waiting(self) -> bool:
        """Waits for an answer of ours: it cannot be asked to heartbeat meanwhile."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata(self, protocol_name: str) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise KeyError(f"member {self.member_id} does not support protocol {protocol_name!r}")

    def vote(self, candidates: frozenset[str]) -> str:
        """The member's favourite among protocols that everybody supports."""
        return next(name for name, _ in self.protocols if name in candidates)

    def stored(self, protocol_name: str, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol_name),
            assignment=assignment,
        )

    @classmethod
    def from_stored(cls, stored: MemberMetadata, protocol_type: str, protocol_name: str) -> "Member":
        rebalance = stored.session_timeout if stored.rebalance_timeout == -1 else stored.rebalance_timeout
        return cls(
            member_id=stored.member_id,
            group_instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=rebalance,
            session_timeout_ms=stored.session_timeout,
            protocol_type=protocol_type,
            protocols=((protocol_name, stored.subscription),),
            assignment=stored.assignment,
        )
