"""The tools of bench/: the load generator against real nodes, and how compare.py judges; no speed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from cluster import BIN, ROOT, Node, Resp, counting_members, free_ports  # noqa: E402

sys.path.insert(0, str(ROOT / "bench"))
import compare  # noqa: E402

SMALL = ["memory.max_memory=256MiB", "memory.pool_size=16MiB", "log.segment_size=8MiB"]


@pytest.fixture(name="start")
def start_node(tmp_path):
    made = []

    def start(name, *settings):
        node = Node(name, tmp_path / name, free_ports(3), [*SMALL, *settings])
        made.append(node)
        node.start()
        return node

    yield start
    for node in made:
        if node.running():
            node.kill()


def loadgen(node, *words):
    result = subprocess.run([BIN / "loadgen", "--port", str(node.port), *words],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
    return result.returncode, json.loads(result.stdout), result.stderr.decode()


def test_loads_every_key_and_reads_them(start):
    node = start("node")
    node.wait("writable", lambda: node.status().get("writable"))
    code, figures, _ = loadgen(node, "--sequential", "--connections", "4", "--depth", "16",
                               "--operations", "3000", "--keys", "3000", "--value-bytes", "33")
    assert code == 0
    assert figures["operations"] >= 3000 and figures["errors"] == 0 and figures["seconds"] > 0
    client = Resp(node.port)
    assert client.must("DBSIZE") == 3000
    assert client.must("GET", "key:000000002999") == b"v" * 33
    code, figures, _ = loadgen(node, "--get", "--connections", "4", "--depth", "8", "--operations",
                               "2000", "--keys", "4000")
    assert code == 0 and figures["operations"] >= 2000
    assert client.must("DBSIZE") == 3000
    # WAIT that no replica answers is no success, and neither is a refused write.
    code, figures, error = loadgen(node, "--wait", "--wait-ms", "10", "--operations", "3")
    assert code == 1 and figures["short_waits"] == 3 and "no replica" in error
    client.must("CONFIG", "SET", "replication.ack_replicas", "1", "replication.ack", "received")
    node.wait("refusing", lambda: node.status().get("no_replicas"))
    code, figures, error = loadgen(node, "--operations", "2")
    assert code == 1 and figures["errors"] == 2 and "NOREPLICAS" in error


@pytest.mark.parametrize("arguments,text", [
    (["--bogus"], "unknown option '--bogus'"), (["--port", "many"], "--port needs a whole number"),
])
def test_bad_usage_is_exit_2_and_one_line(arguments, text):
    result = subprocess.run([BIN / "loadgen", *arguments], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, timeout=30, check=False)
    assert (result.returncode, result.stdout, result.stderr.decode()) == (2, b"",
                                                                          f"loadgen: {text}\n")


def test_waits_for_a_replica(start):
    primary = start("primary", "replication.ack=received", "replication.ack_replicas=1")
    primary.wait_answering()
    start("replica", f"replication.primary={primary.replication_address}")
    primary.wait("streaming", lambda: counting_members(primary.status()))
    code, figures, error = loadgen(primary, "--wait", "--connections", "2", "--depth", "4",
                                   "--operations", "200")
    assert code == 0, error
    assert figures["short_waits"] == 0


def test_judges_by_the_median_of_ratios():
    row = compare.Row("a row", "op/s", 1.2, True)
    row.ours, row.theirs = [13, 100, 11], [10, 10, 10]
    assert row.ratio == 1.3 and row.good
    row.target = 1.4
    assert not row.good and "MISSED" in row.text()
    row = compare.Row("a time", "s", 0.4, False)
    row.ours, row.theirs = [3.9, 3, 9], [10, 10, 10]
    assert row.ratio == 0.39 and row.good and "ok" in row.text()
