"""What is done, `[steps.*]`: SQL or functions over views, each after those that it reads."""

from tidelog.jobs.pipeline import functions
from tidelog.jobs.pipeline.mistakes import Findings, Keys, suggestion
from tidelog.jobs.pipeline.model import Step
from tidelog.jobs.pipeline.parse_sources import watermark_of
from tidelog.jobs.pipeline.surroundings import Surroundings
from tidelog.jobs.pipeline.views import tables_read


def parse_step(name: str, keys: Keys, views: list[str], where: Surroundings) -> Step:
    sql, function = keys.text("sql"), keys.text("function")
    inputs = keys.texts("inputs")
    watermark = watermark_of(keys)
    keys.done()
    if ("sql" in keys) == ("function" in keys):
        keys.wrong("", "needs either sql or function")
    known = {each.lower(): each for each in views}
    if sql is not None:
        if inputs:
            keys.wrong("inputs", "is for functions: SQL names the views that it reads")
        inputs = tuple(tables_read(sql))
        for each in inputs:
            if each.lower() not in known:
                keys.wrong("sql", f"there is no source, table or step {each}{suggestion(each, views)}")
    if function is not None:
        try:
            functions.check(function, where.file.parent)
        except functions.NoFunction as error:
            keys.wrong("function", str(error))
        if not inputs:
            keys.wrong("inputs", "is missing: the views that the function gets, in order")
        for each in inputs:
            if each.lower() not in known:
                keys.wrong("inputs", f"there is no source, table or step {each}{suggestion(each, views)}")
    named = dict.fromkeys(known[each.lower()] for each in inputs if each.lower() in known)
    # A view may be handed to a function twice; it is read once for what comes before what.
    ordered = tuple(named) if function is None else tuple(known.get(each.lower(), each) for each in inputs)
    return Step(name=name, inputs=ordered, sql=sql, function=function, watermark=watermark)


def ordered(steps: list[Step], findings: Findings) -> list[Step]:
    """Each after its inputs."""
    waiting = {each.name: each for each in steps}
    found: list[Step] = []
    while waiting:
        ready = [each for each in waiting.values() if not any(name in waiting for name in each.inputs)]
        if not ready:
            _tell_circle(waiting, findings)
            return found
        for each in ready:
            del waiting[each.name]
        found += ready
    return found


def _tell_circle(waiting: dict[str, Step], findings: Findings) -> None:
    """Whoever waits, waits for another one that does: going on from any ends in a circle."""
    way = [next(iter(waiting))]
    while True:
        following = next(name for name in waiting[way[-1]].inputs if name in waiting)
        if following in way:
            circle = [*way[way.index(following) :], following]
            key = "sql" if waiting[circle[0]].sql is not None else "inputs"
            findings.add(("steps", circle[0], key), f"reads itself: {' <- '.join(circle)}")
            return
        way.append(following)
