"""Values larger than the replication ring and than a record: replicated, recovered, cut off in the middle."""

import hashlib
import threading

import pytest
from cluster_fixture import (ALONE, attempt, make_cluster, promote, put, wait_equal,  # noqa: F401
                             wait_follows, wait_serving, wait_streaming)
from cluster import Resp

MIB = 1 << 20
# A slow disk may need longer for 100 MiB than clients are made to wait by default.
PATIENT = ["replication.gate_timeout=300s", "replication.commit_timeout=60s"]
LARGE = {"20": 20 * MIB + 1, "100": 100 * MIB + 13}


def value(name, version):
    """Bytes that say where they belong: no part of one value may pass for a part of another."""
    size = LARGE[name]
    block = b"".join(hashlib.sha256(b"%s/%d/%d" % (name.encode(), version, i)).digest()
                     for i in range(1 << 15))
    return (block * (size // len(block) + 1))[:size]


def check(node, name, *allowed):
    found = Resp(node.port, timeout=120).must("GET", name)
    assert found in allowed, f"{name} on {node.name}: {len(found or b'')} bytes of another content"
    return found


def test_large_values_are_replicated(cluster):
    settings = [*PATIENT, "memory.max_memory=1GiB", "log.segment_size=64MiB"]
    first, second = cluster.pair(*settings)
    client = Resp(first.port, timeout=120)
    versions = {name: value(name, 1) for name in LARGE}
    for name, content in versions.items():
        assert client.must("SET", name, content) == "OK"
    # An acknowledged large value is at the member: it is there without the primary.
    wait_equal(first, second)
    for name, content in versions.items():
        check(second, name, content)
    # The primary dies while a new version is on its way: the old one or the new one, whole.
    newer = {name: value(name, 2) for name in LARGE}
    client.send(client.encode("SET", "20", newer["20"]))
    late = threading.Thread(target=lambda: try_send(first, client.encode("SET", "100", newer["100"])))
    late.start()
    acked = client.read() == "OK"
    first.kill()
    late.join()
    promote(second)
    kept = {"20": check(second, "20", newer["20"], *([] if acked else [versions["20"]])),
            "100": check(second, "100", versions["100"], newer["100"])}
    put(second, "after", "promotion")
    # A run of parts that was cut short here has no effect at its end either.
    first.start()
    wait_follows(first, second)
    for name, content in kept.items():
        check(first, name, content)
    assert attempt(first, "GET", "after") == b"promotion"


def try_send(node, data):
    try:
        Resp(node.port, timeout=120).send(data)
    except OSError:
        pass  # it was killed meanwhile


def test_large_values_while_the_replica_is_away(cluster):
    """Catch-up from the log and the next start bring parts and links as they were."""
    first, second = cluster.learner(*PATIENT, "memory.max_memory=1GiB", "log.segment_size=64MiB")
    second.kill()
    client = Resp(first.port, timeout=120)
    content = value("20", 1)
    for turn in range(3):
        assert client.must("SET", f"20:{turn}", content) == "OK"
    second.start()
    wait_streaming(second)
    wait_equal(first, second)
    for turn in range(3):
        assert Resp(second.port, timeout=120).must("GET", f"20:{turn}") == content
    second.kill()
    second.start()
    wait_streaming(second)
    wait_equal(first, second)
    assert Resp(second.port, timeout=120).must("GET", "20:2") == content


def change_in_a_loop(node, command, errors):
    """Changes a part of `large` again and again until told to stop; returns that and the thread."""
    stop = threading.Event()

    def loop():
        try:
            client = Resp(node.port, timeout=120)
            count = 0
            while not stop.is_set():
                reply = client.call(*[str(count) if word == "N" else word for word in command])
                if isinstance(reply, Exception):
                    raise reply
                count += 1
        except Exception as error:  # pylint: disable=broad-except
            errors.append(error)

    thread = threading.Thread(target=loop)
    thread.start()

    def end():
        stop.set()
        thread.join()

    return end


def large_of(node):
    client = Resp(node.port, timeout=120)
    return client.must("GET", "large"), client.must("PEXPIRETIME", "large")


CHANGES = [["APPEND", "large", "y"], ["SETRANGE", "large", "N", "z"], ["SETBIT", "large", "N", "1"],
           ["EXPIREAT", "large", "4000000000"]]


@pytest.mark.parametrize("command", CHANGES, ids=[words[0] for words in CHANGES])
def test_checkpoint_of_a_large_value_that_changes(cluster, command):
    node = cluster.alone(*PATIENT)
    client = Resp(node.port, timeout=120)
    client.must("SET", "large", bytes(8 * MIB))
    errors = []
    end = change_in_a_loop(node, command, errors)
    for _ in range(3):
        node.must_kvctl("checkpoint")
    end()
    assert not errors
    before = large_of(node)
    node.kill()
    node.start()
    wait_serving(node)
    assert large_of(node) == before


@pytest.mark.parametrize("command", CHANGES[:2], ids=[words[0] for words in CHANGES[:2]])
def test_full_sync_of_a_large_value_that_changes(cluster, command):
    first = cluster.alone(*PATIENT, "log.retain=0")
    client = Resp(first.port, timeout=120)
    client.must("SET", "large", bytes(32 * MIB))
    for i in range(200):
        client.must("SET", f"filler:{i}", bytes(MIB // 4))
    first.must_kvctl("checkpoint")
    errors = []
    end = change_in_a_loop(first, command, errors)
    second = cluster.node("second", first, [*ALONE, *PATIENT]).start()
    wait_streaming(second)
    end()
    assert not errors
    wait_equal(first, second)
    assert large_of(second) == large_of(first)
    assert "differs from the primary" not in second.log_text()
