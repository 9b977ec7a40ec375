"""./tools/run --check: the promise, proven on this machine with ports and directories of its own.

Loads keys of mixed sizes with ack = persisted and one member, kills the primary with SIGKILL under load,
promotes the replica, and compares each acknowledged write byte for byte. Then the old primary starts again
and must find out by itself that it is a replica now; ack_replicas goes back to 1; both must be equal.
Exit 0 with a table of what was done, or 1 with the first difference.
"""

import argparse
import shutil
import sys
import tempfile
import time

from cluster import ROOT, Failure, Node, Resp, counting_members, free_ports
from ledger import Load, Writer, verify

WRITERS = 8


def say(text):
    print(f"[{time.monotonic() - START:5.0f} s] {text}", flush=True)


START = time.monotonic()


def load_and_kill(primary, arguments):
    """Returns the writers: what each sent and what was acknowledged."""
    writers = [Writer(range(n, arguments.keys, WRITERS)) for n in range(WRITERS)]
    loads = [Load(writer, primary.port, n) for n, writer in enumerate(writers)]

    def acknowledged():
        return sum(writer.acked_count for writer in writers)

    for load in loads:
        load.start()
    last = time.monotonic()
    while not all(load.loaded.wait(0.2) for load in loads):
        if time.monotonic() - last > 5:
            last = time.monotonic()
            say(f"  {acknowledged()} of {arguments.keys} writes acknowledged")
    loaded = acknowledged()
    # Under load: each writer is in the middle of overwriting.
    deadline = time.monotonic() + arguments.overwrite_seconds
    while time.monotonic() < deadline and not any(load.error for load in loads):
        time.sleep(0.05)
    for load in loads:
        if load.error:
            raise Failure(f"a write failed while the primary was alive: {load.error}")
    before = acknowledged()
    primary.kill()
    for load in loads:
        load.stop.set()
        load.join(60)
        if isinstance(load.error, Failure):
            raise load.error
    if before == loaded:
        raise Failure("no write was acknowledged between the loading and the kill: not under load")
    return writers


def compared(keys):
    say(f"  {keys} keys compared")


def wait_member(primary, seconds):
    primary.wait("followed by a member that streams and counts",
                 lambda: counting_members(primary.status()), seconds)


def run_check(arguments, directory, rows):
    common = ["replication.ack=persisted", "replication.ack_replicas=1", "log.sync=always",
              f"server.threads={arguments.threads}", f"server.shards={arguments.shards}",
              "memory.max_memory=3GiB"]
    ports = free_ports(6)
    nodes = []
    old = Node("node1", directory / "node1", ports[:3], common, nodes)
    new = Node("node2", directory / "node2", ports[3:],
               [*common, f"replication.primary={old.replication_address}"], nodes)
    try:
        clock = time.monotonic()

        def done(what, detail):
            nonlocal clock
            now = time.monotonic()
            rows.append((what, detail, f"{now - clock:.1f} s"))
            say(f"{what}: {detail}")
            clock = now

        old.start().wait_answering()
        new.start().wait_answering()
        wait_member(old, 120)
        done("start", "primary and replica, the replica is a member")

        writers = load_and_kill(old, arguments)
        acked = sum(w.acked_count for w in writers)
        done("load, SIGKILL under load", f"{acked} writes acknowledged, "
             f"{sum(w.acked_bytes for w in writers) / (1 << 20):.0f} MiB, "
             f"{sum(sum(w.sent.values()) for w in writers) - acked} without an answer")

        new.must_kvctl("promote", "--ack-replicas", "0")
        new.wait("a primary", lambda: new.status().get("role") == "primary", 60)
        done("promote", "kvctl promote --ack-replicas 0")

        keys, size = verify(new.port, writers, compared)
        done("verify", f"{keys} keys, {size / (1 << 20):.0f} MiB, every acknowledged write is there")

        old.start()
        old.wait("a replica", lambda: old.status().get("role") == "replica", 300)
        done("restart the old primary", "it found out that it is a replica")

        client = Resp(new.port)
        client.must("CONFIG", "SET", "replication.ack_replicas", "1")
        wait_member(new, 300)
        client.must("SET", "check:last", "acknowledged by both")
        if client.must("WAIT", "1", "10000") < 1:
            raise Failure("WAIT 1: the old primary acknowledges nothing")
        done("ack_replicas 1", "the old primary streams and counts")

        old.wait("applying the last write", lambda: Resp(old.port).call("GET", "check:last") ==
                 b"acknowledged by both", 60)
        keys, size = verify(old.port, writers, compared)
        done("verify the new replica", f"{keys} keys, {size / (1 << 20):.0f} MiB")

        for node in (new, old):
            node.stop()
        done("stop", "both ended cleanly")
    finally:
        for node in nodes:
            if node.running():
                node.kill()


def main():
    parser = argparse.ArgumentParser(prog="tools/run --check", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=200000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--overwrite-seconds", type=float, default=5)
    parser.add_argument("--keep", action="store_true", help="keep the directory of a good run")
    arguments = parser.parse_args()
    (ROOT / "run").mkdir(exist_ok=True)
    directory = ROOT / "run" / tempfile.mkdtemp(prefix="check-", dir=ROOT / "run")
    rows = []
    code = 0
    try:
        run_check(arguments, directory, rows)
    except (Failure, OSError) as failure:
        say(f"FAILED: {failure}")
        say(f"data and logs are kept in {directory.relative_to(ROOT)}")
        code = 1
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    print()
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    print(f"\n{'FAILED' if code else 'PASSED'} after {time.monotonic() - START:.0f} s", flush=True)
    if code == 0 and not arguments.keep:
        shutil.rmtree(directory)
    sys.exit(code)


if __name__ == "__main__":
    main()
