"""`format`: which directories it prepares, who votes first, and every way to get it wrong as one line."""

import random
from pathlib import Path

import pytest

from tidelog.broker.__main__ import main
from tidelog.broker.format import FormatError, check_formatted, format_directories
from tidelog.broker.initial_voters import VoterFlags, parse_initial_controllers
from tidelog.core.config.key import ConfigError
from tidelog.core.config.node import NodeConfig
from tidelog.core.ids import random_uuid, uuid_to_text
from tidelog.quorum.election_state import ElectionState, write_election_state
from tidelog.quorum.formatting import read_bootstrap
from tidelog.quorum.snapshot_files import SnapshotReader
from tidelog.quorum.voters import VoterSet
from tidelog.storage.checkpoints import MetaProperties, write_meta_properties
from tidelog.storage.memory import MemoryDisk

NOW_MS = 1_700_000_000_000
FIRST = "/data/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
IDS = [uuid_to_text(random_uuid(random.Random(seed))) for seed in range(3)]
CONTROLLERS = f"1@c1:9093:{IDS[0]},2@c2:9093:{IDS[1]},3@[::1]:9093:{IDS[2]}"

STATIC = {"controller.quorum.voters": "1@c1:9093,2@c2:9093,3@c3:9093"}
DYNAMIC = {"controller.quorum.bootstrap.servers": "c1:9093,c2:9093,c3:9093"}
COMMON = {"controller.listener.names": "CONTROLLER", "log.dirs": "/data"}
CONTROLLER = COMMON | {"node.id": "2", "process.roles": "controller", "listeners": "CONTROLLER://c2:9093"}
BROKER = COMMON | {"node.id": "11", "process.roles": "broker", "listeners": "PLAINTEXT://localhost:9092"}
COMBINED = COMMON | {
    "node.id": "2",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
}
ALONE = {"controller.quorum.bootstrap.servers": "localhost:9093"}

LISTED = VoterFlags(initial_controllers=parse_initial_controllers(CONTROLLERS))
STANDALONE = VoterFlags(standalone=True)
LATER = VoterFlags(no_initial_controllers=True)


def config_of(*parts: dict[str, str]) -> NodeConfig:
    properties: dict[str, str] = {}
    for part in parts:
        properties |= part
    return NodeConfig.parse(properties)[0]


def formatted(
    config: NodeConfig,
    flags: VoterFlags | None = None,
    *,
    cluster_id: str | None = "abc",
    disk: MemoryDisk | None = None,
) -> MemoryDisk:
    disk = disk or MemoryDisk()
    format_directories(disk, config, cluster_id, random.Random(1), NOW_MS, flags)
    return disk


def voters_on(disk: MemoryDisk) -> VoterSet | None:
    if not disk.exists(FIRST):
        return None
    reader = SnapshotReader(disk, FIRST)
    assert list(reader.values()) == []
    reader.close()
    return reader.head.voters


def test_with_static_voters_nothing_is_said_of_them_on_disk() -> None:
    for base in (CONTROLLER, COMBINED):
        disk = formatted(config_of(base, STATIC))
        assert voters_on(disk) is None
        assert read_bootstrap(disk, "/data"), "the first active controller writes these"


@pytest.mark.parametrize("flags", [None, LISTED, LATER])
def test_a_broker_keeps_nothing_of_the_quorum(flags: VoterFlags | None) -> None:
    disk = formatted(config_of(BROKER, DYNAMIC), flags)
    assert disk.list_dir("/data") == ["meta.properties"]
    assert check_formatted(disk, config_of(BROKER, DYNAMIC)).metas["/data"].cluster_id == "abc"


def test_the_first_controllers_are_written_with_their_directories() -> None:
    config = config_of(CONTROLLER, DYNAMIC)
    disk = formatted(config, LISTED)
    voters = voters_on(disk)
    assert voters is not None and voters.kraft_version == 1
    told = {(each.key.id, uuid_to_text(each.key.directory_id), each.endpoints) for each in voters.voters.values()}
    assert told == {
        (1, IDS[0], (("CONTROLLER", "c1", 9093),)),
        (2, IDS[1], (("CONTROLLER", "c2", 9093),)),
        (3, IDS[2], (("CONTROLLER", "::1", 9093),)),
    }
    assert uuid_to_text(check_formatted(disk, config).metas["/data"].directory_id) == IDS[1]


def test_every_first_controller_starts_from_the_same_bytes() -> None:
    one = formatted(config_of(CONTROLLER, DYNAMIC), LISTED)
    other = formatted(config_of(CONTROLLER, DYNAMIC, {"node.id": "1"}), LISTED)
    assert one.read_bytes(FIRST) == other.read_bytes(FIRST)


