"""The loader and the verifier of tools/run --check, on a redis-server: they pass a store that keeps
everything and name the first difference of one that does not."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import check  # noqa: E402
import ledger  # noqa: E402
from cluster import Failure, Resp, free_ports  # noqa: E402

KEYS = 3000


class RedisNode:
    """Enough of cluster.Node for load_and_kill."""

    def __init__(self, directory):
        self.port = free_ports(1)[0]
        self.command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                        "--appendonly", "yes", "--appendfsync", "always", "--dir", str(directory)]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while True:
            try:
                reply = Resp(self.port).call("PING")
                if reply == "PONG":
                    return
            except OSError:
                pass
            assert time.monotonic() < deadline, "redis-server does not answer"
            time.sleep(0.05)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Arguments:
    keys = KEYS
    overwrite_seconds = 0.5


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    assert shutil.which("redis-server"), "tools/setup.sh test installs redis-server"
    node = RedisNode(tmp_path_factory.mktemp("redis"))
    workers = check.load_and_kill(node, Arguments)
    node.start()
    yield node, workers
    node.kill()


def test_keeps_everything(loaded):
    node, workers = loaded
    keys, size = check.verify(node.port, workers)
    assert keys == KEYS
    assert size == sum(ledger.size_of(i) for i in range(KEYS))
    # The kill came under load: something was under way.
    assert sum(w.acked_count for w in workers) > KEYS


@pytest.mark.parametrize("damage", [
    lambda node, key, index: node.must("DEL", key),
    lambda node, key, index: node.must("SETRANGE", key, "15", "\x00"),
    lambda node, key, index: node.must("APPEND", key, "x"),
    lambda node, key, index: node.must("SET", key, ledger.value_of(index, 0)),
])
def test_names_the_first_difference(loaded, damage):
    node, workers = loaded
    client = Resp(node.port)
    key = ledger.key_of(1234)
    good = client.must("GET", key)
    damage(client, key, 1234)
    with pytest.raises(Failure, match="first difference: check:1234"):
        check.verify(node.port, workers)
    client.must("SET", key, good)
