"""One replay for everybody: records onto an image, checked against a dumb model, and back through a snapshot."""

import random
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.core.ids import NO_LEADER, TopicPartition
from tidelog.metadata.compare import compare
from tidelog.metadata.image import (
    EMPTY_IMAGE,
    ClusterImage,
    ConfigResource,
    LeaderRecoveryState,
    Provenance,
    ResourceType,
)
from tidelog.metadata.loader import MetadataLoader
from tidelog.metadata.names import collision_form, why_illegal
from tidelog.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    Endpoint,
    EndTransactionRecord,
    EntityData,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from tidelog.metadata.replay import ReplayError, apply_records
from tidelog.metadata.snapshot import image_records
from tidelog.wire import schema

ID = UUID(int=1000)
DIRS = [UUID(int=500 + n) for n in range(4)]


def topic(name: str = "orders", topic_id: UUID = ID, partitions: int = 2) -> list[MetadataRecord]:
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=[1, 2, 3],
                isr=[1, 2, 3],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=DIRS[:3],
            )
            for index in range(partitions)
        ),
    ]


def replayed(*records: MetadataRecord, onto: ClusterImage = EMPTY_IMAGE) -> ClusterImage:
    return apply_records(onto, records)[0]


def test_a_topic_appears_under_name_and_id() -> None:
    image, delta = apply_records(EMPTY_IMAGE, topic(), Provenance(7, 1, 99))
    assert image.topic("orders") is image.topic_by_id(ID)
    assert image.provenance == Provenance(7, 1, 99)
    assert image.partition_count == 2
    assert [t.name for t in delta.created_topics] == ["orders"]
    partition = image.partition(TopicPartition("orders", 1))
    assert partition is not None
    assert (partition.leader, partition.isr, partition.directory_of(2)) == (1, (1, 2, 3), DIRS[1])


def test_a_change_bumps_the_partition_epoch_and_the_leader_epoch_only_with_the_leader_field() -> None:
    image = replayed(*topic())
    shrunk = replayed(PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[1, 2]), onto=image)
    partition = shrunk.partition(TopicPartition("orders", 0))
    assert partition is not None
    assert (partition.isr, partition.leader_epoch, partition.partition_epoch) == ((1, 2), 0, 1)
    gone = replayed(PartitionChangeRecord(partition_id=0, topic_id=ID, leader=NO_LEADER, isr=[]), onto=shrunk)
    partition = gone.partition(TopicPartition("orders", 0))
    assert partition is not None
    assert (partition.leader, partition.isr, partition.leader_epoch, partition.partition_epoch) == (-1, (), 1, 2)
    # The same leader written again is a new epoch all the same (rule C3).
    again = replayed(PartitionChangeRecord(partition_id=0, topic_id=ID, leader=NO_LEADER), onto=gone)
    partition = again.partition(TopicPartition("orders", 0))
    assert partition is not None
    assert partition.leader_epoch == 2


def test_every_field_of_a_change() -> None:
    record = PartitionChangeRecord(
        partition_id=0,
        topic_id=ID,
        isr=[2],
        leader=2,
        replicas=[2, 3, 4],
        adding_replicas=[4],
        removing_replicas=[3],
        leader_recovery_state=1,
        eligible_leader_replicas=[3],
        last_known_elr=[4],
    )
    partition = replayed(*topic(), record).partition(TopicPartition("orders", 0))
    assert partition is not None
    assert partition.replicas == (2, 3, 4)
    # directories go with their replica; a new one has none yet
    assert partition.directories == (DIRS[1], DIRS[2], UUID(int=0))
    assert (partition.adding_replicas, partition.removing_replicas) == ((4,), (3,))
    assert (partition.elr, partition.last_known_elr) == ((3,), (4,))
    assert partition.leader_recovery_state is LeaderRecoveryState.RECOVERING
    moved = schema.changed(record, directories=DIRS[1:4], leader_recovery_state=0)
    partition = replayed(*topic(), moved).partition(TopicPartition("orders", 0))
    assert partition is not None
    assert partition.directories == tuple(DIRS[1:4])
    assert partition.leader_recovery_state is LeaderRecoveryState.RECOVERED


def test_removing_a_topic_takes_its_configs() -> None:
    config = ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1")
    image = replayed(*topic(), config)
    assert image.topic_configs("orders") == {"retention.ms": "1"}
    after, delta = apply_records(image, [RemoveTopicRecord(topic_id=ID)])
    assert replace(after, provenance=EMPTY_IMAGE.provenance) == EMPTY_IMAGE
    assert [t.topic_id for t in delta.deleted_topics] == [ID]
    assert delta.configs == {ConfigResource(ResourceType.TOPIC, "orders"): {}}


