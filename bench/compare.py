#!/usr/bin/python3
"""kvstored against redis-server on this machine, with a log or replicas on both sides.

bench/compare.py [ROW...] [--rounds 7] [--quick]   rows: set received persisted sync restart

Each row has a target; exit 1 if one is missed. Absolute figures move with the machine's mood,
ratios of neighbouring rounds do not: only ratios are judged. Data directories lie on the disk
below build/ (never on a tmpfs: the rows measure what the disk confirms). See docs/performance.md.
"""

import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import cluster  # noqa: E402
import rounds  # noqa: E402
from nodes import (CLIENT_CPU, VALUE_BYTES, KvNode, RedisNode, call, cpu_seconds, fill,  # noqa: E402
                   load, wait_for)

KEY_BYTES = 16
SETS = ("--workload", "set", "--compressible")
WAIT = ("--wait", "1")


class Compare(rounds.Rounds):
    row_names = ("set", "received", "persisted", "sync", "restart")

    def row_set(self):
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
                    node, *SETS, connections=c, depth=d, operations=self.scaled(n),
                    cpu=CLIENT_CPU if pinned else None)["ops_per_s"])
            self.stop_all()

    def pairs(self, kv_settings, redis_settings):
        result = []
        for node_class, settings in ((KvNode, kv_settings), (RedisNode, redis_settings)):
            primary = self.node(node_class, "primary", settings).up()
            primary.add_replica(self.node(node_class, "replica", settings))
            result.append(primary)
        return result

    def row_received(self):
        """CPU of the primary per write that the replica has received."""
        nodes = self.pairs(["replication.ack=received", "replication.ack_replicas=1"], [])
        row = self.new_row("SET ack = received, 64 x 1, primary's CPU", "us/op", 0.75, False)

        def measure(node):
            before = cpu_seconds(node)
            words = WAIT if node.kind == "redis" else ()
            figures = load(node, *SETS, *words, connections=64, operations=self.scaled(200000))
            return (cpu_seconds(node) - before) * 1e6 / figures["operations"]

        self.alternate(nodes, row, measure)
        self.stop_all()

    def row_persisted(self):
        """Throughput of writes that both disks have confirmed."""
        nodes = self.pairs(["replication.ack=persisted", "replication.ack_replicas=1"],
                           ["--appendonly", "yes", "--appendfsync", "always"])
        for depth, count, target in ((1, 100000, 1.4), (16, 500000, 2.5)):
            row = self.new_row(f"SET ack = persisted, 64 x {depth}", "op/s", target, True)
            self.alternate(nodes, row, lambda node, d=depth, n=count: load(
                node, *SETS, *(WAIT if node.kind == "redis" else ()), connections=64, depth=d,
                operations=self.scaled(n))["ops_per_s"])
        self.stop_all()

    def row_sync(self):
        """From the start of an empty replica until it streams."""
        items = self.scaled((1 << 30) // (KEY_BYTES + self.options.sync_value_bytes))
        row = self.new_row(f"full sync of 1 GiB ({self.options.sync_value_bytes} B values)", "s", 0.4,
                           False)
        nodes = [self.node(KvNode, "primary", ["log.retain=0"], pinned=False).up(),
                 self.node(RedisNode, "primary", ["--repl-diskless-sync-delay", "0"],
                           pinned=False).up()]
        for node in nodes:
            fill(node, items, self.options.sync_value_bytes)
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

    def row_restart(self):
        """From the start of the process until every key is served again; files in the page cache."""
        items = self.scaled(5_000_000)
        row = self.new_row(f"restart with {items:,} x (16 B, 100 B)", "s", 0.25, False)
        nodes = [self.node(KvNode, "one", pinned=False).up(),
                 self.node(RedisNode, "one", ["--appendonly", "yes", "--appendfsync", "everysec"],
                           pinned=False).up()]
        for node in nodes:
            call(node, "FLUSHALL")
            fill(node, items)
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


def main():
    parser = rounds.parser_of(Compare, __doc__)
    parser.add_argument("--unpinned", action="store_true", help="row set: also without taskset")
    parser.add_argument("--sync-value-bytes", type=int, default=VALUE_BYTES)
    return rounds.main(Compare, parser)


if __name__ == "__main__":
    sys.exit(main())
