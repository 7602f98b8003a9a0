"""A pipeline as its file says it, checked and with defaults in place."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

RAW: Final = "raw"
STRING: Final = "string"
JSON: Final = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """What bytes become: themselves, text, or the fields of a JSON object. `required` are those that are NOT NULL."""

    format: str = RAW
    schema: str = ""
    required: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)

    @property
    def can_fail(self) -> bool:
        return self.format != RAW


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    column: str
    delay: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Topics. A `batch` source is a table of what is there when the run begins: Spark plans it once."""

    name: str
    options: dict[str, str]
    value: Decoding
    key: Decoding
    watermark: Watermark | None = None
    batch: bool = False

    @property
    def can_fail(self) -> bool:
        return self.value.can_fail or self.key.can_fail


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What does not stream: files, or anything else that Spark can read."""

    name: str
    format: str
    path: str | None
    schema: str | None
    options: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """SQL over views, or a Python function that is handed frames. Its result is a view again."""

    name: str
    inputs: tuple[str, ...]
    sql: str | None = None
    function: str | None = None
    watermark: Watermark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    name: str
    input: str
    format: str
    mode: str
    path: str | None = None
    topic: str | None = None
    encode: str | None = None
    key: str | None = None
    partition_by: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    # Written by a batch writer for each micro-batch, since the format has no streaming one.
    each_batch: bool = False

    @property
    def keeps_log(self) -> bool:
        """Whether Spark keeps a log of the files that it writes to `path`."""
        return self.path is not None and not self.is_whole and not self.each_batch

    @property
    def is_whole(self) -> bool:
        """Whether `path` has a directory for each batch, and a file that names the newest."""
        return self.path is not None and self.mode == "complete"

    @property
    def owns_path(self) -> bool:
        """Whether a second writer there would take its batches for its own, or away."""
        return self.keeps_log or self.is_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """Where records go that cannot be decoded: a Parquet directory or a topic."""

    path: str | None = None
    topic: str | None = None
    bootstrap: str = ""

    def path_of(self, source: Source) -> str:
        """Of each source a directory: Spark's log of written files has one writer."""
        return f"{self.path}/{source.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """`steps` come after their inputs. With `interval_ms` None it takes what is there and ends."""

    name: str
    file: Path
    checkpoint: str
    interval_ms: int | None
    sources: tuple[Source, ...]
    tables: tuple[Table, ...]
    steps: tuple[Step, ...]
    sinks: tuple[Sink, ...]
    dead_letters: DeadLetters | None
    spark: dict[str, str]
    python_files: tuple[str, ...] = ()
    metrics_port: int | None = None

    @property
    def folder(self) -> Path:
        return self.file.parent

    @property
    def written_paths(self) -> list[str]:
        """Where driver and executors write files."""
        letters = None if self.dead_letters is None else self.dead_letters.path
        return [path for path in (self.checkpoint, *(sink.path for sink in self.sinks), letters) if path is not None]