@pytest.mark.parametrize(
    ("base", "flags", "listeners", "endpoint"),
    [
        (CONTROLLER, STANDALONE, "CONTROLLER://c2:9093", ("CONTROLLER", "c2", 9093)),
        (CONTROLLER, STANDALONE, "CONTROLLER://:9093", ("CONTROLLER", "localhost", 9093)),
        (CONTROLLER, STANDALONE, "CONTROLLER://0.0.0.0:9093", ("CONTROLLER", "localhost", 9093)),
        (COMBINED, None, "PLAINTEXT://localhost:1,CONTROLLER://:9093", ("CONTROLLER", "localhost", 9093)),
        (COMBINED, None, "PLAINTEXT://localhost:1,CONTROLLER://[::1]:9093", ("CONTROLLER", "::1", 9093)),
    ],
)
def test_a_controller_alone_is_the_first_voter(
    base: dict[str, str], flags: VoterFlags | None, listeners: str, endpoint: tuple[str, str, int]
) -> None:
    config = config_of(base, ALONE, {"listeners": listeners})
    disk = formatted(config, flags, cluster_id=None)
    voters = voters_on(disk)
    assert voters is not None
    (voter,) = voters.voters.values()
    assert (voter.key.id, voter.endpoints) == (2, (endpoint,))
    meta = check_formatted(disk, config).metas["/data"]
    assert voter.key.directory_id == meta.directory_id
    assert len(meta.cluster_id) == 22, "made up"


def test_what_is_advertised_is_the_address_of_the_first_voter() -> None:
    listeners = {"listeners": "CONTROLLER://0.0.0.0:9093", "advertised.listeners": "CONTROLLER://c2:19093"}
    voters = voters_on(formatted(config_of(CONTROLLER, DYNAMIC, listeners), STANDALONE))
    assert voters is not None and voters.voters[2].endpoints == (("CONTROLLER", "c2", 19093),)


def test_a_controller_that_joins_later_knows_no_voters() -> None:
    disk = formatted(config_of(CONTROLLER, DYNAMIC), LATER)
    assert voters_on(disk) is None
    assert disk.list_dir("/data/__cluster_metadata-0") == ["quorum-state"]


@pytest.mark.parametrize(
    ("base", "quorum", "flags", "line"),
    [
        (CONTROLLER, STATIC, STANDALONE, "--standalone: controller.quorum.voters already names the voters"),
        (CONTROLLER, STATIC, LISTED, "--initial-controllers: controller.quorum.voters already names the voters"),
        (CONTROLLER, STATIC, LATER, "--no-initial-controllers: controller.quorum.voters already names the voters"),
        (BROKER, DYNAMIC, STANDALONE, "--standalone: node.id=11 is not a controller"),
        (
            CONTROLLER,
            DYNAMIC,
            None,
            "name the first voters with --standalone, --initial-controllers or --no-initial-con",
        ),
        (CONTROLLER, ALONE, None, "name the first voters with"),
        (COMBINED, DYNAMIC, None, "name the first voters with"),
        # Its own port, on another host: it could as well be meant to join the controller there.
        (COMBINED, {"controller.quorum.bootstrap.servers": "c1:9093"}, None, "name the first voters with"),
        (COMBINED, {"controller.quorum.bootstrap.servers": "localhost:9094"}, None, "name the first voters with"),
        (CONTROLLER | {"node.id": "4"}, DYNAMIC, LISTED, "node.id=4 is not among them; a controller that joins later"),
    ],
)
def test_flags_that_contradict_the_config(
    base: dict[str, str], quorum: dict[str, str], flags: VoterFlags | None, line: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        formatted(config_of(base, quorum), flags)
    assert line in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "allowed: id@host:port:directory-id"),
        ("1@c1:9093", "allowed: host:port"),
        (f"c1:9093:{IDS[0]}", "allowed: id@host:port:directory-id"),
        (f"-1@c1:9093:{IDS[0]}", "allowed: id@host:port:directory-id"),
        ("1@c1:9093:short", "tidelog random-uuid makes one"),
        ("1@c1:9093:AAAAAAAAAAAAAAAAAAAAAA", "this directory id is reserved"),
        (f"1@c1:9093:{IDS[0]},1@c2:9093:{IDS[1]}", "two controllers have the same node id"),
        (f"1@c1:9093:{IDS[0]},2@c2:9093:{IDS[0]}", "two controllers have the same directory id"),
        (f"1@c1:9093:{IDS[0]},2@c1:9093:{IDS[1]}", "two controllers have the same address"),
    ],
)
def test_a_malformed_list_of_controllers(text: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_initial_controllers(text)
    assert line in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "flags"),
    [
        (config_of(CONTROLLER, STATIC), None),
        (config_of(CONTROLLER, DYNAMIC), LISTED),
        (config_of(CONTROLLER, DYNAMIC), LATER),
        (config_of(BROKER, STATIC), None),
        (config_of(BROKER, {"controller.quorum.voters": "1@c1:9093"}), None),
    ],
)
def test_nodes_of_one_cluster_need_its_id(config: NodeConfig, flags: VoterFlags | None) -> None:
    disk = MemoryDisk()
    with pytest.raises(ConfigError, match=r"--cluster-id is required for node\.id=.*; tidelog random-uuid makes one"):
        formatted(config, flags, cluster_id=None, disk=disk)
    formatted(config, flags, disk=disk)
    again = format_directories(disk, config, None, random.Random(2), NOW_MS, flags)
    assert again == ("abc", []), "once formatted, the directories know it"


