"""The servers that unmodified clients talk to: kvstored with four shards on two threads and the redis-server
that it stands in for, each without and with a password. What a test expects, it expects of all of them."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tools"))
from cluster import BIN, LOCALHOST, Node, Resp, die_with_parent, free_ports  # noqa: E402, F401

PASSWORD = "open sesame"
SETTINGS = ["memory.max_memory=512MiB", "memory.pool_size=16MiB", "log.segment_size=16MiB",
            "log.sync=interval", "replication.ack_replicas=0", "server.shards=4", "server.threads=2"]


class Server:
    """Where a client finds a server and what it must say first; `password` is empty if none is asked."""

    def __init__(self, port, is_redis=False, password=""):
        self.port = port
        self.is_redis = is_redis
        self.password = password

    def connect(self):
        """A connection that is past the password."""
        client = Resp(self.port)
        if self.password:
            client.must("AUTH", self.password)
        return client


def start_redis(directory, password):
    """A redis-server that keeps nothing; (process, port) when it answers."""
    port, = free_ports(1)
    process = subprocess.Popen(["/usr/bin/redis-server", "--port", str(port), "--bind", LOCALHOST,
                                "--save", "", "--appendonly", "no", "--dir", str(directory),
                                "--requirepass", password],
                               stdout=subprocess.DEVNULL, preexec_fn=die_with_parent)
    deadline = time.monotonic() + 60
    while True:
        try:
            Resp(port).call("PING")
            return process, port
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@pytest.fixture(name="server", scope="module", params=[("kvstored", ""), ("kvstored", PASSWORD), ("redis", ""), ("redis", PASSWORD)],
                ids=["kvstored", "kvstored with password", "redis", "redis with password"])
def make_server(request, tmp_path_factory):
    name, password = request.param
    directory = tmp_path_factory.mktemp("server")
    if name == "redis":
        process, port = start_redis(directory, password)
        yield Server(port, is_redis=True, password=password)
        process.terminate()
        process.wait(60)
        return
    file = directory / "password"
    file.write_text(password)
    file.chmod(0o600)
    settings = [f"security.password_file={file}"] if password else []
    node = Node("node", directory, free_ports(3), [*SETTINGS, *settings]).start()
    server = Server(node.port, password=password)

    def takes_writes():
        try:
            return server.connect().call("FLUSHALL") == "OK"
        except OSError:
            return False

    node.wait("writable", takes_writes)
    yield server
    node.stop()


@pytest.fixture(name="client")
def make_client(server):
    """A plain connection to a server that is empty now."""
    client = server.connect()
    client.must("FLUSHALL")
    yield client
    client.close()


def run(*words, stdin=b"", timeout=300, environment=None):
    """The output of a program that must succeed."""
    result = subprocess.run([str(word) for word in words], input=stdin, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, timeout=timeout, check=False, env=environment)
    output = result.stdout.decode(errors="replace")
    assert result.returncode == 0, output
    return output
