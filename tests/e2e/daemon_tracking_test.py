"""Client-side caching against a real node on two threads: writers and caching readers at once, and at the end no
cache holds what the node does not."""

import random
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from cluster import Node, Resp, free_ports  # noqa: E402

KEYS = [b"key%d" % n for n in range(40)]
SETTINGS = ["memory.max_memory=256MiB", "memory.pool_size=16MiB", "log.segment_size=16MiB", "log.sync=interval",
            "server.shards=4", "server.threads=2"]


class CachingClient(Resp):
    """Speaks RESP3, keeps what it read, and forgets what it is told of."""

    def __init__(self, port, *options):
        super().__init__(port)
        self.cache = {}
        self.hits = self.told = 0
        self.call("HELLO", "3")
        assert self.call("CLIENT", "TRACKING", "ON", *options) == "OK"

    def read(self):
        while True:
            kind = self.stream.peek(1)[:1]
            if kind in (b"_", b"%", b">", b"~"):
                rest = self.stream.readline()[1:-2]
                if kind == b"_":
                    return None
                items = [self.read() for _ in range(int(rest) * (2 if kind == b"%" else 1))]
                if kind != b">":
                    return items
                self.forget(items[1])
                continue
            return super().read()

    def forget(self, keys):
        self.told += 1
        for key in self.cache.copy() if keys is None else keys:
            self.cache.pop(key, None)

    def get(self, key):
        if key in self.cache:
            self.hits += 1
            return
        value = self.must("GET", key)
        self.cache[key] = value


@pytest.fixture(name="node", scope="module")
def make_node(tmp_path_factory):
    node = Node("node", tmp_path_factory.mktemp("tracking"), free_ports(3), SETTINGS).start()
    node.wait("writable", lambda: node.status().get("writable"))
    yield node
    node.stop()


def write(port, seed, count):
    client = Resp(port)
    dice = random.Random(seed)
    for n in range(count):
        key, value = dice.choice(KEYS), b"%d.%d" % (seed, n)
        choice = dice.random()
        if choice < 0.7:
            client.must("SET", key, value)
        elif choice < 0.8:
            client.must("APPEND", key, value)
        elif choice < 0.9:
            client.must("MSET", key, value, dice.choice(KEYS), value)
        elif choice < 0.995:
            client.must("DEL", key)
        else:
            client.must("FLUSHALL")
    client.close()


def read(client, seed, ended):
    dice = random.Random(seed)
    while not ended.is_set():
        for _ in range(20):
            client.get(dice.choice(KEYS))
        client.must("PING")  # a client that only hits its cache must listen as well


def stale(client, control):
    client.must("PING")
    return {key: value for key, value in client.cache.items() if control.must("GET", key) != value}


@pytest.mark.parametrize("options", [[], ["NOLOOP"], ["BCAST", "PREFIX", "key"]], ids=["keys", "no loop", "broadcast"])
def test_no_cache_keeps_what_was_overwritten(node, options):
    control = Resp(node.port)
    control.must("FLUSHALL")
    clients = [CachingClient(node.port, *options) for _ in range(3)]
    ended = threading.Event()
    writers = [threading.Thread(target=write, args=(node.port, seed, 1500)) for seed in (1, 2)]
    readers = [threading.Thread(target=read, args=(client, seed, ended)) for seed, client in enumerate(clients)]
    for thread in writers + readers:
        thread.start()
    for thread in writers:
        thread.join()
    ended.set()
    for thread in readers:
        thread.join()
    for client in clients:
        assert client.hits > 0 and client.told > 0
        deadline = time.monotonic() + 20  # a message may still be on its way
        while stale(client, control) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert stale(client, control) == {}
        client.close()
    control.close()
