#!/usr/bin/python3
"""What a full sync costs the primary in memory while writes go on.

bench/sync_memory.py [--mib 2048] [--writes-per-s 10000] [--limit-mib 64]

Loads the primary with values of 1,000 B, overwrites them at an even rate, and starts an empty
replica. Judged is the primary's resident memory: the most during the sync against the most before
it, with the same writes. The replica itself compares the states at the end and says that they are equal.
Exit 1 if the limit is passed or the rate was not kept.
"""

import argparse
import random
import shutil
import socket
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import cluster  # noqa: E402
import nodes  # noqa: E402

VALUE_BYTES = 1000
ITEM_BYTES = 1016
BURST = 100


def resident_mib(node):
    text = Path(f"/proc/{node.process.pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


class Writer(threading.Thread):
    """Overwrites random keys: a burst each BURST / rate seconds, each answered before the next."""

    def __init__(self, port, keys, rate):
        super().__init__(daemon=True)
        self.socket = socket.create_connection((cluster.LOCALHOST, port))
        self.interval = BURST / rate
        value = b"w" * VALUE_BYTES
        numbers = random.Random(1)
        self.bursts = [b"".join(b"*3\r\n$3\r\nSET\r\n$16\r\nkey:%012d\r\n$%d\r\n%s\r\n" %
                                (numbers.randrange(keys), VALUE_BYTES, value) for _ in range(BURST))
                       for _ in range(1000)]
        self.done = 0
        self.stopping = False

    def run(self):
        due = time.monotonic()
        while not self.stopping:
            self.socket.sendall(self.bursts[self.done // BURST % len(self.bursts)])
            left = 5 * BURST  # "+OK\r\n"
            while left:
                part = self.socket.recv(65536)
                if not part or b"-" in part:
                    return
                left -= len(part)
            self.done += BURST
            due += self.interval
            time.sleep(max(0, due - time.monotonic()))


def run(options, directory):
    keys = options.mib * (1 << 20) // ITEM_BYTES
    primary = nodes.KvNode("primary", directory, None,
                             ["log.retain=0", "memory.max_memory=6gb"]).up()
    replica = nodes.KvNode("replica", directory, None, ["memory.max_memory=6gb"])
    try:
        nodes.fill(primary, keys, VALUE_BYTES)
        primary.must_kvctl("checkpoint")  # the log no longer reaches back
        writer = Writer(primary.port, keys, options.writes_per_s)
        writer.start()
        before = 0.0
        until = time.monotonic() + options.warm_up_s  # fills the backlog
        while time.monotonic() < until:
            before = max(before, resident_mib(primary))
            time.sleep(0.05)
        primary.must_kvctl("checkpoint")
        written, began = writer.done, time.monotonic()
        replica.settings.append(f"replication.primary={primary.replication_address}")
        replica.start()
        most = before
        while not cluster.streaming_replicas(primary.status()):
            most = max(most, resident_mib(primary))
            if time.monotonic() - began > 600:
                raise cluster.Failure("the replica does not stream after 600 s")
            time.sleep(0.02)
        took = time.monotonic() - began
        rate = (writer.done - written) / took
        writer.stopping = True
        if "states are equal" not in replica.log_text():
            raise cluster.Failure(f"that was no full sync:\n{replica.log_tail(30)}")
        extra = most - before
        kept = rate >= 0.95 * options.writes_per_s
        print(f"full sync of {options.mib} MiB in {took:.1f} s beside {rate:,.0f} writes/s: "
              f"{extra:.1f} MiB of memory (limit {options.limit_mib}), states equal"
              f"{'' if kept else '; THE RATE WAS NOT KEPT'}")
        return 0 if extra <= options.limit_mib and kept else 1
    finally:
        for node in (primary, replica):
            if node.process is not None and node.process.poll() is None:
                node.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--writes-per-s", type=int, default=10000)
    parser.add_argument("--limit-mib", type=float, default=64)
    parser.add_argument("--warm-up-s", type=float, default=15)
    parser.add_argument("--directory", default=str(cluster.ROOT / "build" / "bench-data"))
    options = parser.parse_args()
    directory = Path(options.directory).resolve()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    try:
        return run(options, directory)
    except cluster.Failure as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
