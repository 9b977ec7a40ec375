"""memory.max_memory on real processes: what goes at the limit, that changing sizes strand nothing, and that the
replica holds what the primary holds."""

import re
import socket
import urllib.request

import pytest

from cluster_fixture import Cluster, attempt, wait_equal, wait_serving
from cluster import Resp

MIB = 1 << 20
SMALL = ["memory.max_memory=64MiB", "memory.pool_size=8MiB", "log.sync=off", "log.segment_size=16MiB",
         "replication.gate_timeout=60s"]  # much is written; a busy disk is not what is asked here


def write_all(port, size, total_bytes, prefix):
    """Pipelined SETs of new keys; the replies that are not OK."""
    count = total_bytes // size
    bad = {}
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        replies = sock.makefile("rb")
        for begin in range(0, count, 200):
            keys = [b"%s:%d" % (prefix, i) for i in range(begin, min(begin + 200, count))]
            sock.sendall(b"".join(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(key), key, size, b"v" * size)
                                  for key in keys))
            for _ in keys:
                reply = replies.readline()
                if reply != b"+OK\r\n":
                    bad[reply] = bad.get(reply, 0) + 1
    return bad


def info(node):
    text = attempt(node, "INFO", "everything")
    text = text.decode() if isinstance(text, bytes) else text
    return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)


@pytest.mark.parametrize("shards", [1, 4])
def test_keys_go_at_the_limit_and_the_replica_follows(tmp_path, shards):
    cluster = Cluster(tmp_path, shards, SMALL)
    try:
        first, second = cluster.pair("memory.eviction=allkeys-lru")
        assert attempt(first, "SET", "first", "v") == "OK"
        for index, size in enumerate([200, 3000, 70]):
            assert write_all(first.port, size, 48 * MIB, b"round%d" % index) == {}
        figures = info(first)
        assert int(figures["used_memory"]) <= 64 * MIB
        assert int(figures["evicted_keys"]) > 10_000
        assert attempt(first, "GET", "first") is None or attempt(first, "EXISTS", "first") == 0
        wait_equal(first, second)
        assert attempt(first, "DBSIZE") == attempt(second, "DBSIZE")
    finally:
        cluster.close()


def test_changing_sizes_strand_nothing(tmp_path):
    cluster = Cluster(tmp_path, 2, SMALL)
    try:
        node = cluster.alone("memory.eviction=allkeys-lru")
        held = []
        for index, size in enumerate([100, 2000, 64, 9000, 300, 30000, 150, 5000, 80, 600]):
            total_bytes = (72 if index == 0 else 36) * MIB
            assert write_all(node.port, size, total_bytes, b"size%d" % index) == {}
            held.append(int(info(node)["pool_used_bytes"]))
        # Chunks of 2 MiB, of two shards; without moving items together it is twice as much.
        assert max(held) < 64 * MIB * 3 // 2, held
        assert held[-1] < held[0] * 11 // 10 + 8 * MIB, held
    finally:
        cluster.close()


def test_without_a_policy_writes_are_refused_and_the_policy_changes_at_run_time(tmp_path):
    cluster = Cluster(tmp_path, 2, SMALL)
    try:
        node = cluster.alone()
        bad = write_all(node.port, 1000, 80 * MIB, b"key")
        assert list(bad) == [b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"]
        assert attempt(node, "GET", "key:0") is not None
        assert not node.status()["writable"]
        # Nothing that has no expiry may go.
        assert attempt(node, "CONFIG", "SET", "maxmemory-policy", "volatile-lru") == "OK"
        assert str(attempt(node, "SET", "probe", "v" * 100_000)).startswith("OOM ")
        assert attempt(node, "CONFIG", "SET", "maxmemory-policy", "allkeys-lfu") == "OK"
        assert attempt(node, "SET", "probe", "v" * 1_000_000) == "OK"
        assert isinstance(attempt(node, "OBJECT", "FREQ", "probe"), int)
        # A lowered limit is reached without any command.
        assert attempt(node, "CONFIG", "SET", "maxmemory", "48mb") == "OK"
        node.wait("below its limit", lambda: int(info(node)["used_memory"]) <= 48 * MIB)
        assert int(info(node)["evicted_keys"]) > 1000
    finally:
        cluster.close()


def test_figures_are_exported(tmp_path):
    cluster = Cluster(tmp_path, 2, SMALL)
    try:
        node = cluster.alone()
        assert write_all(node.port, 100, 2 * MIB, b"key") == {}

        def figures():
            with urllib.request.urlopen(f"http://127.0.0.1:{node.metrics_port}/metrics", timeout=30) as page:
                return page.read().decode()

        count = 2 * MIB // 100
        node.wait("its figures", lambda: f"kvstored_keys {count}" in figures())
        text = figures()
        slabs = sum(int(float(value)) for value in re.findall(r'^kvstored_slab_bytes\{.*\} (\S+)$', text, re.M))
        assert slabs > 2 * MIB
        assert re.search(r'^kvstored_slab_free_bytes\{slot_bytes="\d+"\} ', text, re.M)
        assert re.search(r'^kvstored_slab_waste_bytes\{slot_bytes="\d+"\} ', text, re.M)
    finally:
        cluster.close()


def test_a_start_with_less_memory_than_data(tmp_path):
    """max_memory was raised at run time and the file not changed: the node starts, and evicts down to it."""
    cluster = Cluster(tmp_path, 4, SMALL)
    try:
        node = cluster.alone("memory.eviction=allkeys-lfu")
        assert attempt(node, "CONFIG", "SET", "memory.max_memory", "256MiB") == "OK"
        assert write_all(node.port, 500_000, 200 * MIB, b"key") == {}
        assert int(info(node)["used_memory"]) > 180 * MIB
        node.kill()
        node.start()
        wait_serving(node)
        node.wait("below its limit", lambda: int(info(node)["used_memory"]) <= 64 * MIB)
        assert attempt(node, "DBSIZE") > 50
        assert attempt(node, "SET", "one", "more") == "OK"
    finally:
        cluster.close()


def test_batches_that_are_larger_than_the_backlog_break_no_link(tmp_path):
    cluster = Cluster(tmp_path, 4, ["memory.max_memory=48MiB", "memory.pool_size=8MiB",
                                       "replication.gate_timeout=60s"])
    try:
        first, second = cluster.pair("memory.eviction=allkeys-lru")
        for index in range(4):
            assert write_all(first.port, 60_000, 30 * MIB, b"round%d" % index) == {}
        wait_equal(first, second)
        assert "not written yet" not in first.log_file.read_text(errors="replace")
        assert attempt(first, "DBSIZE") == attempt(second, "DBSIZE")
    finally:
        cluster.close()


def test_no_touch_leaves_no_trace(tmp_path):
    cluster = Cluster(tmp_path, 4, SMALL)
    try:
        node = cluster.alone()
        quiet, other = Resp(node.port), Resp(node.port)
        assert quiet.call("CLIENT", "NO-TOUCH", "ON") == "OK"
        assert quiet.call("SET", "key", "v") == "OK"

        def idle_seconds():
            assert quiet.call("GET", "key") == b"v"
            return other.call("OBJECT", "IDLETIME", "key")

        node.wait("two seconds without a use", lambda: idle_seconds() >= 2)
        # In one batch, so that no time passes between the two.
        other.send(Resp.encode("GET", "key") + Resp.encode("OBJECT", "IDLETIME", "key"))
        assert other.read() == b"v"
        assert other.read() < 2
        quiet.close()
        other.close()
    finally:
        cluster.close()
