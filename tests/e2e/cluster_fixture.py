"""Clusters of real processes for tests: two or three nodes, what clients see of them, and a check at the end
that none of them crashed. Used by tests/e2e and tests/crash."""

import signal
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from cluster import Failure, Node, Resp, counting_members, free_ports  # noqa: E402

# A member that is away is noticed soon, one that is slow on a busy machine is not.
SETTINGS = ["memory.max_memory=512MiB", "memory.pool_size=16MiB", "log.segment_size=8MiB",
            "replication.ack=persisted", "replication.ack_replicas=1",
            "replication.commit_timeout=1s", "replication.gate_timeout=2s"]
# Asks for no member.
ALONE = ["replication.ack_replicas=0"]
# No key is large, so that a whole comparison takes well under a second.
SMALL_KEYS = range(0, 300)
# All sizes up to 1 MiB.
MIXED_KEYS = [*range(0, 300), *range(900, 940), 990, 991, 999]


class Cluster:
    """Nodes below one directory; every wait fails as soon as one of them has ended by itself."""

    def __init__(self, directory, shards, settings=()):
        self.directory = directory
        self.settings = [*SETTINGS, f"server.shards={shards}", f"server.threads={min(shards, 2)}",
                         *settings]
        self.nodes = []

    def node(self, name, primary=None, settings=(), directory=None):
        following = [f"replication.primary={primary.replication_address}"] if primary else []
        return Node(name, directory or self.directory / name, free_ports(3),
                    [*self.settings, *following, *settings], self.nodes)

    def pair(self, *settings):
        """A primary and its one member, which streams and counts and has its right to be promoted."""
        first = self.node("first", settings=settings).start()
        first.wait_answering()
        second = self.node("second", first, settings).start()
        second.wait_answering()
        wait_member(first)
        wait_promotable(second)
        return first, second

    def alone(self, *settings):
        """A primary without members that serves."""
        node = self.node("node", settings=[*ALONE, *settings]).start()
        wait_serving(node)
        return node

    def learner(self, *settings):
        """A primary that asks for nobody, and a replica that only follows."""
        first = self.node("first", settings=[*ALONE, *settings]).start()
        first.wait_answering()
        second = self.node("second", first, [*ALONE, *settings]).start()
        wait_streaming(second)
        return first, second

    def written_pair(self, ledger, *settings):
        """A primary and its member, with data of the ledger that both hold."""
        first, second = self.pair(*settings)
        ledger.start(first.port)
        ledger.wait(first, 2000)
        ledger.stop()
        wait_equal(first, second)
        return first, second

    def close(self):
        for node in self.nodes:
            if node.running():
                node.process.kill()
                node.process.wait()
        for node in self.nodes:
            if node.log_file.exists() and "check failed" in node.log_file.read_text(errors="replace"):
                raise Failure(f"{node.name} found a broken invariant:\n{node.log_tail(30)}")
            code = node.process.returncode if node.process else 0
            if code < 0 and code != -signal.SIGKILL:
                raise Failure(f"{node.name} was ended by signal {-code}:\n{node.log_tail(30)}")


@pytest.fixture(name="cluster", params=[1, 4], ids=["1 shard", "4 shards"])
def make_cluster(request, tmp_path):
    made = Cluster(tmp_path, request.param)
    yield made
    made.close()


def wait_member(primary, count=1, seconds=60):
    primary.wait(f"followed by {count} members that stream and count",
                 lambda: len(counting_members(primary.status())) >= count, seconds)


def wait_promotable(replica, seconds=60):
    """It has the right to be promoted and is past loading."""
    def promotable():
        status = replica.status()
        return status.get("promotable") and not status["loading"]

    replica.wait("promotable", promotable, seconds)


def wait_loaded(node, seconds=60):
    node.wait("loaded", lambda: node.status().get("loading") is False, seconds)


def wait_role(node, role, seconds=60):
    return node.wait(f"a {role}", lambda: node.status().get("role") == role, seconds)


def wait_serving(node, seconds=60):
    """A primary that accepts writes; its status."""
    return node.wait("a serving primary",
                     lambda: (lambda s: s.get("role") == "primary" and s.get("writable") and s)
                     (node.status()), seconds)


def wait_streaming(replica, seconds=60):
    return replica.wait("streaming from its primary",
                        lambda: replica.status().get("stream") == "streaming", seconds)


def wait_equal(primary, replica, seconds=60):
    """Until the replica has applied everything that the primary has."""
    def equal():
        mine = {s["shard"]: s["appended"] for s in primary.status().get("shards", [])}
        theirs = {s["shard"]: s["committed"] for s in replica.status().get("shards", [])}
        return mine and mine == theirs

    replica.wait(f"as far as {primary.name}", equal, seconds)


def wait_follows(replica, primary):
    """Whatever it was before: a replica of this primary that has everything."""
    wait_role(replica, "replica")
    wait_streaming(replica)
    wait_equal(primary, replica)


def log_length(node):
    """Records of all shards; alone it decides nothing, a longer log is judged by shard."""
    return sum(shard["appended"] for shard in node.status()["shards"])


def kill_under_load(ledger, node, *others, writes=500):
    """SIGKILL while the ledger writes to the node, and then to the others: their logs may differ."""
    ledger.start(node.port)
    ledger.wait(node, writes)
    for each in (node, *others):
        each.kill()
    ledger.end()


def promote(node, *words):
    """Asks for no member unless told otherwise; its epoch when it serves."""
    node.must_kvctl("promote", *(words or ("--ack-replicas", "0")))
    return wait_serving(node)["epoch"]


def attempt(node, *words):
    """One command on a connection of its own: the reply, an error reply as an Exception, or None when the
    node closed the connection (its outcome is unknown) or does not listen."""
    try:
        client = Resp(node.port, timeout=30)
    except OSError:
        return None
    try:
        return client.call(*words)
    except OSError:
        return None
    finally:
        client.close()


def put(node, key, value, seconds=60):
    """Writes until it is acknowledged."""
    node.wait("accepting writes", lambda: attempt(node, "SET", key, value) == "OK", seconds)


def wait_refusal(node, code, seconds=60):
    """Until a write is refused with this code before it runs."""
    node.wait(f"refusing writes with {code}",
              lambda: str(attempt(node, "SET", "probe", "?")).startswith(code + " "), seconds)


def must_refuse(node, code):
    reply = attempt(node, "SET", "probe", "?")
    if not (isinstance(reply, Exception) and str(reply).startswith(code + " ")):
        raise Failure(f"{node.name} answers a write with {reply!r} instead of -{code}")


def never_writes(node, seconds):
    """No write is acknowledged for so long. What a fault must not bring about, given the time to do so."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        reply = attempt(node, "SET", "probe", "?")
        if reply == "OK":
            raise Failure(f"{node.name} acknowledged a write:\n{node.status()}\n{node.log_tail()}")
