"""What decoding does not do: make an object or a call for a record, compile twice, load what only a node needs."""

import gc
import logging
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from numba.core.caching import Cache

from tidelog.kernel import Decoder, jit, native
from tidelog.wire.records.attributes import Codec
from tidelog.wire.records.plain import Record, encode_batch

END = 2**63 - 1
# What may not come with `import tidelog.kernel` or `tidelog.spark`, and what must not come with a node.
NOT_WITH_THE_KERNEL = {"uvloop", "starlette", "uvicorn", "typer", "rich", "prometheus_client"}
NOT_WITH_A_NODE = {"numba", "llvmlite", "pyarrow", "numpy"}


def answer(count: int, codec: Codec) -> bytes:
    records = [Record(timestamp=n, key=b"k", value=b"value", headers=(("h", b"1"),)) for n in range(count)]
    return encode_batch(records, codec=codec)


def decode(log: bytes) -> list[Any]:
    decoder = Decoder("orders", 0, 0, END, headers=True, epoch=True, max_rows=1 << 17)
    return [*decoder.feed(log), *decoder.flush()]


def calls_of(action: Callable[[], object]) -> int:
    """Calls and returns, of Python and of C, until it is done."""
    seen = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal seen
        seen += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return seen


def blocks_of(action: Callable[[], object]) -> int:
    """How many more objects the allocator holds while the result is held."""
    gc.collect()
    before = sys.getallocatedblocks()
    result = action()
    gc.collect()
    held = sys.getallocatedblocks() - before
    del result
    return held


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_no_object_and_no_call_per_record(codec: Codec) -> None:
    one, many = answer(1, codec), answer(100_000, codec)
    for log in (one, many):
        decode(log)
    # A compressed batch may take a few tries to find its size.
    assert abs(calls_of(lambda: decode(many)) - calls_of(lambda: decode(one))) < 50
    assert abs(blocks_of(lambda: decode(many)) - blocks_of(lambda: decode(one))) < 100


def test_memory_does_not_grow_with_what_is_read() -> None:
    """An answer at a time, its batches dropped as they come: a few Arrow batches and one decompressed, and no more."""
    max_bytes = 1 << 20
    count = 10_000
    records = [Record(key=b"%08d" % n, value=b"v" * 100) for n in range(count)]

    def peak_of(answers: int) -> int:
        decoder = Decoder("orders", 0, 0, END, max_rows=4096, max_bytes=max_bytes)
        peak = 0
        for number in range(answers):
            log = encode_batch(records, base_offset=number * count, codec=Codec.ZSTD)
            tracemalloc.start()
            for _ in decoder.feed(log):
                pass
            peak = max(peak, tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert decoder.next_offset == answers * count
        return peak

    decompressed = count * 120
    assert peak_of(20) < decompressed + 3 * max_bytes
    assert peak_of(20) < 1.2 * peak_of(4)


def test_the_kernel_is_compiled_for_one_set_of_types() -> None:
    for codec in Codec:
        for log in (answer(3, codec), bytearray(answer(3, codec)), memoryview(answer(3, codec))):
            decoder = Decoder("orders", 0, 0, END)
            list(decoder.feed(log))
    compiled: list[Any] = [native.measure, native.fill]
    assert [len(function.signatures) for function in compiled] == [1, 1]


def loaded_by(code: str) -> set[str]:
    """The top-level packages that a new process has after running the code."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"{code}\nimport sys; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))",
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("package", ["kernel", "spark", "spark.source", "spark.reading, tidelog.spark.writing"])
def test_the_kernel_and_the_connector_load_nothing_of_nodes_and_commands(package: str) -> None:
    loaded = loaded_by(f"import tidelog.{package}")
    assert not loaded & NOT_WITH_THE_KERNEL
    # What plans a query does not load it either: Spark has a process for each step of that.
    assert ("numba" in loaded) == (package not in ("spark", "spark.source"))


def test_a_node_and_the_commands_load_nothing_of_the_kernel() -> None:
    assert not loaded_by("import tidelog.broker.node, tidelog.cli.app, tidelog.testing") & NOT_WITH_A_NODE


@pytest.mark.parametrize("missing", ["numba", "pyarrow"])
def test_what_is_missing_says_how_to_get_it(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import tidelog.kernel"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.endswith(f"ImportError: {missing} is missing: pip install 'tidelog[spark]'\n")


def twice(value: int) -> int:
    return 2 * value


def test_where_nothing_can_be_kept_the_kernel_works_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """A read-only install and home: Numba finds no place beside the source, as for code that has no file at all."""
    nowhere: dict[str, Any] = {}
    exec(compile("def twice(value):\n    return 2 * value\n", "/nowhere/kernel.py", "exec"), nowhere)
    with caplog.at_level(logging.WARNING, "tidelog.kernel"):
        assert jit.compiled(nowhere["twice"])(21) == 42
    assert "NUMBA_CACHE_DIR" in caplog.text
    assert "no locator available" in caplog.text


def test_a_cache_that_cannot_be_written_after_all_is_done_without(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: object, signature: object, data: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Cache, "save_overload", full)
    monkeypatch.setattr(Cache, "load_overload", lambda self, signature, context: None)
    function = jit.compiled(twice)
    with caplog.at_level(logging.WARNING, "tidelog.kernel"):
        assert jit.first_call(function, 21) == 42
    assert "No space left on device" in caplog.text
    assert function(4) == 8