def test_a_directory_added_later_needs_no_flags() -> None:
    disk = formatted(config_of(CONTROLLER, DYNAMIC), LISTED)
    more = config_of(CONTROLLER, DYNAMIC, {"log.dirs": "/data,/more"})
    with pytest.raises(FormatError, match="/more is not formatted, but /data is: if it was in use, its disk is lost"):
        check_formatted(disk, more)
    assert format_directories(disk, more, None, random.Random(2), NOW_MS) == ("abc", ["/more"])
    assert set(check_formatted(disk, more).metas) == {"/data", "/more"}


def test_another_directory_id_than_the_one_on_disk_is_refused() -> None:
    disk = formatted(config_of(CONTROLLER, DYNAMIC), LISTED)
    other = VoterFlags(initial_controllers=parse_initial_controllers(f"2@c2:9093:{IDS[0]}"))
    with pytest.raises(FormatError, match=f"already formatted as directory {IDS[1]}, not {IDS[0]}"):
        formatted(config_of(CONTROLLER, DYNAMIC), other, disk=disk)


SEPARATE = {"metadata.log.dir": "/meta"}


@pytest.mark.parametrize(
    ("config", "flags", "advice"),
    [
        (config_of(COMBINED, ALONE, SEPARATE), None, "restore it$"),
        (config_of(COMBINED, {"controller.quorum.voters": "2@localhost:9093"}, SEPARATE), None, "restore it$"),
        (config_of(COMBINED, DYNAMIC, SEPARATE), STANDALONE, "restore it$"),
        (config_of(COMBINED, DYNAMIC, SEPARATE), LISTED, "restore it, or format it with --no-initial-controllers"),
    ],
)
def test_a_voter_that_lost_its_metadata_log_does_not_start_again_as_if_new(
    config: NodeConfig, flags: VoterFlags | None, advice: str
) -> None:
    disk = formatted(config, flags)
    disk.remove_tree("/meta")
    with pytest.raises(FormatError, match="/meta is not formatted, but /data is: if it was in use"):
        check_formatted(disk, config)
    with pytest.raises(FormatError, match="the metadata log is lost, or its disk is not mounted.*" + advice):
        formatted(config, flags, disk=disk)


@pytest.mark.parametrize(
    ("config", "flags"),
    [
        (config_of(BROKER, DYNAMIC, SEPARATE), None),
        (config_of(COMBINED, STATIC, SEPARATE), None),
        (config_of(COMBINED, DYNAMIC, SEPARATE), LATER),
    ],
)
def test_a_node_that_learns_the_metadata_from_others_may_lose_it(config: NodeConfig, flags: VoterFlags | None) -> None:
    disk = formatted(config, flags)
    disk.remove_tree("/meta")
    formatted(config, flags, disk=disk)
    assert set(check_formatted(disk, config).metas) == {"/data", "/meta"}


def test_a_format_cut_short_is_done_again() -> None:
    config = config_of(CONTROLLER, DYNAMIC)
    disk = formatted(config, LISTED)
    disk.remove("/data/meta.properties")
    disk.write_atomic(FIRST + ".part", b"half")
    formatted(config, LISTED, disk=disk)
    assert voters_on(disk) is not None and check_formatted(disk, config).metas


def test_a_log_that_was_started_is_never_formatted_over() -> None:
    config = config_of(CONTROLLER, DYNAMIC)
    disk = formatted(config, LISTED)
    disk.remove("/data/meta.properties")
    state = "/data/__cluster_metadata-0/quorum-state"
    write_election_state(disk, state, ElectionState(1), voter_ids=(), kraft_version=1)
    with pytest.raises(FormatError, match="is not empty and is not formatted: a directory to format must be empty"):
        formatted(config, LISTED, disk=disk)
    disk.write_atomic(state, b"{}")
    with pytest.raises(FormatError, match="quorum-state is malformed"):
        formatted(config, LISTED, disk=disk)


