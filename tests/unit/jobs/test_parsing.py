"""Mistakes in a pipeline's file are found without Spark, and named by line and key (L1)."""

import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.cli.app import run
from tidelog.jobs.pipeline.parsing import BadPipeline, load

GOOD = """\
[pipeline]
checkpoint = "checkpoint"
trigger = "10 seconds"

[sources.clicks]
topics = ["clicks"]
value = { format = "json", schema = "user STRING NOT NULL, at TIMESTAMP" }
watermark = { column = "at", delay = "10 minutes" }
options = { maxOffsetsPerTrigger = 1000, kafka.isolation.level = "read_committed" }

[tables.users]
format = "csv"
path = "users.csv"

[steps.per_minute]
sql = '''
select window(c.at, '1 minute') as minute, u.country, count(*) as clicks
from clicks c join users u on c.user = u.name
group by 1, 2
'''

[steps.shaped]
function = "shapes:shape"
inputs = ["per_minute"]

[sinks.table]
from = "shaped"
format = "parquet"
path = "out"

[dead_letters]
path = "dead"
"""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path) -> None:
    (tmp_path / "shapes.py").write_text(
        "raise RuntimeError('nobody runs this')\n\ndef shape(frame):\n    return frame\n"
    )


def mistakes(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "p.toml"
    file.write_text(text)
    try:
        load(file)
    except BadPipeline as error:
        return [each.told("p.toml") for each in error.mistakes]
    return []


def test_a_good_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDELOG_BOOTSTRAP", raising=False)
    file = tmp_path / "p.toml"
    file.write_text(GOOD)
    pipeline = load(file)
    assert (pipeline.name, pipeline.interval_ms) == ("p", 10_000)
    assert pipeline.checkpoint == str(tmp_path / "checkpoint")
    [source] = pipeline.sources
    assert source.options == {
        "subscribe": "clicks",
        "kafka.bootstrap.servers": "localhost:9092",
        "kafka.isolation.level": "read_committed",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "1000",
    }
    assert source.value.required == ("user",)
    assert [(step.name, step.inputs) for step in pipeline.steps] == [
        ("per_minute", ("clicks", "users")),
        ("shaped", ("per_minute",)),
    ]
    assert load(file, bootstrap="other:1").sources[0].options["kafka.bootstrap.servers"] == "other:1"


def test_properties_of_a_client_are_for_the_pipelines_own_cluster(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    sink = 'from = "shaped"\ntopic = "t"'
    two = f"{sink}\n[sinks.other]\n{sink}\nbootstrap = 'b:1'"
    file.write_text(GOOD.replace('from = "shaped"\nformat = "parquet"\npath = "out"', two))
    pipeline = load(file, bootstrap="a:1", security={"security.protocol": "SSL"})
    own, other = pipeline.sinks
    assert own.options == {"kafka.bootstrap.servers": "a:1", "kafka.security.protocol": "SSL"}
    assert other.options == {"kafka.bootstrap.servers": "b:1"}
    assert pipeline.sources[0].options["kafka.security.protocol"] == "SSL"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("checkpoint =", "chekpoint =", "p.toml:2: pipeline.chekpoint: is not a known key, did you mean checkpoint?"),
        ('"10 seconds"', '"10 parsecs"', "p.toml:3: pipeline.trigger: '10 parsecs' is not 'once'"),
        ('"10 seconds"', "10", "p.toml:3: pipeline.trigger: text is expected, not 10"),
        ('["clicks"]', "[7]", "p.toml:6: sources.clicks.topics.0: text is expected, not 7"),
        ("topics =", "pattern = '*'\ntopics =", "p.toml:7: sources.clicks.topics: give exactly one of topics"),
        (
            "user STRING NOT NULL",
            "user STRNG",
            "p.toml:7: sources.clicks.value.schema: field 'user': STRNG is not a type",
        ),
        (
            "user STRING NOT NULL",
            "m STRUCT<x: MAP<INT, STRING>>",
            "p.toml:7: sources.clicks.value.schema: field 'x': the keys of a MAP are STRING in JSON, not INT",
        ),
        (
            "user STRING NOT NULL",
            "user VARCHAR(20)",
            "p.toml:7: sources.clicks.value.schema: field 'user': Spark cannot read VARCHAR here; use STRING",
        ),
        (
            "user STRING NOT NULL",
            "tags ARRAY<CHAR(3)>",
            "schema: field 'tags': Spark cannot read CHAR here; use STRING",
        ),
        ("user STRING NOT NULL", "m MAP<STRING, INT>", None),
        ('"users.csv"', '"users.csv"\nschema = "m MAP<INT, INT>"', None),
        (
            '"users.csv"',
            '"users.csv"\nschema = "m CHAR"',
            "p.toml:14: tables.users.schema: field 'm': Spark cannot read",
        ),
        ("user STRING NOT NULL", "user STRING at", "a comma is missing after field 'user', before 'at'"),
        ("user STRING NOT NULL", "_key STRING", "p.toml:7: sources.clicks.value.schema: _key is a column of every"),
        ('format = "json"', 'format = "jsn"', "p.toml:7: sources.clicks.value.format: 'jsn' is not one of raw, string"),
        ('"at", delay', '"att", delay', "p.toml:8: sources.clicks.watermark.column: the source has no column 'att'"),
        ('"10 minutes"', '"ten"', "p.toml:8: sources.clicks.watermark.delay: 'ten' is not a time"),
        ("= 1000", "= 0", "p.toml:9: sources.clicks.options.maxOffsetsPerTrigger: maxOffsetsPerTrigger=0 must be"),
        ("maxOffsetsPerTrigger", "maxOffsetPerTrigger", "p.toml:9: sources.clicks.options.maxOffsetPerTrigger: option"),
        ("kafka.isolation.level", '"kafka.isolation.level"', None),
        (
            "read_committed",
            "yes",
            "p.toml:9: sources.clicks.options.kafka.isolation.level: kafka.isolation.level='yes'",
        ),
        ("users.csv", "", "p.toml:13: tables.users.path: is empty"),
        ("from clicks c", "from cliks c", "p.toml:16: steps.per_minute.sql: there is no source, table or step cliks, "),
        ("shapes:shape", "shapes:shap", "p.toml:23: steps.shaped.function: module shapes"),
        ("shapes:shape", "shaped.x:shape", "p.toml:23: steps.shaped.function: no module shaped beside"),
        ("shapes:shape", "shapes", "p.toml:23: steps.shaped.function: 'shapes' is not of the form module:function"),
        ("from clicks c", "from shaped c", "reads itself: per_minute <- shaped <- per_minute"),
        ('from = "shaped"', 'from = "shape"', "p.toml:27: sinks.table.from: there is no source, table or step shape, "),
        ('from = "shaped"', 'from = "clicks"', "p.toml:15: steps.per_minute: no sink reads it"),
        ('from = "shaped"', 'from = "users"', "p.toml:27: sinks.table.from: users reads no streaming source"),
        ('path = "out"', "", "p.toml:26: sinks.table.path: is missing: the directory of the parquet files"),
        ('path = "out"', 'path = "out"\nmode = "update"', "p.toml:30: sinks.table.mode: files take mode append"),
        (
            'format = "parquet"\npath = "out"',
            'format = "jdbc"\nmode = "update"',
            "p.toml:29: sinks.table.mode: jdbc would store each change as one more row; mode complete writes",
        ),
        (
            'format = "parquet"\npath = "out"',
            'format = "mongodb"\neach_batch = true\nmode = "update"',
            "p.toml:30: sinks.table.mode: mongodb would store each change as one more row",
        ),
        (
            'format = "parquet"\npath = "out"',
            'topic = "t"\neach_batch = true\nmode = "complete"',
            "p.toml:30: sinks.table.mode: with each_batch a topic takes mode append; without each_batch it takes",
        ),
        ('format = "parquet"\npath = "out"', 'format = "jdbc"\nmode = "complete"', None),
        (
            'path = "out"',
            'path = "out"\ntopic = "t"',
            "p.toml:30: sinks.table.topic: is for topics, but format is parq",
        ),
        (
            "[dead_letters]",
            '[sinks.second]\nfrom = "shaped"\nformat = "json"\npath = "./out"\n[dead_letters]',
            "p.toml:34: sinks.second.path: is already the path of sinks.table",
        ),
        (
            "[dead_letters]",
            '[sinks.second]\nfrom = "shaped"\nformat = "json"\npath = "file:///w/x"\n'
            '[sinks.third]\nfrom = "shaped"\nformat = "json"\npath = "/w/x"\n[dead_letters]',
            "p.toml:38: sinks.third.path: is already the path of sinks.second",
        ),
        (
            "[dead_letters]",
            '[sinks.second]\nfrom = "shaped"\nformat = "json"\npath = "out"\nmode = "complete"\neach_batch = true\n'
            "[dead_letters]",
            "p.toml:34: sinks.second.path: is already the path of sinks.table",
        ),
        ('path = "out"', 'path = "checkpoint"', "p.toml:29: sinks.table.path: is already the path of the checkpoint"),
        (
            'format = "parquet"\npath = "out"',
            'format = "tidelog"\nencode = "json"',
            "p.toml:26: sinks.table.topic: is missing: encoded records have no topic column",
        ),
        (
            'path = "out"',
            'path = "dead/clicks"',
            "p.toml:32: dead_letters.path: sinks.table already writes to clicks in it",
        ),
        (
            'format = "parquet"\npath = "out"',
            'topic = "t"\noptions = { exactlyOnce = true }',
            "p.toml:29: sinks.table.options.exactlyOnce: exactlyOnce=true needs transactions",
        ),
        (
            'format = "parquet"\npath = "out"',
            'topic = "t"\noptions = { kafka.acks = 2 }',
            "p.toml:29: sinks.table.options.kafka.acks: kafka.acks='2' is not one of all, -1, 1, 0",
        ),
        (
            '[dead_letters]\npath = "dead"',
            "",
            "p.toml: dead_letters: is missing: path or topic, for records that sources.clicks",
        ),
        ('path = "dead"', "", "p.toml:31: dead_letters: needs either path or topic: where bad records go"),
        ("[sinks.table]", "[sinks.table", "p.toml:26: Expected ']' at the end of a table declaration"),
        ("[tables.users]", "[tables.clicks]", "p.toml:11: tables.clicks: is already the name of one of the sources"),
        ("[tables.users]", "[tables.per-minute]", "p.toml:11: tables.per-minute: is not a valid view name"),
    ],
)
def test_a_mistake_is_named_by_line_and_key(tmp_path: Path, old: str, new: str, told: str | None) -> None:
    assert old in GOOD
    found = mistakes(tmp_path, GOOD.replace(old, new, 1))
    if told is None:
        assert found == []
    else:
        assert any(told in line for line in found), found


