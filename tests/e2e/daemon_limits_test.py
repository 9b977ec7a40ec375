"""Clients that send or ask for more than there is, and what the others notice of it."""

import resource
import socket

import pytest

from cluster_fixture import Cluster, attempt
from cluster import Resp

MIB = 1 << 20
SMALL = ["memory.max_memory=256MiB", "memory.pool_size=8MiB", "log.sync=off", "log.segment_size=64MiB",
         "replication.gate_timeout=60s"]


@pytest.fixture(name="node", params=[1, 2], ids=["1 shard", "2 threads"])
def make_node(request, tmp_path):
    cluster = Cluster(tmp_path, request.param, SMALL)
    yield cluster.alone()
    cluster.close()


def connect(node):
    return socket.create_connection(("127.0.0.1", node.port), timeout=60)


def info(node, name):
    text = attempt(node, "INFO", "everything").decode()
    return next(line.split(":", 1)[1] for line in text.split("\r\n") if line.startswith(name + ":"))


def resident_bytes(node):
    with open(f"/proc/{node.process.pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def send_until_closed(sock, chunk, total_bytes):
    """How much was sent before the server closed the connection; all of it if it did not."""
    sent = 0
    try:
        while sent < total_bytes:
            sock.sendall(chunk)
            sent += len(chunk)
        sock.settimeout(0.2)
        return sent if sock.recv(1) else -sent
    except TimeoutError:
        return sent
    except OSError:
        return -sent


def test_half_sent_values_are_bounded_together(node):
    assert attempt(node, "CONFIG", "SET", "server.client_memory", "64MiB") == "OK"
    before = resident_bytes(node)
    clients = [connect(node) for _ in range(12)]
    for client in clients:
        client.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$400000000\r\n")
    chunk = b"v" * MIB
    closed = sum(send_until_closed(client, chunk, 40 * MIB) < 0 for client in clients)
    # A limit of 64 MiB: not one of all that have announced so much can have arrived.
    node.wait("fewer buffers", lambda: int(info(node, "evicted_clients")) >= 5)
    assert closed >= 1
    assert resident_bytes(node) - before < 200 * MIB
    # The others are served, and the data set is not touched.
    assert attempt(node, "SET", "a", "1") == "OK"
    assert info(node, "evicted_keys") == "0"
    for client in clients:
        client.close()
    node.wait("memory back", lambda: int(info(node, "used_memory")) < 8 * MIB)


def test_no_evict_is_spared(node):
    spared = Resp(node.port, timeout=60)
    assert spared.call("CLIENT", "NO-EVICT", "ON") == "OK"
    assert attempt(node, "CONFIG", "SET", "server.client_memory", "8MiB") == "OK"
    spared.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (20 * MIB) + b"v" * (12 * MIB))
    other = connect(node)
    other.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (20 * MIB))
    node.wait("the other one to be closed",
              lambda: send_until_closed(other, b"v" * MIB, 4 * MIB) <= 0 or int(info(node, "evicted_clients")) > 0)
    spared.send(b"v" * (8 * MIB) + b"\r\n")
    assert spared.read() == "OK"
    assert attempt(node, "STRLEN", "k") == 20 * MIB


def test_a_client_that_never_reads_costs_little(node):
    assert attempt(node, "SET", "large", "x" * MIB) == "OK"
    assert attempt(node, "SET", "small", "x" * 1000) == "OK"
    before = resident_bytes(node)
    lazy = [connect(node) for _ in range(4)]
    for client, key in zip(lazy, [b"large", b"small", b"large", b"small"]):
        client.setblocking(False)
        request = b"*2\r\n$3\r\nGET\r\n$5\r\n%s\r\n" % key * 1000
        sent = 0
        for _ in range(2000):
            try:
                sent += client.send(request)
            except BlockingIOError:
                break
    assert attempt(node, "PING") == "PONG"
    assert resident_bytes(node) - before < 64 * MIB
    # Whoever begins to read gets everything in order.
    lazy[1].setblocking(True)
    replies = lazy[1].makefile("rb")
    for _ in range(1000):
        assert replies.readline() == b"$1000\r\n"
        assert replies.read(1002) == b"x" * 1000 + b"\r\n"
    for client in lazy:
        client.close()


def test_http_is_not_served(node):
    for request in [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"POST / HTTP/1.1\r\n\r\nSET a b\r\n"]:
        with connect(node) as sock:
            sock.sendall(request)
            reply = b""
            try:
                while data := sock.recv(4096):
                    reply += data
            except ConnectionResetError:
                pass
            assert not reply.startswith(b"HTTP")
    assert attempt(node, "EXISTS", "a") == 0


def test_many_idle_connections(node):
    count = 10_000
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 200:
        pytest.skip(f"ulimit -Hn is {hard}: too few descriptors for {count} connections")
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 200, hard))
    idle = []
    try:
        assert attempt(node, "CONFIG", "SET", "maxclients", str(count + 10)) == "OK"
        before = resident_bytes(node)
        for _ in range(count):
            idle.append(connect(node))
        node.wait("all of them", lambda: int(info(node, "connected_clients")) >= count)
        assert (resident_bytes(node) - before) / count < 4096
        assert attempt(node, "SET", "a", "1") == "OK"
        idle[-1].sendall(b"PING\r\n")
        assert idle[-1].recv(100) == b"+PONG\r\n"
    finally:
        for sock in idle:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    node.wait("all gone", lambda: int(info(node, "connected_clients")) < 100)


def test_maxclients(node):
    first = Resp(node.port)
    node.wait("nobody else", lambda: b"\nconnected_clients:1\r" in b"\n" + first.call("INFO", "clients"))
    assert first.call("CONFIG", "SET", "maxclients", "3") == "OK"
    held = [connect(node) for _ in range(2)]
    for sock in held:
        sock.sendall(b"PING\r\n")
        assert sock.recv(100) == b"+PONG\r\n"
    with connect(node) as refused:
        assert refused.recv(100) == b"-ERR max number of clients reached\r\n"
    for sock in held:
        sock.close()
    node.wait("room for one more", lambda: attempt(node, "PING") == "PONG")


def test_before_the_password_little_is_accepted(tmp_path):
    password = tmp_path / "password"
    password.write_text("correct horse battery staple")
    password.chmod(0o600)
    cluster = Cluster(tmp_path, 1, SMALL)
    try:
        node = cluster.node("node", settings=["replication.ack_replicas=0", f"security.password_file={password}"]).start()

        def answers():
            try:
                with connect(node) as sock:
                    sock.sendall(b"PING\r\n")
                    return sock.recv(100) == b"-NOAUTH Authentication required.\r\n"
            except OSError:
                return False  # not listening yet

        node.wait("asking for the password", answers)
        for request, reply in [(b"*11\r\n", b"-ERR Protocol error: unauthenticated multibulk length\r\n"),
                               (b"*2\r\n$3\r\nGET\r\n$16385\r\n", b"-ERR Protocol error: unauthenticated bulk length\r\n")]:
            with connect(node) as sock:
                sock.sendall(request)
                assert sock.recv(200) == reply
                assert sock.recv(1) == b""
    finally:
        cluster.close()
