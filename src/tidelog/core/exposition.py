"""Numbers in Prometheus' text format: what is measured, and how it is written down."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Sample:
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """Counters only grow while a process runs; their names end in `_total`."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    # May be made as it is read: there may be thousands.
    samples: Iterable[Sample]


def gauge(name: str, words: str, value: float) -> Metric:
    return Metric(name=name, kind="gauge", help=words, samples=(Sample(value),))


def counter(name: str, words: str, value: float) -> Metric:
    return Metric(name=name, kind="counter", help=words, samples=(Sample(value),))


def lines(metrics: Iterable[Metric]) -> Iterator[str]:
    """Line by line, so that whoever writes thousands of them can pause between two."""
    for metric in metrics:
        yield f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n"
        for sample in metric.samples:
            yield f"{metric.name}{_labels(sample.labels)} {_number(sample.value)}\n"


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}" if labels else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return repr(value) if isinstance(value, int) else f"{value:.15g}"
