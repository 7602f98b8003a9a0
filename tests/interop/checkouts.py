"""A clean checkout with a package index: what a new user has in hands, and the commands of a page run in it."""

import os
import subprocess
from pathlib import Path

from tests.guide.pages import Command, steps
from tests.guide.reader import reader, variables
from tests.guide.test_guide import check
from tests.interop.registries import NO_ANSWER, RegistryUnreachable

ROOT = Path(__file__).parents[2]
SECONDS = 300
AUTHOR = {"NAME": "Ada", "EMAIL": "ada@example.org"}


def make_checkout(directory: Path) -> Path:
    """The tracked files as they are now, in a repository of their own."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    checkout = directory / "tidelog"
    checkout.mkdir()
    for name in filter(None, tracked.split("\0")):
        # A file that is deleted and not yet committed is still listed.
        if (ROOT / name).exists() or (ROOT / name).is_symlink():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "--no-dereference", "--preserve=mode", ROOT / name, checkout / name], check=True)
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "a checkout"]):
        subprocess.run(["git", *command], cwd=checkout, env=os.environ | _author(), check=True)
    return checkout


def run(command: str, folder: Path, programs: Path | None = None, **more: str) -> tuple[int, str]:
    """The status and the output of a shell command, in `folder` and on the network of this machine."""
    done = subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=folder,
        env=variables(folder, programs) | _author() | more,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode != 0 and NO_ANSWER.search(done.stdout):
        raise RegistryUnreachable("the package index does not answer")
    return done.returncode, done.stdout


def follow_in_a_checkout(page: Path, checkout: Path) -> None:
    """Every command of a page. A command that needs no package index runs where every port is free."""
    with reader(checkout, active=False) as shell:
        for step in steps(page, with_index=True):
            if isinstance(step, Command):
                check(page, step, *(run(step.text, checkout) if step.needs_index else shell.run(step.text)))


def _author() -> dict[str, str]:
    return {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in AUTHOR.items()}
