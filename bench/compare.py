#!/usr/bin/python3
"""kvstored against redis-server on this machine: ratios, medians of alternating rounds.

bench/compare.py [ROW...] [--rounds 7] [--quick]   rows: set received persisted sync restart

Each row has a target; exit 1 if one is missed. Absolute figures move with the machine's mood,
ratios of neighbouring rounds do not: only ratios are judged. Data directories lie on the disk
below build/ (never on a tmpfs: the rows measure what the disk confirms). See docs/performance.md.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import cluster  # noqa: E402

REDIS = shutil.which("redis-server") or "/usr/bin/redis-server"
SERVER_CPU, CLIENT_CPU = "0", "1"
VALUE_BYTES = 100
KEY_BYTES = 16


class KvNode(cluster.Node):
    """A kvstored on ports of its own; `cpus` None: wherever the kernel puts it."""

    kind = "kvstored"

    def __init__(self, name, directory, cpus, settings=()):
        super().__init__(name, directory / name, cluster.free_ports(3),
                         ["log.checkpoint_interval=0", *settings])
        self.cpus = cpus

    def command(self, *more):
        words = super().command(*more)
        return words if self.cpus is None else ["taskset", "-c", self.cpus, *words]

    def up(self):
        self.start()
        # Not "writable": one that asks for a member has none yet.
        self.wait("serving", lambda: (lambda s: s.get("epoch") and not s["loading"])(self.status()))
        return self

    def add_replica(self, replica):
        replica.settings.append(f"replication.primary={self.replication_address}")
        replica.start()
        self.wait("streaming", lambda: len(cluster.counting_members(self.status())) == 1)


class RedisNode:
    """A redis-server with the same handles. Its AOF is never rewritten: that would be to its cost."""

    kind = "redis"

    def __init__(self, name, directory, cpus, settings=()):
        self.directory = directory / name
        self.name = name
        self.port = cluster.free_ports(1)[0]
        self.cpus = cpus
        self.settings = list(settings)
        self.process = None

    def start(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        words = [REDIS, "--port", str(self.port), "--bind", cluster.LOCALHOST, "--daemonize", "no",
                 "--dir", str(self.directory), "--save", "", "--logfile",
                 str(self.directory / "redis.log"), "--auto-aof-rewrite-percentage", "0",
                 *self.settings]
        if self.cpus is not None:
            words = ["taskset", "-c", self.cpus, *words]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True,
                                        stdout=subprocess.DEVNULL, preexec_fn=cluster.die_with_parent)
        return self

    def up(self):
        self.start()
        wait_for(lambda: call(self, "PING") == "PONG", "redis answers")
        return self

    def add_replica(self, replica):
        replica.settings += ["--replicaof", f"{cluster.LOCALHOST} {self.port}"]
        replica.start()
        wait_for(lambda: redis_link_is_up(replica), "redis' replica streams")

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def kill(self):
        self.process.kill()
        self.process.wait()


def call(node, *words):
    """One command on a connection of its own; None while nobody answers, text if it is an error."""
    try:
        client = cluster.Resp(node.port, timeout=30)
    except OSError:
        return None
    try:
        reply = client.call(*words)
        return str(reply) if isinstance(reply, Exception) else reply
    except OSError:
        return None
    finally:
        client.close()


def redis_link_is_up(node):
    return b"master_link_status:up" in (call(node, "INFO", "replication") or b"")


def wait_for(condition, what, seconds=300, interval=0.005):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise cluster.Failure(f"not within {seconds} s: {what}")
        time.sleep(interval)


def load(node, *words, cpu=CLIENT_CPU, **options):
    """One run of bench/loadgen against the node; its figures."""
    command = ["taskset", "-c", cpu] if cpu is not None else []
    command += [str(cluster.BIN / "loadgen"), "--port", str(node.port), *words]
    for name, value in {"value-bytes": VALUE_BYTES, **options}.items():
        command += ["--" + name.replace("_", "-"), str(value)]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if result.returncode != 0:
        raise cluster.Failure(f"{node.kind}: {' '.join(command)} failed")
    return json.loads(result.stdout)


def cpu_seconds(node):
    """CPU time of all threads so far, from the scheduler's nanoseconds."""
    total = 0
    for task in Path(f"/proc/{node.process.pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


class Row:
    """One line of the table: ours/theirs of each round, judged by their median."""

    def __init__(self, name, unit, target, at_least):
        self.name, self.unit, self.target, self.at_least = name, unit, target, at_least
        self.ours, self.theirs = [], []

    @property
    def ratio(self):
        return statistics.median(a / b for a, b in zip(self.ours, self.theirs))

    @property
    def good(self):
        return self.ratio >= self.target if self.at_least else self.ratio <= self.target

    def text(self):
        ratios = sorted(a / b for a, b in zip(self.ours, self.theirs))
        return (f"{self.name:52} {statistics.median(self.ours):11,.1f} "
                f"{statistics.median(self.theirs):11,.1f} {self.unit:8} "
                f"{self.ratio:6.3f} ({ratios[0]:.2f}-{ratios[-1]:.2f}) "
                f"{'>=' if self.at_least else '<='} {self.target:<5} "
                f"{'ok' if self.good else 'MISSED'}")


HEAD = f"{'':52} {'kvstored':>11} {'redis':>11} {'':8} {'ratio':>6} (least-most) target"


class Bench:
    def __init__(self, options):
        self.options = options
        self.directory = Path(options.directory).resolve()
        self.rows = []
        self.live = []

    def say(self, text):
        print(text, file=sys.stderr, flush=True)

    def scaled(self, count):
        return max(count // 10, 200) if self.options.quick else count

    def node(self, node_class, name, settings=(), pinned=True):
        cpus = SERVER_CPU if pinned else None
        directory = self.directory / node_class.kind
        node = node_class(name, directory, cpus, settings)
        self.live.append(node)
        return node

    def stop_all(self):
        for node in self.live:
            if node.process is not None and node.process.poll() is None:
                node.kill()
        self.live = []
        shutil.rmtree(self.directory, ignore_errors=True)

    def alternate(self, nodes, row, measure, warm_up=True):
        """row gets measure(node) of each, in pairs; each round begins with the other one."""
        for node in nodes if warm_up else ():
            measure(node)
        for number in range(self.options.rounds):
            for node in nodes if number % 2 == 0 else reversed(nodes):
                (row.ours if node.kind == "kvstored" else row.theirs).append(measure(node))
            self.say(f"  {row.name}: {row.ours[-1]:,.1f} / {row.theirs[-1]:,.1f} {row.unit} = "
                     f"{row.ours[-1] / row.theirs[-1]:.3f}")

    def new_row(self, *words):
        self.rows.append(Row(*words))
        return self.rows[-1]

    def set_row(self):
        """SET 100 B, each confirmed by the disk, no replica."""
        for pinned in ([True, False] if self.options.unpinned else [True]):
            where = "server on one core" if pinned else "not pinned"
            nodes = [self.node(KvNode, "one", pinned=pinned).up(),
                     self.node(RedisNode, "one", ["--appendonly", "yes", "--appendfsync", "always"],
                               pinned=pinned).up()]
            for connections, depth, count, target in ((1, 1, 15000, 1.2), (64, 1, 200000, 1.25),
                                                      (64, 16, 1000000, 2.0)):
                row = self.new_row(f"SET always synced, {connections} x {depth}, {where}", "op/s",
                                   target, True)
                self.alternate(nodes, row, lambda node, c=connections, d=depth, n=count: load(
                    node, connections=c, depth=d, operations=self.scaled(n),
                    cpu=CLIENT_CPU if pinned else None)["ops_per_s"])
            self.stop_all()

    def pairs(self, kv_settings, redis_settings):
        result = []
        for node_class, settings in ((KvNode, kv_settings), (RedisNode, redis_settings)):
            primary = self.node(node_class, "primary", settings).up()
            primary.add_replica(self.node(node_class, "replica", settings))
            result.append(primary)
        return result

    def received_row(self):
        """CPU of the primary per write that the replica has received."""
        nodes = self.pairs(["replication.ack=received", "replication.ack_replicas=1"], [])
        row = self.new_row("SET ack = received, 64 x 1, primary's CPU", "us/op", 0.75, False)

        def measure(node):
            before = cpu_seconds(node)
            words = ["--wait"] if node.kind == "redis" else []
            figures = load(node, *words, connections=64, operations=self.scaled(200000))
            return (cpu_seconds(node) - before) * 1e6 / figures["operations"]

        self.alternate(nodes, row, measure)
        self.stop_all()

    def persisted_row(self):
        """Throughput of writes that both disks have confirmed."""
        nodes = self.pairs(["replication.ack=persisted", "replication.ack_replicas=1"],
                           ["--appendonly", "yes", "--appendfsync", "always"])
        for depth, count, target in ((1, 100000, 1.4), (16, 500000, 2.5)):
            row = self.new_row(f"SET ack = persisted, 64 x {depth}", "op/s", target, True)
            self.alternate(nodes, row, lambda node, d=depth, n=count: load(
                node, *(["--wait"] if node.kind == "redis" else []), connections=64, depth=d,
                operations=self.scaled(n))["ops_per_s"])
        self.stop_all()

    def fill(self, node, items, value_bytes=VALUE_BYTES):
        load(node, "--sequential", connections=16, depth=64, operations=items, keys=items,
             value_bytes=value_bytes, cpu=None)

    def sync_row(self):
        """From the start of an empty replica until it streams."""
        items = self.scaled((1 << 30) // (KEY_BYTES + self.options.sync_value_bytes))
        row = self.new_row(f"full sync of 1 GiB ({self.options.sync_value_bytes} B values)", "s", 0.4,
                           False)
        nodes = [self.node(KvNode, "primary", ["log.retain=0"], pinned=False).up(),
                 self.node(RedisNode, "primary", ["--repl-diskless-sync-delay", "0"],
                           pinned=False).up()]
        for node in nodes:
            self.fill(node, items, self.options.sync_value_bytes)
        nodes[0].must_kvctl("checkpoint")  # the log no longer reaches back: no catch-up from it

        def measure(node):
            replica = self.node(type(node), "replica", pinned=False)
            began = time.monotonic()
            if node.kind == "kvstored":
                replica.settings.append(f"replication.primary={node.replication_address}")
                replica.start()
                wait_for(lambda: len(cluster.streaming_replicas(node.status())) == 1, "full sync")
            else:
                node.add_replica(replica)
            took = time.monotonic() - began
            size = call(replica, "DBSIZE")
            if size != call(node, "DBSIZE"):
                raise cluster.Failure(f"{node.kind}: the replica has {size} keys after the sync")
            if node.kind == "kvstored" and "full sync: complete" not in replica.log_tail(50):
                raise cluster.Failure(f"that was no full sync:\n{replica.log_tail(50)}")
            replica.kill()
            shutil.rmtree(replica.directory)
            return took

        self.alternate(nodes, row, measure, warm_up=False)
        self.stop_all()

    def restart_row(self):
        """From the start of the process until every key is served again; files in the page cache."""
        items = self.scaled(5_000_000)
        row = self.new_row(f"restart with {items:,} x (16 B, 100 B)", "s", 0.25, False)
        nodes = [self.node(KvNode, "one", pinned=False).up(),
                 self.node(RedisNode, "one", ["--appendonly", "yes", "--appendfsync", "everysec"],
                           pinned=False).up()]
        for node in nodes:
            call(node, "FLUSHALL")
            self.fill(node, items)
            node.stop()

        def measure(node):
            began = time.monotonic()
            node.start()
            wait_for(lambda: call(node, "DBSIZE") == items, "all keys are back")
            took = time.monotonic() - began
            node.stop()
            return took

        self.alternate(nodes, row, measure)
        self.stop_all()

    def run(self):
        rows = {"set": self.set_row, "received": self.received_row, "persisted": self.persisted_row,
                "sync": self.sync_row, "restart": self.restart_row}
        for name in self.options.rows or rows:
            self.say(f"{name}: {rows[name].__doc__.splitlines()[0]}")
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory.mkdir(parents=True)
            rows[name]()
        print(HEAD)
        for row in self.rows:
            print(row.text())
        return 0 if all(row.good for row in self.rows) else 1


def file_system(path):
    return subprocess.run(["stat", "-f", "-c", "%T", path], stdout=subprocess.PIPE,
                          check=True).stdout.decode().strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*",
                        choices=[[], "set", "received", "persisted", "sync", "restart"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: to try, not to quote")
    parser.add_argument("--unpinned", action="store_true", help="row set: also without taskset")
    parser.add_argument("--sync-value-bytes", type=int, default=VALUE_BYTES)
    parser.add_argument("--directory", default=str(cluster.ROOT / "build" / "bench-data"))
    options = parser.parse_args()
    os.makedirs(options.directory, exist_ok=True)
    if file_system(options.directory) in ("tmpfs", "ramfs"):
        parser.error(f"{options.directory} is on a tmpfs; choose --directory on the disk")
    bench = Bench(options)
    try:
        return bench.run()
    except cluster.Failure as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 2
    finally:
        bench.stop_all()


if __name__ == "__main__":
    sys.exit(main())
