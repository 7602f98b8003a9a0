"""The page's process: ``python -m tidelog.web --data DIR --listen-v4 FD [--listen-v6 FD]``.

The supervisor starts it for the first visitor and passes its listening sockets. It ends with the supervisor.
"""

import argparse
import asyncio
import logging
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tidelog.cluster.control import call
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.layout import ClusterDir
from tidelog.web.serving import live_page, serve


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tidelog.web", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--listen-v4", type=int, required=True, metavar="FD")
    parser.add_argument("--listen-v6", type=int, metavar="FD")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    directory = ClusterDir(options.data)
    try:
        layout = directory.load()
        if layout is None:
            raise ClusterError(f"there is no cluster in {directory}")
        # Read the token from a socket that only the owner may open: every user can read a command line.
        url = call(directory, "status")["ui"]
    except ClusterError as error:
        logging.getLogger("tidelog.web").error("%s", error.message)
        return error.status
    (token,) = parse_qs(urlsplit(url).fragment)["token"]
    sockets = [socket.socket(fileno=fd) for fd in (options.listen_v4, options.listen_v6) if fd is not None]
    asyncio.run(serve(sockets, token=token, live=live_page(directory, layout, _now_ms)))
    return 0


def _now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)  # noqa: TID251 - readers compare it with their own clocks


if __name__ == "__main__":
    sys.exit(main())
