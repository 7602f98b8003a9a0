"""A node that is none: listens, stops, crashes on demand. Run as a process by the supervisor's tests.

Its server.properties gives it orders: `fake.exit=N` ends at once with that status (`fake.exit.node=I`: only node I),
`fake.deaf=true` ignores SIGTERM, `fake.format.error=…` fails to format.
"""

import os
import signal
import socket
import sys


def read(path: str) -> dict[str, str]:
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def format_directories(properties: dict[str, str], cluster_id: str, controllers: dict[str, str]) -> None:
    if "fake.format.error" in properties:
        sys.exit(f"tidelog: {properties['fake.format.error']}")
    os.makedirs(properties["log.dirs"])
    with open(os.path.join(properties["log.dirs"], "meta.properties"), "w", encoding="utf-8") as file:
        directory = controllers.get(properties["node.id"], "none")
        file.write(f"version=1\ncluster.id={cluster_id}\nnode.id={properties['node.id']}\ndirectory.id={directory}\n")


def run(properties: dict[str, str]) -> None:
    if "fake.exit" in properties and properties.get("fake.exit.node") in (None, properties["node.id"]):
        print("tidelog: told to end", file=sys.stderr)
        sys.exit(int(properties["fake.exit"]))
    deaf = properties.get("fake.deaf") == "true"
    # Blocked and waited for: a handler is missed when the signal comes just before its thread falls asleep.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    host, port = properties["listeners"].split(",")[0].removeprefix("PLAINTEXT://").rsplit(":", 1)
    server.bind((host, int(port)))
    server.listen()
    print(f"started node.id={properties['node.id']}", flush=True)
    signal.sigwait(() if deaf else {signal.SIGTERM})


if __name__ == "__main__":
    if sys.argv[1] == "format":
        voters = [voter.split("@") for voter in sys.argv[3].split(",")]
        directories = {node: address.rsplit(":", 1)[1] for node, address in voters}
        for path in sys.argv[4:]:
            format_directories(read(path), sys.argv[2], directories)
    else:
        run(read(sys.argv[2]))
