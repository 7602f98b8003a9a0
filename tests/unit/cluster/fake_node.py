"""A node that is none: listens, stops, crashes on demand. Run as a process by the supervisor's tests.

Takes orders behind its other arguments: `exit=N` ends at once with that status (`exit.node=I`: only node I),
`deaf=true` ignores SIGTERM, `holds=DIR` makes a partition's directory first, `format.error=…` fails to format.
"""

import os
import signal
import socket
import sys


def orders_of(arguments: list[str]) -> dict[str, str]:
    return dict(order.split("=", 1) for order in arguments)


def read(path: str) -> dict[str, str]:
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def format_directories(properties: dict[str, str], cluster_id: str, controllers: dict[str, str]) -> None:
    os.makedirs(properties["log.dirs"])
    with open(os.path.join(properties["log.dirs"], "meta.properties"), "w", encoding="utf-8") as file:
        directory = controllers.get(properties["node.id"], "none")
        file.write(f"version=1\ncluster.id={cluster_id}\nnode.id={properties['node.id']}\ndirectory.id={directory}\n")


def run(properties: dict[str, str], orders: dict[str, str]) -> None:
    if "holds" in orders:
        os.makedirs(os.path.join(properties["log.dirs"], orders["holds"]))
    if "exit" in orders and orders.get("exit.node") in (None, properties["node.id"]):
        print("tidelog: told to end", file=sys.stderr)
        sys.exit(int(orders["exit"]))
    deaf = orders.get("deaf") == "true"
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
    files = [argument for argument in sys.argv[2:] if argument.endswith(".properties")]
    orders = orders_of(sys.argv[2 + len(files) :])
    if sys.argv[1] == "format":
        if "format.error" in orders:
            sys.exit(f"tidelog: {orders['format.error']}")
        voters = [voter.split("@") for voter in orders["voters"].split(",")]
        directories = {node: address.rsplit(":", 1)[1] for node, address in voters}
        for path in files:
            format_directories(read(path), orders["cluster"], directories)
    else:
        run(read(files[0]), orders)
