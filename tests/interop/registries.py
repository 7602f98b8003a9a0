"""Where what PyPI does not have comes from. A registry that does not answer is a reason to skip; nothing else is."""

import os
import re
import shutil
import subprocess

import pytest

APT_SECONDS = 180
SKIP_WORD = "registry does not answer"

# Maven's and apt's words for "nobody answered", as against "answered, and does not have it" (which is our mistake).
NO_ANSWER = re.compile(
    r"Connect(?:ion)? timed out|Read timed out|Connection refused|Connection reset|No route to host|"
    r"Network is unreachable|Unknown host|UnknownHostException|Temporary failure in name resolution|"
    r"Name or service not known|Remote host terminated the handshake|Could not connect|offline mode",
    re.IGNORECASE,
)


class RegistryUnreachable(Exception):
    """Nobody answered: a reason to skip, never a failure of ours."""


class ProgramMissing(Exception):
    """What the tests run is not installed, and we may not install it: a failure, for no registry is to blame."""


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
        raise ProgramMissing(f"{program} is missing: install it (Debian's package is {package})")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # Another worker may be installing something.
    wait = ["-o", f"DPkg::Lock::Timeout={APT_SECONDS}"]
    for arguments in ([*wait, "update", "-q"], [*wait, "install", "-y", "-q", "--no-install-recommends", package]):
        try:
            done = subprocess.run(
                [apt, *arguments], env=environment, capture_output=True, text=True, timeout=APT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise RegistryUnreachable(f"apt-get did not answer in {APT_SECONDS} s") from error
        output = done.stdout + done.stderr
        if done.returncode != 0 and NO_ANSWER.search(output):
            raise RegistryUnreachable("Debian's registry does not answer")
        assert done.returncode == 0, f"apt-get {' '.join(arguments)} failed\n{output}"
    installed = shutil.which(program)
    assert installed is not None, f"{package} is installed and {program} is not there"
    return installed
