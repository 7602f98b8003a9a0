"""Reports English that has to be read twice, for each folder and kind of text.

    python tools/prose.py                         a table: hits for 10,000 words, long sentences, wide lines
    python tools/prose.py --list docs README.md   each hit in these paths: file, line, pattern, sentence
    python tools/prose.py --kind messages         only what users read in the program (also: docs, comments, names)
    python tools/prose.py --words                 a row for each pattern instead of each folder
    python tools/prose.py --check                 fails when a folder is worse than tools/prose_limits.json
    python tools/prose.py --write                 lowers the limits to the figures of today (--raise: also raises them)

A pattern is a word or a turn that makes sentences hard to read: "who/whom", "tell", "what is there". A sentence is long
with more than 30 words. A line of prose or a table cell in Markdown is wide with more than 200 characters.
A folder is worse when it has more of something than its limit, and also more for each 10,000 words.
"""

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from prose_texts import Passage, passages

ROOT = Path(__file__).resolve().parent.parent
LIMITS = ROOT / "tools" / "prose_limits.json"
LONG = 30
SUFFIXES = {".md", ".py", ".js", ".html", ".yml", ".yaml", ".toml", ".properties", ".service", ".json"}
# These name the patterns, or quote them.
LEFT_OUT = {"tools/prose.py", "tools/prose_texts.py", "tests/unit/tools/test_prose.py"}

PATTERNS = {
    "who/whom": r"who|whom|whoever|whomever",
    "tell/told": r"tell|tells|told|telling",
    "nobody/somebody": r"nobody|somebody|anybody|everybody",
    "stand": r"stand|stands|stood|standing",
    "say/said": r"say|says|said|saying",
    "hear": r"hear|hears|heard",
    "look": r"looks?(?! up)|looked(?! up)|looking(?! up)",
    "lie": r"lie|lies|lay|lain",
    "come to be": r"comes? to be|came to be",
    "anew": r"anew",
    "of late": r"of late",
    "meanwhile": r"meanwhile",
    "gone": r"gone",
    "the way to": r"the way to",
    "what there is": r"what there (?:is|was)|(?:is|was|are) what",
    "the one that": r"the ones? (?:that|which)|(?:is|was) none",
    "what is …": r"what (?:is|was|are|were|has|had|can|may|must|could|no|comes|came|follows|remains|belongs|it|they)",
}
COMPILED = {name: re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for name, words in PATTERNS.items()}
WORD = re.compile(r"[A-Za-z][A-Za-z'’]*")
SENTENCE = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[A-Z0-9\"'(`])")


class Hit(NamedTuple):
    path: str
    kind: str
    line: int
    pattern: str
    sentence: str


class Figures(NamedTuple):
    words: int
    hits: int
    long: int
    wide: int


