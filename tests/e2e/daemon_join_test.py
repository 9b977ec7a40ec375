"""A wrong address costs a primary nothing: kvctl join, kvctl demote and REPLICAOF ask first who answers there."""

import socket
import threading

import pytest
from cluster_fixture import (ALONE, attempt, make_cluster, put, wait_equal,  # noqa: F401
                             wait_promotable, wait_streaming)
from cluster import free_ports


@pytest.fixture(name="silent")
def make_silent():
    """Somebody who takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture(name="chatty")
def make_chatty():
    """Somebody who speaks another protocol."""
    def serve(listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(b"220 mail.example ESMTP\r\n" * 100)
                connection.recv(100)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def test_a_primary_is_told_what_is_wrong(cluster, silent, chatty):
    node = cluster.alone()
    put(node, "kept", "value")
    wrong = [f"127.0.0.1:{free_ports(1)[0]}", f"127.0.0.1:{node.port}",
             f"127.0.0.1:{node.metrics_port}", "no-such-host.invalid:7479", silent, chatty]
    for words in (["join"], ["demote"]):
        for address in wrong:
            code, _, error = node.kvctl(*words, address)
            assert code == 1, f"{words} {address}"
            assert f"nothing has changed: no kvstored answers at {address}: " in error, error
            assert "replication_address" in error and "not its front port" in error, error
        code, _, error = node.kvctl(*words, node.replication_address)
        assert code == 1 and "is this node itself" in error, error
    code, _, error = node.kvctl("join", wrong[0], "--discard-local-data")
    assert code == 1 and "nothing has changed" in error, error
    reply = attempt(node, "REPLICAOF", "127.0.0.1", node.port)
    assert isinstance(reply, Exception) and "is this node itself" in str(reply)
    status = node.status()
    assert (status["role"], status["epoch"], status["writable"]) == ("primary", 1, True)
    assert attempt(node, "GET", "kept") == b"value"
    put(node, "kept", "still")
    assert "starting again" not in node.log_text()


def test_another_secret(cluster, tmp_path):
    nodes = []
    for name in ("first", "second"):
        secret = tmp_path / f"{name}.secret"
        secret.write_text(f"the secret of {name}")
        secret.chmod(0o600)
        nodes.append(cluster.node(name, settings=[*ALONE, f"replication.secret_file={secret}"]).start())
    for node in nodes:
        put(node, "key", "value")
    code, _, error = nodes[0].kvctl("join", nodes[1].replication_address, "--discard-local-data")
    assert code == 1 and "secret" in error, error
    assert nodes[0].status()["writable"]


def test_a_replica_keeps_its_right_to_be_promoted(cluster):
    first, second = cluster.pair()
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    code, _, error = second.kvctl("join", nobody)
    assert code == 1 and "nothing has changed" in error, error
    assert second.status()["promotable"] and second.status()["stream"] == "streaming"
    # With nothing to lose it takes any address, tries, and can be sent elsewhere.
    first.must_kvctl("member", "drop", second.status()["store"])
    second.wait("no member", lambda: not second.status().get("promotable", True))
    second.must_kvctl("join", nobody)
    assert second.status()["primary"] == nobody
    second.wait("saying what it meets", lambda: "refused" in second.status().get("stream_text", ""))
    second.must_kvctl("join", first.replication_address)
    wait_streaming(second)
    assert attempt(first, "CONFIG", "SET", "replication.ack_replicas", "1") == "OK"
    wait_promotable(second)


@pytest.mark.parametrize("shards", [1, 8])
def test_a_new_replica_takes_over_the_shards_of_its_primary(cluster, shards):
    primary = cluster.alone()
    for i in range(50):
        put(primary, f"key:{i}", f"value {i}")
    replica = cluster.node("replica", primary,
                           [*ALONE, f"server.shards={shards}", "server.threads=1"]).start()
    wait_streaming(replica)
    wait_equal(primary, replica)
    assert attempt(replica, "GET", "key:49") == b"value 49"
    replica.kill()
    replica.start()
    wait_streaming(replica)
    wait_equal(primary, replica)
