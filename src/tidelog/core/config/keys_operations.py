"""Metrics, quotas and plug-ins."""

from typing import Final

from tidelog.core.config.rows import (
    CLASS,
    CLUSTER_WIDE,
    INT,
    LIST,
    LONG,
    LOW,
    STRING,
    at_least,
    key,
    limited,
)

# A row is its facts, then its words.
# fmt: off
LIMITED: Final = (
    *limited(
        "metrics are not pushed; Prometheus reads them from tidelog.metrics.port",
        key("metric.reporters", LIST, "org.apache.kafka.common.metrics.JmxReporter", LOW,
            update=CLUSTER_WIDE,
            doc="Java classes that report metrics."),
        key("metrics.num.samples", INT, 2, LOW, check=at_least(1),
            doc="Samples kept for a rate."),
        key("metrics.recording.level", STRING, "INFO", LOW,
            doc="How much is measured."),
        key("metrics.sample.window.ms", LONG, 30000, LOW, check=at_least(1),
            doc="Length of a sample."),
        key("kafka.metrics.polling.interval.secs", INT, 10, LOW, check=at_least(1),
            doc="How often the older reporters are polled."),
        key("kafka.metrics.reporters", LIST, "", LOW,
            doc="Older Java classes that report metrics."),
        key("telemetry.max.bytes", INT, 1048576, LOW, check=at_least(1),
            doc="Largest metrics push of a client."),
    ),
    *limited(
        "it belongs to the Java broker",
        key("config.providers", LIST, "", LOW, update=CLUSTER_WIDE,
            doc="Java classes that resolve variables in this file."),
    ),
    *limited(
        "quotas are not built yet",
        key("client.quota.callback.class", CLASS, None, LOW,
            doc="Java class that decides client quotas."),
        key("quota.window.num", INT, 11, LOW, check=at_least(1),
            doc="Windows kept to measure client quotas."),
        key("quota.window.size.seconds", INT, 1, LOW, check=at_least(1),
            doc="Length of one of these windows."),
        key("controller.quota.window.num", INT, 11, LOW, check=at_least(1),
            doc="Windows kept to measure controller quotas."),
        key("controller.quota.window.size.seconds", INT, 1, LOW, check=at_least(1),
            doc="Length of one of these windows."),
        key("replication.quota.window.num", INT, 11, LOW, check=at_least(1),
            doc="Windows kept to measure replication throttles."),
        key("replication.quota.window.size.seconds", INT, 1, LOW, check=at_least(1),
            doc="Length of one of these windows."),
        key("alter.log.dirs.replication.quota.window.num", INT, 11, LOW, check=at_least(1),
            doc="Windows kept to measure moves between directories."),
        key("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, LOW, check=at_least(1),
            doc="Length of one of these windows."),
    ),
)
