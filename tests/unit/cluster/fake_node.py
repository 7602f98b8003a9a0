"""A node that is none: listens, stops, crashes on demand. Run as a process by the supervisor's tests.

Its server.properties gives it orders: `fake.exit=N` ends at once with that status, `fake.deaf=true` ignores SIGTERM,
`fake.format.error=…` fails to format.
"""

import os
import signal
import socket
import sys
import threading


def read(path: str) -> dict[str, str]:
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def format_directories(properties: dict[str, str], cluster_id: str) -> None:
    if "fake.format.error" in properties:
        sys.exit(f"tidelog: {properties['fake.format.error']}")
    os.makedirs(properties["log.dirs"])
    with open(os.path.join(properties["log.dirs"], "meta.properties"), "w", encoding="utf-8") as file:
        file.write(f"version=1\ncluster.id={cluster_id}\nnode.id={properties['node.id']}\n")


def run(properties: dict[str, str]) -> None:
    if "fake.exit" in properties:
        print("tidelog: told to end", file=sys.stderr)
        sys.exit(int(properties["fake.exit"]))
    deaf = properties.get("fake.deaf") == "true"
    signal.signal(signal.SIGTERM, signal.SIG_IGN if deaf else lambda *_: os._exit(0))
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    host, port = properties["listeners"].split(",")[0].removeprefix("PLAINTEXT://").rsplit(":", 1)
    server.bind((host, int(port)))
    server.listen()
    print(f"started node.id={properties['node.id']}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    orders = read(sys.argv[2])
    if sys.argv[1] == "format":
        format_directories(orders, sys.argv[3])
    else:
        run(orders)