@pytest.mark.parametrize("name", ["clickstream", "enrichment", "latest_values"])
def test_the_examples_are_right(name: str) -> None:
    assert load(Path(__file__).parents[3] / "examples" / name / "pipeline.toml").sinks


def test_an_empty_file_lacks_everything(tmp_path: Path) -> None:
    assert [line.split(": ")[1] for line in mistakes(tmp_path, "")] == [
        "pipeline",
        "pipeline.checkpoint",
        "sinks",
        "sources",
    ]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.toml"
    file.write_text(GOOD)
    assert run(["pipeline", "validate", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: 1 source, 1 table, 2 steps, 1 sink: nothing wrong\n"
    file.write_text(GOOD.replace("10 seconds", "soon").replace('"out"', "1"))
    assert run(["pipeline", "validate", str(file)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in lines] == ["pipeline.trigger", "sinks.table.path", f"{file} has 2 mistakes"]
    assert run(["pipeline", "validate", str(file), "--json"]) == 1
    assert '"line": 3,\n' in capsys.readouterr().out
    assert run(["pipeline", "validate", str(tmp_path / "none.toml")]) == 1
    assert run(["pipeline", "status", str(file)]) == 1


def test_spark_is_not_loaded_to_find_mistakes(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(GOOD)
    code = (
        "import sys; from tidelog.cli.app import run; status = run(['pipeline', 'validate', sys.argv[1]]); "
        "print(status, sorted({'pyspark', 'numpy', 'numba', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "p.toml")], check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == "0 []"
