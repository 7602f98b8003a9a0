"""`page`: a trace of a simulation in a browser. `up` serves the page of a cluster."""

import json
import secrets
from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.options import Json, example
from tidelog.cli.output import CommandFailed, note
from tidelog.cli.session import cluster_errors, run_async


def register(app: typer.Typer) -> None:
    app.command(epilog=example("tidelog sim --replay 17 --trace 17.jsonl", "tidelog page 17.jsonl"))(page)


def page(
    trace: Annotated[
        Path, typer.Argument(metavar="TRACE", help="File that `tidelog sim --replay SEED --trace FILE` wrote.")
    ],
    ui_port: Annotated[int, typer.Option("--ui-port", min=1, max=65535, help="Port of the page.")] = 8080,
    as_json: Json = False,
) -> None:
    """Open a trace of `tidelog sim` in a browser, step by step, forward and back. Needs no cluster; ctrl-C ends it."""
    from tidelog.cluster.ports import listen_on_loopback
    from tidelog.web.serving import serve
    from tidelog.web.trace import BadTrace, Playback

    try:
        with trace.open("rb") as lines:
            given = Playback(lines)
    except OSError as error:
        raise CommandFailed(f"cannot read {trace}: {error.strerror}") from error
    except BadTrace as error:
        raise CommandFailed(f"{trace}: {error}", 2) from error
    sockets = cluster_errors(lambda: listen_on_loopback(ui_port))
    token = secrets.token_urlsafe(18)
    ready = {"ui": f"http://127.0.0.1:{ui_port}/#token={token}", "trace": str(trace)}
    print(json.dumps(ready) if as_json else f"ready ui={ready['ui']} trace={trace}", flush=True)
    note("ctrl-C ends it")
    run_async(serve(sockets, token=token, given=given))
