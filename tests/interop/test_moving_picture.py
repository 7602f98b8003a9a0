"""The script that records the README's picture still finds the buttons of the page."""

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from tests.interop.registries import RegistryUnreachable, ensure_debian, skip_unreachable

ROOT = Path(__file__).parents[2]
FEWEST_FRAMES = 10


@pytest.mark.timeout(300)
def test_a_picture_is_recorded(tmp_path: Path) -> None:
    try:
        ensure_debian("chromium", "chromium")
    except RegistryUnreachable as error:
        skip_unreachable(error)
    picture = tmp_path / "picture.png"
    command = [sys.executable, "tools/moving_picture.py", str(picture)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    with Image.open(picture) as opened:
        assert getattr(opened, "n_frames", 1) >= FEWEST_FRAMES
