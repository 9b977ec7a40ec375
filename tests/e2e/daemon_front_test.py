"""The front port of a real node: depth, odd and extreme arguments. Clients unmodified: clients/."""

import hashlib
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from cluster import Node, Resp, free_ports  # noqa: E402

SMALL = ["memory.max_memory=512MiB", "memory.pool_size=16MiB", "log.segment_size=16MiB",
         "log.sync=interval"]


def start(directory, settings, shards=1):
    node = Node("node", directory, free_ports(3),
                [*settings, f"server.shards={shards}", f"server.threads={min(shards, 2)}"]).start()
    node.wait("writable", lambda: node.status().get("writable"))
    return node


@pytest.fixture(name="node", scope="module", params=[1, 4], ids=["1 shard", "4 shards"])
def make_node(request, tmp_path_factory):
    node = start(tmp_path_factory.mktemp("front"), SMALL, request.param)
    yield node
    node.stop()


@pytest.fixture(name="client")
def make_client(node):
    client = Resp(node.port)
    client.must("FLUSHALL")
    yield client
    client.close()


def info(client, section):
    text = client.must("INFO", section).decode()
    return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)


def test_a_million_commands_in_one_pipeline(client):
    count = 1_000_000
    one = Resp.encode("INCR", "counter")

    def send():
        for _ in range(100):
            client.send(one * (count // 100))

    sender = threading.Thread(target=send)
    sender.start()
    last = 0
    for i in range(count):
        last = int(client.stream.readline()[1:])
        assert last == i + 1
    sender.join()
    assert client.must("GET", "counter") == str(count).encode()


def test_inline_commands(client):
    client.send(b"SET a 'x y'\r\nGET a\nPING\r\n\r\nAPPEND a \"\\x41\"\r\nSTRLEN a\r\n")
    assert [client.read() for _ in range(5)] == ["OK", b"x y", "PONG", 4, 4]


def test_many_arguments(client):
    keys = [f"key:{i}" for i in range(100_000)]
    pairs = [word for key in keys for word in (key, "v")]
    assert client.must("MSET", *pairs) == "OK"
    assert client.must("MGET", *keys) == [b"v"] * len(keys)
    assert client.must("DEL", *keys) == len(keys)
    client.send(b"*1048577\r\n")
    assert "Protocol error: invalid multibulk length" in str(client.read())
    with pytest.raises(ConnectionError):
        client.read()


def test_empty_keys_and_values(client):
    client.must("SET", "", "")
    assert client.must("GET", "") == b""
    assert client.must("MSET", "", "x", "y", "") == "OK"
    assert client.must("MGET", "", "y") == [b"x", b""]
    assert client.must("APPEND", "y", "") == 0
    assert client.must("RENAME", "", "z") == "OK"
    assert client.must("EXISTS", "", "z") == 1


def test_the_longest_key(client):
    longest, longer = "k" * 65_535, "k" * 65_536
    client.must("SET", longest, "v")
    assert client.must("MGET", longest) == [b"v"]
    assert client.must("KEYS", "*") == [longest.encode()]
    assert client.must("RENAME", longest, "short") == "OK"
    for words in [("SET", longer, "v"), ("GET", longer), ("MSET", "a", "1", longer, "v"),
                  ("RENAME", "short", longer), ("DEL", "a", longer), ("WATCH", longer)]:
        reply = client.call(*words)
        assert str(reply) == "ERR key is longer than 65535 bytes", words[0]
    assert client.must("DBSIZE") == 1


def test_figures_are_there_from_the_first_command(client):
    client.must("SET", "a", "1")
    assert int(info(client, "memory")["used_memory"]) > 0
    stats = info(client, "stats")
    assert int(stats["total_net_input_bytes"]) > 0
    assert int(stats["total_net_output_bytes"]) > 0
    misses = int(stats["keyspace_misses"])
    client.must("SET", "absent", "1")
    client.must("GET", "no such key")
    assert int(info(client, "stats")["keyspace_misses"]) == misses + 1


def test_values_to_512_mib(tmp_path):
    node = start(tmp_path, ["memory.max_memory=2GiB", "memory.pool_size=16MiB",
                            "log.sync=interval"])
    try:
        client = Resp(node.port, timeout=300)
        block = bytes(range(256)) * 4096
        value = block * 512
        assert len(value) == 512 << 20
        digest = hashlib.sha256(value).hexdigest()
        client.send(b"*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%d\r\n" % len(value))
        client.send(value)
        client.send(b"\r\n")
        del value
        assert client.read() == "OK"
        assert hashlib.sha256(client.must("GET", "big")).hexdigest() == digest
        assert str(client.call("APPEND", "big", "x")) == (
            "ERR string exceeds maximum allowed size (proto-max-bulk-len)")
        assert client.must("GETRANGE", "big", (512 << 20) - 4, -1) == b"\xfc\xfd\xfe\xff"
        client.send(b"*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%d\r\n" % ((512 << 20) + 1))
        assert "invalid bulk length" in str(client.read())
        node.kill()
        node.start()
        node.wait("writable", lambda: node.status().get("writable"))
        client = Resp(node.port, timeout=300)
        assert client.must("STRLEN", "big") in (512 << 20, 0)
    finally:
        node.stop()


def test_more_threads_than_shards(tmp_path):
    def node_with(threads):
        return Node("node", tmp_path, free_ports(3),
                    [*SMALL, "server.shards=2", f"server.threads={threads}"]).start()

    refused = node_with(4)
    assert refused.process.wait(60) == 1
    assert "set threads to at most 2" in refused.log_tail()
    node = node_with(2)
    node.wait("writable", lambda: node.status().get("writable"))
    assert info(Resp(node.port), "server")["threads"] == "2"
    node.stop()
    # The directory says 2 shards now, whatever is configured.
    node.settings[-2:] = ["server.shards=4", "server.threads=4"]
    node.start()
    node.wait("writable", lambda: node.status().get("writable"))
    assert info(Resp(node.port), "server")["threads"] == "2"
    assert "2 threads run" in node.log_file.read_text()
    node.stop()
