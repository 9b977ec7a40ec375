"""What a real node tells of its commands and its stalls: SLOWLOG, LATENCY, MONITOR, INFO, metrics."""

import re
import sys
import urllib.request
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from cluster import Node, Resp, free_ports  # noqa: E402

SETTINGS = ["memory.max_memory=256MiB", "memory.pool_size=16MiB", "log.segment_size=8MiB",
            "log.sync=interval", "security.debug_command=local"]


@pytest.fixture(name="node", scope="module", params=[1, 4], ids=["1 shard", "4 shards"])
def make_node(request, tmp_path_factory):
    node = Node("node", tmp_path_factory.mktemp("watch"), free_ports(3),
                [*SETTINGS, f"server.shards={request.param}",
                 f"server.threads={min(request.param, 2)}"]).start()
    node.wait("writable", lambda: node.status().get("writable"))
    yield node
    node.stop()


@pytest.fixture(name="client")
def make_client(node):
    client = Resp(node.port)
    client.must("CONFIG", "SET", "slowlog-log-slower-than", "10000")
    client.must("CONFIG", "SET", "latency-monitor-threshold", "0")
    client.must("SLOWLOG", "RESET")
    client.must("LATENCY", "RESET")
    yield client
    client.close()


def logged(client, name):
    return [entry for entry in client.must("SLOWLOG", "GET", "-1") if entry[3][0] == name]


def of_commands(node, name):
    """A figure of stalls by commands. A thread that was also preempted while it slept counts as descheduled."""
    url = f"http://127.0.0.1:{node.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    return [float(re.search(rf'^{name}{{cause="{cause}"}} (\S+)$', text, re.MULTILINE).group(1))
            for cause in ("commands", "descheduled")]


def test_the_slow_one_of_a_pipeline_is_named(client):
    client.must("CLIENT", "SETNAME", "pipeliner")
    names = ["GET", "GET", "GET", "DEBUG", "GET", "GET", "GET"]
    client.send(b"".join(Resp.encode(name, *(["SLEEP", "0.05"] if name == "DEBUG" else ["k"]))
                         for name in names))
    for _ in names:
        client.read()
    entries = logged(client, b"DEBUG")
    assert len(entries) == 1
    _, _, microseconds, words, address, name = entries[0]
    assert microseconds >= 50_000
    assert words == [b"DEBUG", b"SLEEP", b"0.05"]
    assert address.startswith(b"127.0.0.1:") and name == b"pipeliner"


def test_every_command_with_a_threshold_of_nothing(client):
    client.must("CONFIG", "SET", "slowlog-log-slower-than", "0")
    for i in range(5):
        client.must("SET", f"key:{i}", "v")
    client.must("CONFIG", "SET", "slowlog-log-slower-than", "-1")
    assert [entry[3][1] for entry in logged(client, b"SET")] == [b"key:%d" % i for i in (4, 3, 2, 1, 0)]
    assert client.must("CONFIG", "GET", "slowlog-log-slower-than")[1] == b"-1"
    assert client.must("CONFIG", "GET", "latency.slowlog_threshold")[1] == b"off"


def test_a_stall_is_counted_and_told(node, client):
    before = sum(of_commands(node, "kvstored_stalls_total"))
    client.must("CONFIG", "SET", "latency-monitor-threshold", "20")
    client.must("DEBUG", "SLEEP", "0.04")
    # Counted at the end of the round that sent the reply.
    node.wait("stall", lambda: sum(of_commands(node, "kvstored_stalls_total")) > before)
    assert max(of_commands(node, "kvstored_stall_max_seconds")) >= 0.04
    events = {event[0]: event for event in client.must("LATENCY", "LATEST")}
    assert events[b"command"][3] >= 40
    assert b"command - high " in client.must("LATENCY", "GRAPH", "command")
    assert b"1. command: 1 latency spikes" in client.must("LATENCY", "DOCTOR")
    assert client.must("LATENCY", "RESET", "command") == 1


def test_info_sections(client):
    client.must("CONFIG", "RESETSTAT")
    for _ in range(100):
        client.must("GET", "k")
    for _ in range(2):
        assert "not an integer" in str(client.call("INCRBY", "k", "x"))
    text = client.must("INFO", "all").decode()
    assert re.search(r"^latency_percentiles_usec_get:p50=\d+\.\d{3},p99=\d+\.\d{3},p99\.9=\d+\.\d{3}\r$",
                     text, re.MULTILINE)
    assert re.search(r"^errorstat_ERR:count=2\r$", text, re.MULTILINE)
    histogram = client.must("LATENCY", "HISTOGRAM", "get")
    assert histogram[0] == b"get" and histogram[1][:2] == [b"calls", 100]
    assert histogram[1][3][-1] == 100


def test_monitor(node, client):
    monitors = [Resp(node.port) for _ in range(2)]  # one on each thread
    for monitor in monitors:
        assert monitor.must("MONITOR") == "OK"
    client.must("SET", "k", b"\x00\xff\"")
    for monitor in monitors:
        line = monitor.read()
        assert re.fullmatch(r'\d+\.\d{6} \[0 127\.0\.0\.1:\d+\] "SET" "k" "\\x00\\xff\\""', line), line
        monitor.close()