def test_a_topic_made_again_in_one_delta_is_another_topic() -> None:
    image = replayed(*topic())
    other = UUID(int=1001)
    after, delta = apply_records(image, [RemoveTopicRecord(topic_id=ID), *topic(topic_id=other, partitions=1)])
    assert after.topics_by_name["orders"].topic_id == other
    assert set(after.topics_by_id) == {other}
    local = delta.local_changes(1)
    assert local.deletes == ((TopicPartition("orders", 0), ID), (TopicPartition("orders", 1), ID))
    assert [(c.topic_partition, c.topic_id, c.before) for c in local.leaders] == [
        (TopicPartition("orders", 0), other, None)
    ]
    assert delta.local_changes(9).deletes == ()


def test_local_changes_tell_leading_following_and_leaving() -> None:
    image = replayed(*topic(partitions=1))
    change = PartitionChangeRecord(partition_id=0, topic_id=ID, leader=2, isr=[2], replicas=[2, 3])
    _, delta = apply_records(image, [change])
    assert [c.topic_partition.partition for c in delta.local_changes(2).leaders] == [0]
    assert [c.after.leader_epoch for c in delta.local_changes(3).followers] == [1]
    assert delta.local_changes(1).deletes == ((TopicPartition("orders", 0), ID),)


def test_a_topic_made_and_removed_in_one_delta_leaves_nothing() -> None:
    config = ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1")
    after, delta = apply_records(EMPTY_IMAGE, [*topic(), config, RemoveTopicRecord(topic_id=ID)])
    assert after == EMPTY_IMAGE
    assert not delta.topics and not delta.deleted_topics


def test_names_that_metrics_would_confuse_are_indexed() -> None:
    image = replayed(*topic("a.b", UUID(int=1)), *topic("a_b", UUID(int=2)), *topic("ab", UUID(int=3)))
    assert image.colliding_names == {"a_b": ("a.b", "a_b")}
    image = replayed(RemoveTopicRecord(topic_id=UUID(int=1)), onto=image)
    assert image.colliding_names == {"a_b": ("a_b",)}
    image = replayed(RemoveTopicRecord(topic_id=UUID(int=2)), onto=image)
    assert image.colliding_names == {}


def register(broker_id: int = 1, epoch: int = 5) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        broker_epoch=epoch,
        incarnation_id=UUID(int=epoch),
        end_points=[Endpoint(name="PLAINTEXT", host="h", port=9092)],
        log_dirs=[DIRS[0]],
        rack="a",
    )


def test_a_registration_and_its_changes() -> None:
    image = replayed(register())
    assert image.brokers[1].fenced and not image.brokers[1].active
    listener = image.brokers[1].listener("PLAINTEXT")
    assert listener is not None and listener.port == 9092
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=-1, cordoned_log_dirs=[DIRS[0]])
    image, delta = apply_records(image, [change])
    assert image.brokers[1].active
    assert image.brokers[1].cordoned_log_dirs == (DIRS[0],)
    assert delta.brokers[1].before is not None and delta.brokers[1].before.fenced
    leaving = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, in_controlled_shutdown=1, log_dirs=[DIRS[1]])
    image = replayed(leaving, onto=image)
    assert image.brokers[1].in_controlled_shutdown and not image.brokers[1].fenced
    assert image.brokers[1].log_dirs == (DIRS[1],)
    image = replayed(FenceBrokerRecord(id=1, epoch=5), onto=image)
    assert image.brokers[1].fenced
    image = replayed(UnfenceBrokerRecord(id=1, epoch=5), onto=image)
    assert not image.brokers[1].fenced
    image, delta = apply_records(image, [UnregisterBrokerRecord(broker_id=1, broker_epoch=5)])
    assert not image.brokers and delta.brokers[1].after is None


@pytest.mark.parametrize(
    "record",
    [
        PartitionRecord(partition_id=0, topic_id=UUID(int=77)),
        PartitionChangeRecord(partition_id=0, topic_id=UUID(int=77)),
        PartitionChangeRecord(partition_id=9, topic_id=ID),
        RemoveTopicRecord(topic_id=UUID(int=77)),
        TopicRecord(name="orders", topic_id=UUID(int=77)),
        TopicRecord(name="another", topic_id=ID),
        ClearElrRecord(topic_name="nothing"),
        UnregisterBrokerRecord(broker_id=9, broker_epoch=1),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=4, fenced=1),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_that_does_not_fit_is_an_error(record: MetadataRecord) -> None:
    with pytest.raises(ReplayError):
        replayed(*topic(), register(), record)


def test_clearing_the_elr_of_one_topic_and_of_all() -> None:
    elr = PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[1], eligible_leader_replicas=[2], last_known_elr=[3])
    image = replayed(*topic(), *topic("other", UUID(int=1001)), elr)
    for record in (ClearElrRecord(topic_name="orders"), ClearElrRecord()):
        after, delta = apply_records(image, [record])
        partition = after.partition(TopicPartition("orders", 0))
        assert partition is not None
        assert (partition.elr, partition.last_known_elr, partition.partition_epoch) == ((), (), 2)
        assert {t.after.name: list(t.partitions) for t in delta.topics.values()} == {"orders": [0]}
    # also one that is only being made in the same batch
    partition = replayed(*topic(), elr, ClearElrRecord()).partition(TopicPartition("orders", 0))
    assert partition is not None and partition.elr == ()