def sources(paths: list[str]) -> Iterator[Path]:
    """The files that git tracks or would add, below these paths."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *paths],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in sorted(set(listed)):
        path = ROOT / name
        if path.suffix in SUFFIXES and name not in LEFT_OUT and path.is_file():
            yield path


def folder(name: str) -> str:
    """The folder that a file is counted in: a package of src/tidelog, a folder of docs, else the topmost one."""
    parts = Path(name).parts
    if len(parts) == 1:
        return "."
    if parts[:2] == ("src", "tidelog"):
        return "/".join(parts[:3]) if len(parts) > 3 else "src/tidelog"
    if parts[0] == "docs" and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0]


def judged(passage: Passage, path: str) -> Iterator[Hit]:
    """The hits of one passage."""
    if passage.wide:
        yield Hit(path, passage.kind, passage.line, "wide", f"{passage.wide} characters")
    for sentence in SENTENCE.split(passage.text):
        if len(WORD.findall(sentence)) > LONG:
            yield Hit(path, passage.kind, passage.line, "long", sentence)
        for name, pattern in COMPILED.items():
            if name == "what is …" and (passage.heading or sentence.rstrip().endswith("?")):
                continue
            for _ in pattern.findall(sentence):
                yield Hit(path, passage.kind, passage.line, name, sentence)


def survey(paths: list[str], kind: str | None) -> tuple[dict[tuple[str, str], int], list[Hit]]:
    """Words by folder and kind, and every hit."""
    words: Counter[tuple[str, str]] = Counter()
    hits: list[Hit] = []
    for path in sources(paths):
        name = path.relative_to(ROOT).as_posix()
        for passage in passages(path):
            if kind is None or passage.kind == kind:
                words[folder(name), passage.kind] += len(WORD.findall(passage.text))
                hits += judged(passage, name)
    return dict(words), hits


def figures(words: dict[tuple[str, str], int], hits: Iterable[Hit]) -> dict[tuple[str, str], Figures]:
    count: Counter[tuple[str, str, str]] = Counter()
    for hit in hits:
        what = hit.pattern if hit.pattern in ("long", "wide") else "hits"
        count[folder(hit.path), hit.kind, what] += 1
    return {
        key: Figures(number, *(count[(*key, what)] for what in ("hits", "long", "wide")))
        for key, number in sorted(words.items())
    }


def rate(count: int, words: int) -> float:
    return 10_000 * count / max(words, 1)


def table(found: dict[tuple[str, str], Figures]) -> Iterator[str]:
    yield f"{'folder':<26} {'kind':<9} {'words':>7} {'hits':>6} {'/10k':>6} {'long':>5} {'/10k':>6} {'wide':>5}"
    for (name, kind), each in found.items():
        yield (
            f"{name:<26} {kind:<9} {each.words:>7} {each.hits:>6} {rate(each.hits, each.words):>6.0f} "
            f"{each.long:>5} {rate(each.long, each.words):>6.0f} {each.wide:>5}"
        )


def by_pattern(words: dict[tuple[str, str], int], hits: list[Hit]) -> Iterator[str]:
    kinds = sorted({kind for _, kind in words})
    total = {kind: sum(number for (_, each), number in words.items() if each == kind) for kind in kinds}
    count = Counter((hit.pattern, hit.kind) for hit in hits)
    yield f"{'for 10,000 words':<18}" + "".join(f"{kind:>10}" for kind in kinds)
    for name in [*PATTERNS, "long", "wide"]:
        yield f"{name:<18}" + "".join(f"{rate(count[name, kind], total[kind]):>10.1f}" for kind in kinds)


def worse(found: dict[tuple[str, str], Figures]) -> Iterator[str]:
    """What exceeds its limit; a folder that is new has none left to exceed."""
    limits = json.loads(LIMITS.read_text())
    for (name, kind), now in found.items():
        limit = Figures(*limits.get(name, {}).get(kind, (max(now.words, 1), 0, 0, 0)))
        for what in ("hits", "long", "wide"):
            count, most = getattr(now, what), getattr(limit, what)
            if count > most and rate(count, now.words) > rate(most, limit.words):
                see = f"python tools/prose.py --kind {kind} --list {name}"
                yield f"{name}: {kind}: {what} {count}, the limit is {most}; see {see}"


def write(found: dict[tuple[str, str], Figures], *, raising: bool) -> None:
    old = json.loads(LIMITS.read_text()) if LIMITS.exists() else {}
    new: dict[str, dict[str, list[int]]] = {}
    for (name, kind), now in found.items():
        limit = Figures(*old.get(name, {}).get(kind, now))
        exceeds = any(
            getattr(now, what) > getattr(limit, what)
            and rate(getattr(now, what), now.words) > rate(getattr(limit, what), limit.words)
            for what in ("hits", "long", "wide")
        )
        new.setdefault(name, {})[kind] = list(limit if exceeds and not raising else now)
    rows = [f'  "{name}": {json.dumps(kinds)}' for name, kinds in sorted(new.items())]
    LIMITS.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="files and folders; all of the project if none is given")
    parser.add_argument("--kind", choices=["docs", "messages", "comments", "names"])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--words", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--raise", dest="raising", action="store_true")
    given = parser.parse_args()
    if (given.check or given.write) and (given.paths or given.kind):
        parser.error("--check and --write take the whole project")
    words, hits = survey(given.paths, given.kind)
    found = figures(words, hits)
    if given.list:
        for hit in hits:
            print(f"{hit.path}:{hit.line}: {hit.pattern}: {hit.sentence}")
        return 0
    if given.write:
        write(found, raising=given.raising)
        return 0
    if given.check:
        problems = list(worse(found))
        print("\n".join(problems) if problems else f"prose: no folder of {len({name for name, _ in found})} is worse")
        return 1 if problems else 0
    print("\n".join(by_pattern(words, hits) if given.words else table(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
