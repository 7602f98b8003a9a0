"""The moving picture of the README: a real cluster under load, and its page in a browser while the leader is killed.

python tools/moving_picture.py docs/images/leader-killed.png [--frames DIR]

Starts three brokers on free ports, writes to a topic, opens the page in Chromium and presses its own buttons: kill the
leader, start it again. Each screenshot becomes a frame that lasts until the next one. A strip below the page has a
caption and a clock. The file is an animated PNG. `--frames` keeps the single frames, so that you can check them.
"""

import argparse
import itertools
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from time import perf_counter as now_s  # noqa: TID251 - frames last as long as they lasted
from typing import Final, NamedTuple

import matplotlib
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.processes import cluster_up, free_port, free_ports

from tidelog.cli.app import run as tidelog

VIEW: Final = ViewportSize(width=1280, height=680)
TOPIC: Final = "orders"
PARTITIONS: Final = 4
BROKERS: Final = 3
FRAME_S: Final = 0.25
STRIP_PX: Final = 40
FONT_PX: Final = 17
COLOURS: Final = 96
LAST_FRAME_MS: Final = 2500
FONT: Final = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
INK, PAPER = (240, 242, 245), (24, 28, 36)


class Shot(NamedTuple):
    """A screenshot, and its moment on the clock of the strip; None before the clock starts."""

    image: Image.Image
    caption: int
    taken_s: float
    clock_s: float | None