def test_features_quotas_and_producer_ids() -> None:
    user = [EntityData(entity_type="user", entity_name="u"), EntityData(entity_type="client-id", entity_name=None)]
    image = replayed(
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="x", feature_level=1),
        FeatureLevelRecord(name="x", feature_level=0),
        ClientQuotaRecord(entity=user, key="producer_byte_rate", value=5.0),
        ProducerIdsRecord(broker_id=1, next_producer_id=1000),
        RegisterControllerRecord(controller_id=1, incarnation_id=UUID(int=8)),
    )
    assert image.features == {"metadata.version": 30}
    assert image.client_quotas == {(("client-id", None), ("user", "u")): {"producer_byte_rate": 5.0}}
    assert image.next_producer_id == 1000
    assert image.controllers[1].incarnation_id == UUID(int=8)
    image = replayed(ClientQuotaRecord(entity=user, key="producer_byte_rate", remove=True), onto=image)
    assert image.client_quotas == {}


def test_what_does_not_change_is_shared() -> None:
    image = replayed(*topic("a", UUID(int=1)), *topic("b", UUID(int=2)), register())
    after = replayed(PartitionChangeRecord(partition_id=0, topic_id=UUID(int=1), isr=[1]), onto=image)
    assert after.topics_by_name["b"] is image.topics_by_name["b"]
    assert after.brokers is image.brokers
    before, changed = image.topics_by_name["a"], after.topics_by_name["a"]
    assert changed.partitions[1] is before.partitions[1]
    assert before.partitions[0].isr == (1, 2, 3)
    assert replayed(NoOpRecord(), onto=after).topics_by_id is after.topics_by_id


class TestLoader:
    def test_batches_in_order(self) -> None:
        loader = MetadataLoader()
        delta = loader.load_batch(topic(), Provenance(3, 1, 5))
        assert delta.after is loader.image and loader.image.provenance.offset == 3
        with pytest.raises(ReplayError, match="after one ending at 3"):
            loader.load_batch([NoOpRecord()], Provenance(3, 1, 5))

    @pytest.mark.parametrize("end", [EndTransactionRecord(), AbortTransactionRecord(reason="x")])
    def test_a_transaction_over_batches_shows_at_its_end_or_never(self, end: MetadataRecord) -> None:
        loader = MetadataLoader()
        first = loader.load_batch(
            [*topic("before"), BeginTransactionRecord(), *topic(topic_id=UUID(int=2))[:1]], _at(9)
        )
        assert loader.in_transaction
        assert [t.name for t in first.created_topics] == ["before"]
        assert loader.load_batch(topic(topic_id=UUID(int=2))[1:], _at(11)).is_empty
        last = loader.load_batch([end, *topic("behind", UUID(int=3))], _at(20))
        seen = ["orders", "behind"] if isinstance(end, EndTransactionRecord) else ["behind"]
        assert [t.name for t in last.created_topics] == seen
        assert not loader.in_transaction

    def test_marks_that_do_not_pair_are_errors(self) -> None:
        with pytest.raises(ReplayError, match="never began"):
            MetadataLoader().load_batch([EndTransactionRecord()], _at(1))
        with pytest.raises(ReplayError, match="inside another"):
            MetadataLoader().load_batch([BeginTransactionRecord(), BeginTransactionRecord()], _at(1))

    def test_a_snapshot_over_an_older_image_tells_what_it_changes(self) -> None:
        loader = MetadataLoader()
        loader.load_batch([*topic("old", UUID(int=1)), *topic("kept", UUID(int=2)), register()], _at(9))
        newer = replayed(*topic("kept", UUID(int=2)), *topic("new", UUID(int=3)), register(epoch=20))
        delta = loader.load_snapshot(image_records(newer), _at(50))
        assert [t.name for t in delta.deleted_topics] == ["old"]
        assert [t.after.name for t in delta.topics.values()] == ["new"]
        assert set(delta.brokers) == {1}
        assert loader.image.provenance == _at(50)


def _at(offset: int) -> Provenance:
    return Provenance(offset, 1, 0)


# --- against a dumb model ---


