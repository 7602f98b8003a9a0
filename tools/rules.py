"""Counts the numbered rules of docs/internals/behaviours.md and the tests that show them.

A rule is a line that begins with ``- **W2**``. A test names it with ``@pytest.mark.rule("W2")``, a scenario file in its
line ``rules: W2``. Every rule needs a test, less those on the list of rules that are not built yet; a rule on that list
that has a test has to leave it.

The live page shows their texts from a copy in its package, which must be the same; `--write` makes it so.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEHAVIOURS = ROOT / "docs" / "internals" / "behaviours.md"
PAGE_COPY = ROOT / "src" / "tidelog" / "web" / "static" / "rules.json"
TEXT = re.compile(r"^- \*\*([A-Z]\d+)\*\* (.*(?:\n  .*)*)", re.MULTILINE)
RULE = re.compile(r"^- \*\*([A-Z]\d+)\*\*", re.MULTILINE)
MARK = re.compile(r"mark\.rule\(([^)]*)\)")
NAME = re.compile(r"[\"']([A-Z]\d+)[\"']")
HEADER = re.compile(r"^rules:(.*)$", re.MULTILINE)
# The list of rules that are not built yet only shrinks, and this number with it.
MOST_NOT_BUILT = 0
NOT_BUILT = re.compile(r"^Not built yet: (.*)$", re.MULTILINE)


def numbers() -> list[str]:
    """Of all rules, in the order they stand in."""
    return RULE.findall(BEHAVIOURS.read_text())


def page_copy() -> str:
    """The texts by number, without their marks, as JSON."""
    found = TEXT.findall(BEHAVIOURS.read_text())
    plain = {number: re.sub(r"[`*]", "", " ".join(text.split())) for number, text in found}
    return json.dumps(plain, indent=0, ensure_ascii=False) + "\n"


def main() -> int:
    if "--write" in sys.argv[1:]:
        PAGE_COPY.write_text(page_copy())
    text = BEHAVIOURS.read_text()
    rules = numbers()
    pending_line = NOT_BUILT.search(text)
    pending = set(re.findall(r"[A-Z]\d+", pending_line[1])) if pending_line else set()
    shown: dict[str, int] = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for mark in MARK.findall(path.read_text()):
            for name in NAME.findall(mark):
                shown[name] = shown.get(name, 0) + 1
    for path in sorted((ROOT / "tests" / "scenarios").rglob("*.txt")):
        for header in HEADER.findall(path.read_text()):
            for name in header.split():
                shown[name] = shown.get(name, 0) + 1
    problems = [
        f"{name} stands twice in {BEHAVIOURS.name}" for name in sorted({r for r in rules if rules.count(r) > 1})
    ]
    problems += [f"{name} has no test" for name in rules if name not in shown and name not in pending]
    problems += [
        f"{name} has a test: take it off the list of rules not built yet" for name in sorted(pending & set(shown))
    ]
    problems += [
        f"{name} is on the list of rules not built yet, and is no rule" for name in sorted(pending - set(rules))
    ]
    problems += [f"a test names {name}, which is no rule" for name in sorted(set(shown) - set(rules))]
    if len(pending) > MOST_NOT_BUILT:
        problems.append(f"{len(pending)} rules are said not to be built, {MOST_NOT_BUILT} were: the list only shrinks")
    elif len(pending) < MOST_NOT_BUILT:
        problems.append(f"the list of rules not built yet has shrunk: set MOST_NOT_BUILT to {len(pending)}")
    if PAGE_COPY.read_text() != page_copy():
        problems.append(f"{PAGE_COPY.relative_to(ROOT)} differs from {BEHAVIOURS.name}: python tools/rules.py --write")
    for problem in problems:
        print(problem, file=sys.stderr)
    built = [name for name in rules if name not in pending]
    print(f"rules: {len(built)} of {len(rules)} built, {sum(shown.values())} tests name them")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