class Recorder:
    """Screenshots of a page, each with the caption of its moment."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._zero_s: float | None = None
        self._shots: list[Shot] = []
        self.captions: list[str] = []

    def zero(self) -> None:
        """The clock of the strip starts here."""
        self._zero_s = now_s()

    def record(self, caption: str, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Takes frames for so long, or until a condition of the page is met."""
        self.captions.append(caption)
        end_s = now_s() + seconds
        while now_s() < end_s:
            began_s = now_s()
            image = Image.open(BytesIO(self._page.screenshot())).convert("RGB")
            clock_s = None if self._zero_s is None else began_s - self._zero_s
            self._shots.append(Shot(image, len(self.captions) - 1, began_s, clock_s))
            if until():
                return
            self._page.wait_for_timeout(max(0.0, 1000 * (began_s + FRAME_S - now_s())))

    def frames(self) -> list[Image.Image]:
        """Each screenshot with a strip below it."""
        font = ImageFont.truetype(str(FONT), FONT_PX)
        frames = []
        for shot in self._shots:
            width, height = shot.image.size
            frame = Image.new("RGB", (width, height + STRIP_PX), PAPER)
            frame.paste(shot.image, (0, 0))
            draw = ImageDraw.Draw(frame)
            top = height + (STRIP_PX - FONT_PX) // 2 - 2
            draw.text((16, top), self.captions[shot.caption], font=font, fill=INK)
            clock = "" if shot.clock_s is None else f"{shot.clock_s:.1f} s"
            draw.text((width - draw.textlength(clock, font=font) - 16, top), clock, font=font, fill=INK)
            frames.append(frame)
        return frames

    def save(self, path: Path) -> list[Image.Image]:
        """Writes the picture and returns its frames. They share a palette, so that still parts cost nothing."""
        frames = self.frames()
        # The palette is drawn from a sheet of frames, so that it has the colours of every moment.
        sample = frames[:: max(1, len(frames) // 8)]
        sheet = Image.new("RGB", (sample[0].width, sample[0].height * len(sample)))
        for number, frame in enumerate(sample):
            sheet.paste(frame, (0, number * frame.height))
        palette = Image.new("P", (1, 1))
        palette.putpalette(colours(sheet))
        flat = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
        moments_s = [shot.taken_s for shot in self._shots]
        lasted_ms = [round(1000 * (after - before)) for before, after in itertools.pairwise(moments_s)]
        flat[0].save(
            path,
            save_all=True,
            append_images=flat[1:],
            duration=[*lasted_ms, LAST_FRAME_MS],
            loop=0,
            optimize=True,
            format="GIF" if path.suffix == ".gif" else "PNG",
        )
        return flat


def colours(sheet: Image.Image) -> bytes:
    """Half of the palette are the most frequent colours, unchanged; the other half covers rare ones, such as red."""
    counts = sheet.getcolors(sheet.width * sheet.height)
    assert counts is not None
    frequent = [colour for _, colour in sorted(counts, reverse=True)[: COLOURS // 2]]
    rare = sheet.quantize(COLOURS // 2, method=Image.Quantize.MAXCOVERAGE).getpalette()
    assert rare is not None
    return b"".join(bytes(colour) for colour in frequent) + bytes(rare[: 3 * (COLOURS // 2)])


class Load:
    """Some records a moment to every partition, until it is stopped; knows which of them were acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._over = threading.Event()
        self._writer = threading.Thread(target=self._write)
        self._acknowledged: set[bytes] = set()

    def __enter__(self) -> "Load":
        self._writer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._over.set()
        self._writer.join()

    def read_back(self) -> int:
        """How many records were acknowledged; an error when one of them cannot be read."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "picture", "log_level": 0})
        ends = [
            consumer.get_watermark_offsets(TopicPartition(TOPIC, each), timeout=30)[1] for each in range(PARTITIONS)
        ]
        consumer.assign([TopicPartition(TOPIC, each, 0) for each in range(PARTITIONS)])
        read: set[bytes] = set()
        for _ in range(sum(ends)):
            message = consumer.poll(30)
            if message is None or message.error() is not None:
                raise RuntimeError(f"the records cannot be read: {message and message.error()}")
            read.add(message.value() or b"")
        consumer.close()
        if lost := self._acknowledged - read:
            raise RuntimeError(f"{len(lost)} acknowledged records were lost")
        return len(self._acknowledged)

    def _write(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        for number in itertools.count():
            for partition in range(PARTITIONS):
                value = f"order {number} of partition {partition}"
                producer.produce(TOPIC, value, partition=partition, on_delivery=self._delivered)
            producer.poll(0)
            if self._over.wait(0.05):
                break
        producer.flush(30)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._acknowledged.add(message.value() or b"")


def film(page: Page, url: str, load: Load) -> Recorder:
    page.goto(url)
    expect(page.locator("#connection-text")).to_have_text("live")
    expect(page.locator(".node.running")).to_have_count(BROKERS)
    cell = page.locator(".cell", has=page.get_by_text(f"{TOPIC}-0", exact=True))
    expect(cell).to_contain_text("ISR 3/3")
    page.wait_for_timeout(3000)
    leader = cell.locator(".chip.leader")
    victim = leader.inner_text()
    recorder = Recorder(page)
    recorder.record(f"Three brokers under load. Node {victim} leads {TOPIC}-0 and others.", 2.0)
    recorder.zero()
    page.get_by_role("button", name=f"kill node {victim}").click()
    recorder.record(f"kill -9 of node {victim}", 10.0, until=lambda: leader.inner_text() not in ("", victim))
    recorder.record(f"Node {leader.inner_text()} leads {TOPIC}-0. Writes go on with two of three replicas.", 4.0)
    page.get_by_role("button", name=f"start node {victim}").click()
    returns = f"Node {victim} starts again and fetches the records that it missed."
    recorder.record(returns, 20.0, until=lambda: "ISR 3/3" in cell.inner_text())
    recorder.record("All replicas are in sync again.", 2.0)
    load.stop()
    recorder.captions[-1] += f" {load.read_back()} records were acknowledged, none is lost."
    return recorder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--frames", type=Path, help="a directory for the single frames")
    options = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        print("chromium is missing: install it (Debian's package is chromium)", file=sys.stderr)
        return 1
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-picture-") as directory,
        cluster_up(Path(directory) / "data", free_ports(BROKERS), free_port()) as ready,
    ):
        bootstrap = ready["bootstrap"]
        create = ["topics", "create", TOPIC, "--partitions", str(PARTITIONS), "--config", "min.insync.replicas=2"]
        if tidelog([*create, "--bootstrap", bootstrap]) != 0:
            return 1
        # Root in a container has no sandbox to give.
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        with sync_playwright() as play, Load(bootstrap) as load:
            browser = play.chromium.launch(executable_path=chromium, args=sandbox)
            recorder = film(browser.new_page(viewport=VIEW, color_scheme="light"), ready["ui"], load)
            browser.close()
    frames = recorder.save(options.picture)
    if options.frames is not None:
        options.frames.mkdir(parents=True, exist_ok=True)
        for number, frame in enumerate(frames):
            frame.save(options.frames / f"{number:03}.png")
    print(f"{options.picture}: {len(frames)} frames, {options.picture.stat().st_size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
