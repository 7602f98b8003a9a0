"""The Pythons of this machine, and what each needs to run a simulation."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "pythons"
# All that a simulated node imports and Python does not bring: both compiled, so each version needs its own.
LIBRARIES = ("crc32c", "cramjam")
_ASK = "import sys; print(sys.version_info[0], sys.version_info[1], sys.base_prefix)"


def installed(version: str) -> list[str]:
    """Programs of this version, as 3.12, one for each installation: first the one that runs this."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [
        sys.executable,
        *map(str, sorted(home.glob(f"versions/{version}.*/bin/python{version}"))),
        *map(str, sorted(Path.home().glob(f".local/share/uv/python/cpython-{version}.*/bin/python{version}"))),
        *(f"{directory}/python{version}" for directory in os.get_exec_path()),
    ]
    found: dict[str, str] = {}
    for program in candidates:
        prefix = _prefix(program, version)
        if prefix is not None:
            found.setdefault(prefix, program)
    return list(found.values())


def _prefix(program: str, version: str) -> str | None:
    """Where it is installed; None if it is not there, does not run, or is another version."""
    if shutil.which(program) is None:
        return None
    told = subprocess.run([program, "-c", _ASK], capture_output=True, text=True, check=False)
    if told.returncode != 0:
        # As the shims of pyenv for versions that nobody chose.
        return None
    major, minor, prefix = told.stdout.strip().split(" ", 2)
    return prefix if f"{major}.{minor}" == version else None


def libraries(version: str) -> Path:
    """A directory with what a simulation needs, for any Python of that version; made once and kept."""
    lock = (ROOT / "requirements.lock").read_text()
    pinned = [line for name in LIBRARIES for line in re.findall(rf"^{name}==\S+", lock, re.MULTILINE)]
    assert len(pinned) == len(LIBRARIES), pinned
    wanted = CACHE / f"{version}-{hashlib.sha256(' '.join(pinned).encode()).hexdigest()[:12]}"
    if not wanted.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
            choice = ["--only-binary=:all:", "--python-version", version, "--target", f"{scratch}/libraries"]
            subprocess.run([*pip, *choice, *pinned], check=True)
            Path(scratch, "libraries").rename(wanted)
    return wanted
