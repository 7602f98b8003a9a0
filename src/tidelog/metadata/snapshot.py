"""An image as the shortest run of records that makes it (rule Q6: snapshot at X = replay of 0..X).

The order is Kafka's: features first, because they say how the rest is to be read. Sorted, so that two nodes with the
same image write the same records.
"""

from collections.abc import Iterator

from tidelog.metadata.features import METADATA_VERSION
from tidelog.metadata.image import ClusterImage
from tidelog.metadata.partition_change import partition_to_record
from tidelog.metadata.records import (
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
    FeatureLevelRecord,
    MetadataRecord,
    ProducerIdsRecord,
    TopicRecord,
)
from tidelog.metadata.registrations import broker_to_record, controller_to_record


def image_records(image: ClusterImage) -> Iterator[MetadataRecord]:
    """Replayed onto nothing, these give `image` again."""
    for name in sorted(image.features, key=lambda feature: (feature != METADATA_VERSION, feature)):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])
    for _, controller in sorted(image.controllers.items()):
        yield controller_to_record(controller)
    for _, broker in sorted(image.brokers.items()):
        yield broker_to_record(broker)
    for name, topic in sorted(image.topics_by_name.items()):
        yield TopicRecord(name=name, topic_id=topic.topic_id)
        for index, partition in sorted(topic.partitions.items()):
            yield partition_to_record(topic.topic_id, index, partition)
    for resource, values in sorted(image.configs_by_resource.items()):
        for key, value in sorted(values.items()):
            yield ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=key, value=value)
    for entity, quotas in sorted(image.client_quotas.items(), key=lambda item: repr(item[0])):
        for key, quota in sorted(quotas.items()):
            yield ClientQuotaRecord(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity], key=key, value=quota
            )
    if image.next_producer_id:
        # Who got the last block does not matter any more; Kafka writes -1 here too.
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
