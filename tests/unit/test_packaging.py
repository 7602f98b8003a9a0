"""`packaging/`: config, systemd unit and container agree with each other and with the project they install."""

import json
import re
import tomllib
from configparser import RawConfigParser
from fnmatch import fnmatch
from importlib.metadata import metadata
from pathlib import Path

from packaging.specifiers import SpecifierSet

from tidelog.cli.app import app
from tidelog.core.config.node import NodeConfig
from tidelog.core.config.properties import parse_properties

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONFIG_PATH = "/etc/tidelog/server.properties"


def server_properties() -> dict[str, str]:
    return parse_properties((PACKAGING / "server.properties").read_text())


def instructions() -> list[tuple[str, str]]:
    """Of the Containerfile: the word and the rest of each, with lines that go on joined."""
    text = (PACKAGING / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, " ".join(rest.split())) for word, _, rest in (line.partition(" ") for line in lines)]


def of(word: str) -> list[str]:
    return [rest for found, rest in instructions() if found == word]


def test_what_is_pinned_installs_on_the_oldest_python_there_is_support_for() -> None:
    """Debian 12 has 3.11.2: `make setup` ended there over a pin that wanted 3.11.5."""
    least = PROJECT["project"]["requires-python"].removeprefix(">=") + ".0"
    pins = [line.split("==")[0] for line in (ROOT / "requirements.lock").read_text().split()]
    wanted = {name: ",".join(metadata(name).get_all("Requires-Python") or ()) for name in pins}
    assert {name: wants for name, wants in wanted.items() if least not in SpecifierSet(wants)} == {}


def test_the_config_for_real_hosts_is_one() -> None:
    config, warnings = NodeConfig.parse(server_properties())
    assert (config.tidelog_metrics_port, config.min_insync_replicas) == (9404, 2)
    assert all("asks for no authentication" in warning for warning in warnings)


def test_a_container_has_what_its_wheel_is_made_of() -> None:
    assert of("COPY") == [". /src"]
    ignored, *let_in = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] != "#"]
    assert ignored == "*" and all(line.startswith("!") for line in let_in)
    sources = [line.removeprefix("!") for line in let_in]
    assert [source for source in sources if not (ROOT / source).exists()] == []
    # The package links to files outside of it.
    links = {path.resolve().relative_to(ROOT) for path in (ROOT / "src").rglob("*") if path.is_symlink()}
    needed = {"pyproject.toml", "LICENSE", PROJECT["project"]["readme"], *map(str, links)}
    assert links and all(
        any(fnmatch(path, pattern) for source in sources for pattern in (source, f"{source}/*")) for path in needed
    )
    pythons = {re.search(r"python:3\.(\d+)", rest) for rest in of("FROM")}
    least = int(PROJECT["project"]["requires-python"].removeprefix(">=3."))
    assert all(found is not None and int(found[1]) >= least for found in pythons)


def test_a_container_starts_a_node_of_the_config() -> None:
    (program,) = json.loads(of("ENTRYPOINT")[0])
    assert program in PROJECT["project"]["scripts"]
    command, *arguments = json.loads(of("CMD")[0])
    assert arguments == ["--config", CONFIG_PATH]
    assert command in [each.name or getattr(each.callback, "__name__", None) for each in app.registered_commands]
    (volume,), config = of("VOLUME"), server_properties()
    assert config["log.dirs"].startswith(f"{volume}/")
    addresses = {address.rsplit(":", 1)[1] for address in config["listeners"].split(",")}
    assert set(of("EXPOSE")[0].split()) == addresses | {config["tidelog.metrics.port"]}
    (user,) = of("USER")
    assert f"useradd --uid {user} --home-dir {volume} --create-home" in of("RUN")[-1]


def test_the_unit_starts_a_node_of_the_config() -> None:
    unit = RawConfigParser()
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(PACKAGING / "tidelog.service")
    service = unit["Service"]
    assert service["ExecStart"] == f"/opt/tidelog/bin/tidelog node --config {CONFIG_PATH}"
    assert server_properties()["log.dirs"].startswith(f"/var/lib/{service['StateDirectory']}/")
