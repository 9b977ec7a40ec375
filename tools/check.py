"""./tools/run --check: the promise, proven on this machine with ports and directories of its own.

Loads keys of mixed sizes with ack = persisted and one member, kills the primary with SIGKILL under load,
promotes the replica, and compares each acknowledged write byte for byte. Then the old primary starts again
and must find out by itself that it is a replica now; ack_replicas goes back to 1; both must be equal.
Exit 0 with a table of what was done, or 1 with the first difference.
"""

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time

from cluster import ROOT, Failure, Node, Resp, counting_members, free_ports

WORKERS = 8
PIPELINE = 16
BLOCK = random.Random(7).randbytes(3 << 20)
KIB = 1024


def say(text):
    print(f"[{time.monotonic() - START:5.0f} s] {text}", flush=True)


START = time.monotonic()


def key_of(index):
    return b"check:%d" % index


def size_of(index):
    """16 B to 1 MiB: mostly small, each size class there from a few hundred keys on."""
    dice = random.Random(index)
    share = index % 1000
    if share < 900:
        return dice.randint(16, 512)
    if share < 990:
        return dice.randint(512, 16 * KIB)
    if share < 999:
        return dice.randint(64 * KIB, 256 * KIB)
    return 1024 * KIB


def value_of(index, version):
    """The bytes that version `version` of a key has: named in front, then a part of one random block."""
    size = size_of(index)
    name = b"%d/%d/" % (index, version)
    offset = (index * 7919 + version * 104729) % (1 << 20)
    return (name + BLOCK[offset:offset + size])[:size]


class Worker(threading.Thread):
    """Owns the keys index % WORKERS == number: writes each once, then overwrites until the primary dies."""

    def __init__(self, number, port, key_count):
        super().__init__(daemon=True)
        self.indexes = list(range(number, key_count, WORKERS))
        self.port = port
        self.dice = random.Random(number)
        self.acked = {}     # index -> newest acknowledged version
        self.sent = {}      # index -> newest version that was sent
        self.acked_count = 0
        self.acked_bytes = 0
        self.loaded = threading.Event()
        self.stop = threading.Event()
        self.error = None

    def batches(self):
        for at in range(0, len(self.indexes), PIPELINE):
            yield self.indexes[at:at + PIPELINE]
        self.loaded.set()
        while not self.stop.is_set():
            # Mostly small values: the load after the loading is about many writes, not about bytes.
            yield [i for i in self.dice.choices(self.indexes, k=PIPELINE) if i % 1000 < 990]

    def run(self):
        try:
            client = Resp(self.port)
            for batch in self.batches():
                versions = []
                commands = []
                for index in batch:
                    version = self.sent.get(index, 0) + 1
                    self.sent[index] = version
                    versions.append((index, version))
                    commands.append(Resp.encode("SET", key_of(index), value_of(index, version)))
                client.send(b"".join(commands))
                for index, version in versions:
                    reply = client.read()
                    if isinstance(reply, Exception):
                        raise Failure(f"SET {key_of(index).decode()}: {reply}")
                    self.acked[index] = version
                    self.acked_count += 1
                    self.acked_bytes += size_of(index)
        except (OSError, ConnectionError) as error:
            if not self.stop.is_set():
                self.error = error
        except Failure as failure:
            self.error = failure
        finally:
            self.loaded.set()


def describe(value):
    return "nothing" if value is None else f"{len(value)} bytes starting {value[:40]!r}"


def verify(port, workers):
    """Compares every key; returns (keys, bytes). An in-flight write may be there or not."""
    client = Resp(port)
    keys = bytes_read = 0
    last = time.monotonic()
    for worker in workers:
        todo = [index for index in worker.indexes if index in worker.sent]
        for at in range(0, len(todo), PIPELINE):
            part = todo[at:at + PIPELINE]
            client.send(b"".join(Resp.encode("GET", key_of(index)) for index in part))
            for index in part:
                value = client.read()
                if isinstance(value, Exception):
                    raise Failure(f"GET {key_of(index).decode()}: {value}")
                acked, sent = worker.acked.get(index, 0), worker.sent[index]
                allowed = [value_of(index, v) for v in range(max(acked, 1), sent + 1)]
                if not (value in allowed or (value is None and acked == 0)):
                    raise Failure(f"first difference: {key_of(index).decode()}: acknowledged was "
                                  f"version {acked}, {describe(allowed[0])}; found "
                                  f"{describe(value)}")
                keys += 1
                bytes_read += len(value or b"")
            if time.monotonic() - last > 10:
                last = time.monotonic()
                say(f"  {keys} keys compared")
    client.close()
    return keys, bytes_read


def load_and_kill(primary, arguments):
    workers = [Worker(n, primary.port, arguments.keys) for n in range(WORKERS)]
    for worker in workers:
        worker.start()
    last = time.monotonic()
    while not all(worker.loaded.wait(0.2) for worker in workers):
        if time.monotonic() - last > 5:
            last = time.monotonic()
            say(f"  {sum(w.acked_count for w in workers)} of {arguments.keys} writes acknowledged")
    loaded = sum(w.acked_count for w in workers)
    # Under load: each worker is in the middle of overwriting.
    deadline = time.monotonic() + arguments.overwrite_seconds
    while time.monotonic() < deadline and not any(w.error for w in workers):
        time.sleep(0.05)
    for worker in workers:
        if worker.error:
            raise Failure(f"a write failed while the primary was alive: {worker.error}")
    before = sum(w.acked_count for w in workers)
    for worker in workers:
        worker.stop.set()
    primary.kill()
    for worker in workers:
        worker.join(60)
        if isinstance(worker.error, Failure):
            raise worker.error
    if before == loaded:
        raise Failure("no write was acknowledged between the loading and the kill: not under load")
    return workers


def wait_member(primary, seconds):
    primary.wait("followed by a member that streams and counts",
                 lambda: counting_members(primary.status()), seconds)


def run_check(arguments, directory, rows):
    common = ["replication.ack=persisted", "replication.ack_replicas=1", "log.sync=always",
              f"server.threads={arguments.threads}", f"server.shards={arguments.shards}",
              "memory.max_memory=3GiB"]
    ports = free_ports(6)
    old = Node("node1", directory / "node1", ports[:3], common)
    new = Node("node2", directory / "node2", ports[3:],
               [*common, f"replication.primary={old.replication_address}"])
    nodes = (old, new)
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

        workers = load_and_kill(old, arguments)
        acked = sum(w.acked_count for w in workers)
        done("load, SIGKILL under load", f"{acked} writes acknowledged, "
             f"{sum(w.acked_bytes for w in workers) / (1 << 20):.0f} MiB, "
             f"{sum(sum(w.sent.values()) for w in workers) - acked} without an answer")

        new.must_kvctl("promote", "--ack-replicas", "0")
        new.wait("a primary", lambda: new.status().get("role") == "primary", 60)
        done("promote", "kvctl promote --ack-replicas 0")

        keys, size = verify(new.port, workers)
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
        keys, size = verify(old.port, workers)
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
