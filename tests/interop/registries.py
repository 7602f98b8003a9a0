"""Where what PyPI does not have comes from. A registry that does not answer is a reason to skip; nothing else is."""

import os
import shutil
import subprocess

import pytest
from tests.interop.kafka_jars import NO_ANSWER, RegistryUnreachable

APT_SECONDS = 180
SKIP_WORD = "registry does not answer"


def skip_unreachable(error: RegistryUnreachable) -> None:
    """The one kind of skip that does not fail the run."""
    pytest.skip(f"{SKIP_WORD}: {error}")


def ensure_debian(program: str, package: str) -> str:
    """The path of a program; installs its package when it is missing and we may."""
    found = shutil.which(program)
    if found is not None:
        return found
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        raise RegistryUnreachable(f"{program} is missing, and only root on Debian can ask for it")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update", "-q"], ["install", "-y", "-q", "--no-install-recommends", package]):
        try:
            done = subprocess.run(
                [apt, *arguments], env=environment, capture_output=True, text=True, timeout=APT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise RegistryUnreachable(f"apt-get did not answer in {APT_SECONDS} s") from error
        output = done.stdout + done.stderr
        if done.returncode != 0 and (NO_ANSWER.search(output) or "Could not connect" in output):
            raise RegistryUnreachable("Debian's registry does not answer")
        assert done.returncode == 0, f"apt-get {' '.join(arguments)} failed\n{output}"
    installed = shutil.which(program)
    assert installed is not None, f"{package} is installed and {program} is not there"
    return installed