class Model:
    """Random, valid histories, and the plain dicts they should lead to."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.topics: dict[UUID, tuple[str, dict[int, list[int]]]] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.brokers: dict[int, bool] = {}

    def step(self) -> list[MetadataRecord]:
        return self.rng.choice([self.create, self.delete, self.isr, self.config, self.broker])()

    def create(self) -> list[MetadataRecord]:
        name = self.rng.choice(["a.b", "a_b", "c", "d", "e-e"])
        if any(name == known for known, _ in self.topics.values()):
            return []
        topic_id = UUID(int=self.rng.getrandbits(128))
        count = self.rng.randint(1, 3)
        self.topics[topic_id] = (name, {index: [1, 2, 3] for index in range(count)})
        return topic(name, topic_id, count)

    def delete(self) -> list[MetadataRecord]:
        if not self.topics:
            return []
        topic_id = self.rng.choice(sorted(self.topics))
        name, _ = self.topics.pop(topic_id)
        self.configs.pop((2, name), None)
        return [RemoveTopicRecord(topic_id=topic_id)]

    def isr(self) -> list[MetadataRecord]:
        if not self.topics:
            return []
        topic_id = self.rng.choice(sorted(self.topics))
        partitions = self.topics[topic_id][1]
        index = self.rng.choice(sorted(partitions))
        partitions[index] = self.rng.sample([1, 2, 3], self.rng.randint(1, 3))
        return [PartitionChangeRecord(partition_id=index, topic_id=topic_id, isr=list(partitions[index]))]

    def config(self) -> list[MetadataRecord]:
        names = [name for name, _ in self.topics.values()]
        kind, resource = self.rng.choice([(4, ""), (4, "1"), *((2, name) for name in names)])
        key, value = self.rng.choice("xyz"), self.rng.choice(["1", "2", None])
        values = self.configs.setdefault((kind, resource), {})
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
        if not values:
            del self.configs[kind, resource]
        return [ConfigRecord(resource_type=kind, resource_name=resource, name=key, value=value)]

    def broker(self) -> list[MetadataRecord]:
        broker_id = self.rng.randint(1, 3)
        if broker_id not in self.brokers:
            self.brokers[broker_id] = True
            return [register(broker_id)]
        if self.rng.random() < 0.3:
            del self.brokers[broker_id]
            return [UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=5)]
        fenced = self.brokers[broker_id] = self.rng.random() < 0.5
        return [BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=5, fenced=1 if fenced else -1)]

    def check(self, image: ClusterImage) -> None:
        assert {t.name: t.topic_id for t in image.topics_by_name.values()} == {
            n: i for i, (n, _) in self.topics.items()
        }
        for topic_id, (name, partitions) in self.topics.items():
            assert image.topics_by_name[name] is image.topics_by_id[topic_id]
            assert {i: list(p.isr) for i, p in image.topics_by_id[topic_id].partitions.items()} == partitions
        assert {(int(r.type), r.name): dict(v) for r, v in image.configs_by_resource.items()} == self.configs
        assert {b.broker_id: b.fenced for b in image.brokers.values()} == self.brokers
        forms: dict[str, set[str]] = {}
        for name, _ in self.topics.values():
            form = collision_form(name)
            if form is not None:
                forms.setdefault(form, set()).add(name)
        assert {form: set(names) for form, names in image.colliding_names.items()} == forms


@pytest.mark.rule("Q6")
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(1, 12), max_size=12))
def test_replay_follows_the_model_however_it_is_cut_into_batches(seed: int, batches: list[int]) -> None:
    model = Model(seed)
    image = EMPTY_IMAGE
    for size in batches:
        records = [record for _ in range(size) for record in model.step()]
        before = image
        image, delta = apply_records(before, records)
        model.check(image)
        found = compare(before, image)
        for topic_id, changed in found.topics.items():
            assert set(changed.partitions) <= set(delta.topics[topic_id].partitions)
        assert {t.topic_id for t in delta.deleted_topics} == {t.topic_id for t in found.deleted_topics}
        # A snapshot at X is the replay of 0..X.
        restored, _ = apply_records(EMPTY_IMAGE, image_records(image))
        assert restored == image


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a" * 250, "longer than the max allowed length 249"),
        ("a b", "characters other than ASCII alphanumerics"),
        ("ä", "characters other than ASCII alphanumerics"),
        ("a\n", "characters other than ASCII alphanumerics"),
    ],
)
def test_illegal_names(name: str, reason: str) -> None:
    complaint = why_illegal(name)
    assert complaint is not None and reason in complaint


@pytest.mark.parametrize("name", ["a", "...", "a" * 249, "A-z_0.9", "__consumer_offsets"])
def test_legal_names(name: str) -> None:
    assert why_illegal(name) is None
