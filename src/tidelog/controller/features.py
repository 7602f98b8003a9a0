"""UpdateFeatures: raising and lowering finalized feature levels."""

from dataclasses import replace
from enum import IntEnum

from tidelog.controller.broker_changes import unfinished
from tidelog.controller.configs import one_minimum
from tidelog.controller.decision import Decision, Situation
from tidelog.metadata.features import ELR_VERSION, KRAFT_VERSION, METADATA_VERSION, SUPPORTED_FEATURES
from tidelog.metadata.image import ClusterImage
from tidelog.metadata.records import ClearElrRecord, FeatureLevelRecord, MetadataRecord
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


class UpgradeType(IntEnum):
    """How far an update may go."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(situation: Situation, request: UpdateFeaturesRequest) -> Decision[UpdateFeaturesResponse]:
    """All updates of a request or none: the first that fails fails the request."""
    for update in request.feature_updates:
        _check(situation.image, update)
    changed = [
        update
        for update in request.feature_updates
        if situation.image.features.get(update.feature, 0) != update.max_version_level
    ]
    records: list[MetadataRecord] = [
        FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level) for update in changed
    ]
    if any(update.feature == ELR_VERSION and update.max_version_level == 0 for update in changed):
        _check_nobody_needs_the_elr(situation.image)
        records.append(ClearElrRecord(topic_name=""))
    if any(update.feature == ELR_VERSION and update.max_version_level > 0 for update in changed):
        records += one_minimum(situation)
        records += [each.record for each in unfinished(_with_elr(situation))]
    results = [UpdatableFeatureResult(feature=each.feature, error_message=None) for each in request.feature_updates]
    return Decision(
        response=UpdateFeaturesResponse(error_message=None, results=results),
        records=[] if request.validate_only else records,
    )


def _check(image: ClusterImage, update: FeatureUpdateKey) -> None:
    name, level = update.feature, update.max_version_level
    if name == KRAFT_VERSION:
        raise _refused(name, "kraft.version cannot be changed")
    supported = SUPPORTED_FEATURES.get(name)
    if supported is None:
        raise _refused(name, "this feature does not exist")
    if level < 0 or (level == 0 and name == METADATA_VERSION):
        raise _refused(name, f"{level} is not a valid level")
    if level and not supported.min <= level <= supported.max:
        raise _refused(name, f"level {level} is not between {supported.min} and {supported.max}")
    for broker in image.brokers.values():
        low, high = broker.supported_features.get(name, (0, 0))
        if level and not low <= level <= high:
            raise _refused(name, f"broker {broker.broker_id} supports levels {low} to {high}")
    current = image.features.get(name, 0)
    if level < current:
        _check_downgrade(update, current)


def _check_nobody_needs_the_elr(image: ClusterImage) -> None:
    """An empty ISR means something only beside an ELR: without one nobody could ever lead there again."""
    for topic in image.topics_by_id.values():
        for index, partition in topic.partitions.items():
            if not partition.isr:
                raise _refused(ELR_VERSION, f"{topic.name}-{index} has an empty ISR")


def _with_elr(situation: Situation) -> Situation:
    """As it will be: then the last member of an ISR, kept there though fenced, belongs into the ELR."""
    features = {**situation.image.features, ELR_VERSION: 1}
    return replace(situation, image=replace(situation.image, features=features))


def _check_downgrade(update: FeatureUpdateKey, current: int) -> None:
    if update.allow_downgrade or update.upgrade_type == UpgradeType.UNSAFE_DOWNGRADE:
        return
    if update.upgrade_type == UpgradeType.SAFE_DOWNGRADE and update.feature != METADATA_VERSION:
        return
    raise _refused(
        update.feature, f"its level is {current}; a downgrade may lose metadata and must be requested as unsafe"
    )


def _refused(name: str, reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update of feature {name}: {reason}.")
