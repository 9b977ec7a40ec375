"""A primary and a replica on loopback, with data under ./run/, until Ctrl-C. Part of tools/run."""

import signal
import sys
import time

from cluster import LOCALHOST, ROOT, Failure, Node, counting_members

FIRST_PORTS = (7379, 7479, 9479)
SECOND_PORTS = (7380, 7480, 9480)


def say(text):
    print(text, flush=True)


def nodes():
    common = ["replication.ack=persisted", "replication.ack_replicas=1", "server.threads=1",
              "server.shards=4", "memory.max_memory=1GiB"]
    both = []
    first = Node("node1", ROOT / "run" / "node1", FIRST_PORTS, common, both)
    # The address counts for a new directory only; later starts take roles from the data.
    second = Node("node2", ROOT / "run" / "node2", SECOND_PORTS,
                  [*common, f"replication.primary={first.replication_address}"], both)
    return first, second


def wait_for_roles(first, second):
    """Returns (primary, replica) once the replica streams and counts."""
    found = []

    def settled():
        for primary, replica in ((first, second), (second, first)):
            if counting_members(primary.status()):
                found[:] = [primary, replica]
        return found

    start = time.monotonic()
    next_word = start + 5

    def settled_with_progress():
        nonlocal next_word
        if time.monotonic() > next_word:
            next_word += 5
            say(f"run: waiting for the replica, {time.monotonic() - start:.0f} s: "
                f"{first.name} is {first.status().get('role', 'not answering')}, "
                f"{second.name} is {second.status().get('role', 'not answering')}")
        return settled()

    first.wait("followed by a streaming replica", settled_with_progress, seconds=600)
    return found


def describe(primary, replica):
    say("")
    for role, node in (("primary", primary), ("replica", replica)):
        say(f"  {role}  {node.name}  clients {LOCALHOST}:{node.port}  replication "
            f"{node.replication_address}  metrics http://{LOCALHOST}:{node.metrics_port}/metrics  "
            f"pid {node.process.pid}")
    say(f"\nTry:\n"
        f"  redis-cli -p {primary.port} SET greeting hello\n"
        f"  redis-cli -p {replica.port} GET greeting\n"
        f"  build/bin/kvctl status --port {primary.port}\n"
        f"\nFail over: kill -9 {primary.process.pid} && build/bin/kvctl promote --ack-replicas 0 "
        f"--port {replica.port}\n"
        f"Ctrl-C ends both; the next ./tools/run goes on with the same data.")


def watch(both):
    """Until Ctrl-C; a node that ends is told with the command that starts it again."""
    told = set()
    while True:
        time.sleep(0.5)
        for node in both:
            if not node.running() and node.name not in told:
                told.add(node.name)
                say(f"\n{node.name} ended (exit {node.process.returncode}). To start it again, in "
                    f"another terminal:\n  {node.shell_command()}")
        if len(told) == len(both):
            raise Failure("both nodes have ended")


def main():
    def interrupt(_signal, _frame):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    first, second = nodes()
    both = (first, second)
    code = 0
    try:
        say("run: starting two nodes with data under ./run/")
        for node in both:
            node.start()
        describe(*wait_for_roles(first, second))
        watch(both)
    except KeyboardInterrupt:
        say("\nrun: ending both nodes")
    except Failure as failure:
        say(f"run: {failure}")
        code = 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The primary first: its clients get their last replies while the replica still acknowledges.
    for node in sorted(both, key=lambda n: n.status().get("role") != "primary"):
        try:
            node.stop()
        except Failure as failure:
            say(f"run: {failure}")
            code = 1
    sys.exit(code)


main()
