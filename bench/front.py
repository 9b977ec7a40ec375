#!/usr/bin/python3
"""kvstored against redis-server without log syncs and replicas: what a command and what an item costs.

bench/front.py [ROW...] [--rounds 7] [--quick]   rows: 100b 1kib 16kib 1mib memory

The server is pinned to one core, kvbench to another. Judged is the CPU time of the server's process per
operation (/proc/PID/stat, user and system): kvbench needs about as much as a server, so operations a
second say as much about it as about them. kvstored writes its log (log.sync = off), Redis keeps none.
memcached, if it is installed, is measured beside them and not judged. Exit 1 if a target is missed; see
docs/performance.md.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import rounds  # noqa: E402
from nodes import MEMCACHED, KvNode, MemcachedNode, RedisNode, fill, load  # noqa: E402

KINDS = [KvNode, RedisNode, *([MemcachedNode] if MEMCACHED else [])]
CONNECTIONS = 50
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def process_cpu_s(node):
    """User and system time of all its threads, those that have ended included: proc(5), fields 14 and 15."""
    text = Path(f"/proc/{node.process.pid}/stat").read_text()
    fields = text.rpartition(")")[2].split()  # the first one is field 3
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def resident_bytes(node):
    text = Path(f"/proc/{node.process.pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) * 1024


class Front(rounds.Rounds):
    row_names = ("100b", "1kib", "16kib", "1mib", "memory")

    def start(self, node_class, *kv_settings):
        settings = ["log.sync=off", *kv_settings] if node_class is KvNode else []
        return self.node(node_class, "one", settings).up()

    def cpu_rows(self, size, value_bytes, keys, shapes):
        """Rows (workload, depth, operations, target) over the same data."""
        servers = [self.start(each) for each in KINDS]
        for node in servers:
            fill(node, keys, value_bytes)
        for workload, depth, count, target in shapes:
            row = self.new_row(f"{workload.upper()} {size}, {CONNECTIONS} x {depth}, server's CPU",
                               "us/op", target, False)

            def measure(node, words=(workload, depth, count)):
                before = process_cpu_s(node)
                figures = load(node, "--workload", words[0], "--distribution", "zipfian", keys=keys,
                               value_bytes=value_bytes, connections=CONNECTIONS, depth=words[1],
                               operations=self.scaled(words[2]))
                return (process_cpu_s(node) - before) * 1e6 / figures["operations"]

            self.alternate(servers, row, measure)
        self.stop_all()

    def small_rows(self, size, value_bytes, keys):
        self.cpu_rows(size, value_bytes, keys,
                      [(workload, depth, count, target) for depth, count, target in
                       ((1, 300_000, 0.85), (16, 2_000_000, 0.5)) for workload in ("get", "set")])

    def row_100b(self):
        """GET and SET of 100 B, depth 1 and 16."""
        self.small_rows("100 B", 100, self.scaled(1_000_000))

    def row_1kib(self):
        """GET and SET of 1 KiB, depth 1 and 16."""
        self.small_rows("1 KiB", 1024, self.scaled(1_000_000))

    def row_16kib(self):
        """GET and SET of 16 KiB, depth 16."""
        self.cpu_rows("16 KiB", 16 << 10, self.scaled(20_000),
                      [("get", 16, 200_000, 0.65), ("set", 16, 200_000, 0.65)])

    def row_1mib(self):
        """GET of 1 MiB."""
        self.cpu_rows("1 MiB", 1 << 20, 200, [("get", 1, 10_000, 0.85)])

    def row_memory(self):
        """Resident bytes of the whole process per item, just loaded; kvstored starts with 64 MiB."""
        for count, value_bytes, target in ((5_000_000, 100, 0.75), (1_000_000, 1024, 0.85)):
            items = self.scaled(count)
            row = self.new_row(f"memory of {items:,} x (16 B, {value_bytes:,} B)", "B/item", target,
                               False)

            def measure(node_class, words=(items, value_bytes)):
                node = self.start(node_class, "memory.pool_size=64MiB")
                fill(node, *words)
                per_item = resident_bytes(node) / words[0]
                self.stop_all()
                return per_item

            self.alternate(KINDS, row, measure, warm_up=False)


if __name__ == "__main__":
    sys.exit(rounds.main(Front, rounds.parser_of(Front, __doc__)))