class TestWhatANodeSaysOfItsDirectories:
    """One line each, for every role; `node` exits with 1."""

    @pytest.fixture(params=["broker", "controller", "broker,controller"])
    def config(self, request: pytest.FixtureRequest) -> NodeConfig:
        base = {"broker": BROKER, "controller": CONTROLLER}.get(request.param, COMBINED)
        return config_of(base, STATIC, {"log.dirs": "/data,/more"})

    def refusal(self, disk: MemoryDisk, config: NodeConfig) -> str:
        with pytest.raises(FormatError) as caught:
            check_formatted(disk, config)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def test_never_formatted(self, config: NodeConfig) -> None:
        assert (
            self.refusal(MemoryDisk(), config)
            == "/data is not formatted; to format a new directory: tidelog format --config FILE"
        )

    def test_of_two_clusters(self, config: NodeConfig) -> None:
        disk = formatted(config)
        other = MetaProperties("xyz", config.node_id, random_uuid(random.Random(9)))
        write_meta_properties(disk, "/more/meta.properties", other)
        line = self.refusal(disk, config)
        assert line == "the directories belong to different clusters: /data to abc, /more to xyz"

    def test_of_another_node(self, config: NodeConfig) -> None:
        disk = formatted(config)
        other = MetaProperties("abc", 77, random_uuid(random.Random(9)))
        write_meta_properties(disk, "/more/meta.properties", other)
        assert self.refusal(disk, config) == f"/more belongs to node 77, but node.id={config.node_id}"


# --- the command


def properties_file(directory: Path, name: str, *parts: dict[str, str]) -> str:
    merged: dict[str, str] = {}
    for part in parts:
        merged |= part
    merged["log.dirs"] = str(directory / name)
    path = directory / f"{name}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in merged.items()), encoding="utf-8")
    return str(path)


def test_several_nodes_are_formatted_by_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [properties_file(tmp_path, f"c{n}", CONTROLLER, DYNAMIC, {"node.id": str(n)}) for n in (1, 2, 3)]
    paths.append(properties_file(tmp_path, "b", BROKER, DYNAMIC))
    configs = [argument for path in paths for argument in ("--config", path)]
    command = ["format", *configs, "--cluster-id", "abc", "--initial-controllers", CONTROLLERS]
    assert main(command) == 0
    assert capsys.readouterr().out.count("formatted for cluster abc: ") == 4
    assert f"directory.id={IDS[2]}" in (tmp_path / "c3" / "meta.properties").read_text(encoding="utf-8")
    assert main(command) == 0
    assert capsys.readouterr().out.count("already formatted") == 4


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["format"], 2, "name the first voters with"),
        (["format", "--standalone", "--cluster-id", "a b"], 2, "--cluster-id takes letters"),
        (["format", "--initial-controllers", "2@c2"], 2, "allowed: "),
        (["run"], 1, "is not formatted; to format a new directory: tidelog format --config FILE"),
    ],
)
def test_a_mistake_is_one_line_and_its_status(
    arguments: list[str], status: int, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = properties_file(tmp_path, "c2", CONTROLLER, DYNAMIC)
    assert main([*arguments, "--config", path]) == status
    err = capsys.readouterr().err
    assert line in err and err.count("\n") == 1
    assert not (tmp_path / "c2").exists()


def test_two_controllers_cannot_both_be_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [properties_file(tmp_path, f"c{n}", CONTROLLER, DYNAMIC, {"node.id": str(n)}) for n in (1, 2)]
    assert main(["format", "--standalone", "--config", paths[0], "--config", paths[1]]) == 2
    assert "would form separate quorums" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["format", "--standalone", "--no-initial-controllers", "--config", "f"],
        ["run", "--standalone", "--config", "f"],
        ["run", "--config", "f", "--config", "g"],
    ],
)
def test_bad_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2


def test_a_power_cut_right_after_leaves_what_was_formatted() -> None:
    disk = formatted(config_of(COMBINED, ALONE, {"log.dirs": "/var/lib/tidelog/data"}), cluster_id=None)
    disk.crash(random.Random(1), lose_entries=True)
    config = config_of(COMBINED, ALONE, {"log.dirs": "/var/lib/tidelog/data"})
    assert check_formatted(disk, config).metas["/var/lib/tidelog/data"].node_id == 2
