"""One real kvstored: start, errors of starting, pages, systemd's messages, clean end, data kept."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import check_metrics  # noqa: E402
from cluster import BIN, ROOT, Failure, Node, Resp, free_ports  # noqa: E402

SMALL = ["memory.max_memory=256MiB", "memory.pool_size=16MiB", "log.segment_size=8MiB"]


@pytest.fixture(name="make", params=[1, 4], ids=["1 shard", "4 shards"])
def make_node(request, tmp_path):
    made = []

    def make(name="node", settings=(), ports=None):
        threads = min(request.param, 2)
        node = Node(name, tmp_path / name, ports or free_ports(3),
                    [*SMALL, f"server.shards={request.param}", f"server.threads={threads}",
                     *settings])
        made.append(node)
        return node

    yield make
    for node in made:
        if node.running():
            node.kill()


def ends(node):
    """Starts a node that must refuse to run; what it says."""
    node.start()
    code = node.wait_end()
    assert code > 0, f"exit {code}: a clear error, not a crash"
    return node.log_tail()


def page(node, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{node.metrics_port}{path}",
                                    timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_serves_and_keeps_its_data(make):
    node = make().start()
    node.wait("ready", lambda: page_or_none(node) == 200)
    client = Resp(node.port)
    assert client.must("PING") == "PONG"
    for i in range(100):
        client.must("SET", f"key:{i}", f"value {i}")
    client.must("MULTI")
    client.must("SET", "a", "1")
    client.must("SET", "b", "2")
    assert client.must("EXEC") == ["OK", "OK"]
    node.stop()
    node.start()
    node.wait("ready", lambda: page_or_none(node) == 200)
    client = Resp(node.port)
    assert client.must("DBSIZE") == 102
    assert client.must("GET", "key:99") == b"value 99"
    node.kill()
    node.start()
    node.wait("ready", lambda: page_or_none(node) == 200)
    assert Resp(node.port).must("GET", "b") == b"2"


def test_log_that_short_lives_leave_behind_asks_for_a_checkpoint(make):
    node = make(settings=["log.checkpoint_log_size=4MiB", "log.checkpoint_interval=0"])

    def checkpoints():
        return list((node.directory / "data").glob("set-*/*.ckpt"))

    for life in range(3):
        node.start()
        node.wait("ready", lambda: page_or_none(node) == 200)
        client = Resp(node.port)
        assert not checkpoints(), "before the limit"
        for i in range(15 if life < 2 else 40):
            client.must("SET", f"key:{i}", "v" * 100_000)
        node.wait("checkpoint", checkpoints) if life == 2 else node.kill()


def page_or_none(node):
    try:
        return page(node, "/readyz")[0]
    except OSError:
        return None


def test_pages(make):
    node = make().start()
    node.wait("ready", lambda: page_or_none(node) == 200)
    assert page(node, "/healthz")[0] == 200
    text = page(node, "/metrics")[1]
    assert check_metrics.complaints(text) == []
    assert check_metrics.missing(text) == []
    assert page(node, "/other")[0] == 404


def test_says_when_writes_are_refused(make):
    """It serves reads, so it is ready; but who asks is told."""
    node = make(settings=["replication.ack_replicas=1"]).start()
    node.wait("refusing writes", lambda: page_or_none(node) == 200 and
              "epoch 1; writes are refused: the member set is incomplete" in page(node, "/readyz")[1])
    assert "\nkvstored_writable 0\n" in page(node, "/metrics")[1]
    status = node.status()
    assert status["writable"] is False and "-NOREPLICAS" in status["refuses_writes"]
    assert any(line.split() == ["refuses", "writes", *status["refuses_writes"].split()]
               for line in node.must_kvctl("status").splitlines())
    Resp(node.port).must("CONFIG", "SET", "replication.ack_replicas", "0")
    node.wait("accepting writes", lambda: node.status().get("writable"))
    assert node.status()["refuses_writes"] == ""
    assert "\nkvstored_writable 1\n" in page(node, "/metrics")[1]
    assert "refused" not in page(node, "/readyz")[1]


def test_status_and_config(make):
    node = make().start()
    node.wait("ready", lambda: page_or_none(node) == 200)
    status = node.status()
    assert status["role"] == "primary"
    assert [s["shard"] for s in status["shards"]] == list(range(len(status["shards"])))
    client = Resp(node.port)
    assert client.must("CONFIG", "GET", "maxmemory") == [b"maxmemory", b"268435456"]
    client.must("CONFIG", "SET", "server.timeout", "1h")
    assert client.must("CONFIG", "GET", "timeout") == [b"timeout", b"3600"]
    node.must_kvctl("checkpoint")
    code, _, error = node.kvctl("member", "drop", "nobody")
    assert code == 1 and "nobody" in error


def test_the_least_memory(make):
    """What is said to be allowed runs, with everything else at its default."""
    node = make(settings=["memory.max_memory=32MiB"])
    node.settings = [s for s in node.settings if not s.startswith("memory.pool_size")
                     and s != "memory.max_memory=256MiB"]
    node.start()
    node.wait("ready", lambda: page_or_none(node) == 200)
    client = Resp(node.port)
    for i in range(1000):
        client.must("SET", f"key:{i}", "value")
    assert client.must("CONFIG", "GET", "memory.pool_size") == [b"memory.pool_size", b"0"]
    node.stop()
    node.start()
    node.wait("ready", lambda: page_or_none(node) == 200)
    assert Resp(node.port).must("DBSIZE") == 1000
    node.stop()
    text = ends(make("contradiction", ["memory.max_memory=32MiB", "memory.pool_size=33MiB"]))
    assert "memory.pool_size: 33MiB is more than memory.max_memory (32MiB)" in text


def shown(client, name):
    return client.must("CONFIG", "GET", name)[1]


def test_reload(make, tmp_path):
    file = tmp_path / "reload.toml"
    file.write_text('[server]\nmaxclients = 100\ntimeout = "1h"\n[log]\nretain = "1GiB"\n')
    node = make(settings=["log.retain=32MiB"])
    node.arguments = ["--config", str(file)]
    node.start()
    node.wait("ready", lambda: page_or_none(node) == 200)
    client = Resp(node.port)
    client.must("CONFIG", "SET", "server.timeout", "2h")

    def reload(text, said):
        file.write_text(text)
        before = node.log_text().count(said)
        node.process.send_signal(signal.SIGHUP)
        node.wait(f"saying '{said}' again", lambda: node.log_text().count(said) > before)

    reload("[server]\nmaxclients = 0\n", "SIGHUP: nothing is changed: ")
    assert f"{file}:2: server.maxclients" in node.log_text()
    reload("[memory]\npool_size = 7\n", "SIGHUP: nothing is changed: ")
    # Each key is allowed, but not beside the others.
    reload('[server]\nmaxclients = 300\n[replication]\ncommit_timeout = "20s"\n',
           "SIGHUP: nothing is changed: ")
    assert shown(client, "server.maxclients") == b"100"
    assert shown(client, "server.timeout") == b"2h"
    # What is set on the command line wins, as at the start; the file wins over CONFIG SET.
    reload('[server]\nmaxclients = 200\ntimeout = "1h"\nlog_format = "json"\n'
           '[log]\nretain = "2GiB"\nsync = "off"\n[replication]\nack_replicas = 1\n'
           '[recovery]\non_damage = "rejoin"\n',
           "not to be taken over while the node runs: server.log_format, replication.ack_replicas, "
           "recovery.on_damage\n")
    assert shown(client, "server.maxclients") == b"200"
    assert shown(client, "server.timeout") == b"1h"
    assert shown(client, "log.retain") == b"32MiB"
    assert shown(client, "log.sync") == b"off"
    assert shown(client, "replication.ack_replicas") == b"0"
    assert "3 keys changed: server.maxclients = 200, server.timeout = 1h, log.sync = off" in node.log_text()
    client.must("SET", "still", "served")


def test_sync_policy_changes_while_it_runs(make):
    node = make(settings=["replication.ack=none"]).start()  # "persisted" persists anyway
    node.wait("ready", lambda: page_or_none(node) == 200)
    client = Resp(node.port)

    def persists():
        text = page(node, "/metrics")[1]
        return float(re.search(r"^kvstored_log_persists_total (\S+)", text, re.M).group(1))

    def persists_of_writes():
        before = persists()
        for i in range(50):
            client.must("SET", f"key:{i}", "value")
        return persists() - before

    assert persists_of_writes() >= 50
    client.must("CONFIG", "SET", "appendfsync", "no")
    assert shown(client, "log.sync") == b"off"
    assert persists_of_writes() < 25
    client.must("CONFIG", "SET", "log.sync", "always")
    assert shown(client, "appendfsync") == b"always"
    assert persists_of_writes() >= 50


def test_reload_without_a_file(make):
    node = make().start()
    node.wait("ready", lambda: page_or_none(node) == 200)
    node.process.send_signal(signal.SIGHUP)
    node.wait("saying so", lambda: "no configuration file to read again" in node.log_text())
    assert Resp(node.port).must("PING") == "PONG"


def test_shards_of_the_directory_count(make):
    node = make().start()
    node.wait("ready", lambda: page_or_none(node) == 200)
    shards = len(node.status()["shards"])
    node.stop()
    node.start("server.shards=8")
    node.wait("ready", lambda: page_or_none(node) == 200)
    assert len(node.status()["shards"]) == shards
    assert f"differs from this data directory's ({shards}), which counts" in node.log_text()
    node.stop()
    node.start()
    node.wait("ready", lambda: page_or_none(node) == 200)
    assert "differs from this data directory" not in node.log_text()


def test_data_directory_is_locked(make):
    first = make("first").start()
    first.wait_answering()
    second = make("second")
    second.settings.append(f"server.data_dir={first.directory / 'data'}")
    text = ends(second)
    assert str(first.directory / "data") in text and str(first.process.pid) in text
    assert first.running()


@pytest.mark.parametrize("port", ["server.port", "replication.port", "metrics.port"])
def test_port_in_use(make, port):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        text = ends(make(settings=[f"{port}={number}"]))
    assert str(number) in text and "use" in text


def test_bad_configuration(make, tmp_path):
    text = ends(make(settings=["server.port=99999"]))
    assert "server.port" in text and "from 0 to 65535" in text
    bad = tmp_path / "bad.toml"
    bad.write_text("[server]\nprot = 1\n")
    result = subprocess.run([BIN / "kvstored", "--check-config", "--config", bad],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert result.returncode == 1
    assert f"{bad}:2: unknown key server.prot" in result.stdout.decode()
    good = subprocess.run([BIN / "kvstored", "--check-config", "--config",
                           ROOT / "config/kvstored.toml"], stdout=subprocess.PIPE, check=False)
    assert good.returncode == 0


@pytest.mark.parametrize("arguments,text", [
    (["--bogus"], "unknown option '--bogus'; see kvstored --help"),
    (["bogus"], "'bogus' is one word too many; see kvstored --help"),
])
def test_bad_usage_is_exit_2_and_one_line(arguments, text):
    result = subprocess.run([BIN / "kvstored", *arguments], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, timeout=30, check=False)
    assert (result.returncode, result.stdout, result.stderr.decode()) == (2, b"",
                                                                          f"kvstored: {text}\n")


def test_secrets_that_others_may_read(make, tmp_path):
    secret, password = tmp_path / "secret", tmp_path / "password"
    secret.write_text("0123456789abcdef\n")
    password.write_text("open sesame\n")
    node = make(settings=[f"replication.secret_file={secret}", f"security.password_file={password}"])
    for mode, warned in [(0o640, True), (0o604, True), (0o600, False)]:
        for file in (secret, password):
            file.chmod(mode)
        node.start()
        node.wait("ready", lambda: page_or_none(node) == 200)
        text = node.log_text()
        assert (f"replication.secret_file {secret}: mode {mode:04o}" in text) == warned, text
        assert (f"security.password_file {password}: mode {mode:04o}" in text) == warned, text
        assert (f"chmod 600 {secret}\n" in text) == warned and ("chmod" in text) == warned, text
        node.stop()


def test_data_directory_cannot_be_made(make):
    text = ends(make(settings=["server.data_dir=/proc/nowhere/data"]))
    assert "/proc/nowhere" in text


def test_tells_systemd(make, tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(path))
        systemd.settimeout(60)
        os.environ["NOTIFY_SOCKET"] = str(path)
        try:
            node = make().start()
        finally:
            del os.environ["NOTIFY_SOCKET"]
        messages = []
        while not any(m.startswith("READY=1") for m in messages):
            messages.append(systemd.recv(4096).decode())
        # READY is not said before it may serve.
        assert page(node, "/readyz")[0] == 200
        node.stop()
        systemd.setblocking(False)
        while True:
            try:
                messages.append(systemd.recv(4096).decode())
            except BlockingIOError:
                break
    assert any("STOPPING=1" in m for m in messages)


def test_a_node_that_ends_is_noticed(make):
    node = make().start()
    node.wait_answering()
    node.kill()
    with pytest.raises(Failure, match="ended"):
        node.wait("answering", node.status, seconds=5)
