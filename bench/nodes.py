"""The servers that the rows of bench/ measure, and the load that kvbench puts on them."""

import getpass
import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import cluster  # noqa: E402

REDIS = shutil.which("redis-server") or "/usr/bin/redis-server"
MEMCACHED = shutil.which("memcached")
SERVER_CPU, CLIENT_CPU = "0", "1"
VALUE_BYTES = 100


class KvNode(cluster.Node):
    """A kvstored on ports of its own; `cpus` None: wherever the kernel puts it."""

    kind = "kvstored"
    client_words = ()

    def __init__(self, name, directory, cpus, settings=()):
        super().__init__(name, directory / name, cluster.free_ports(3),
                         ["log.checkpoint_interval=0", *settings])
        self.cpus = cpus

    def command(self, *more):
        words = super().command(*more)
        return words if self.cpus is None else ["taskset", "-c", self.cpus, *words]

    def up(self):
        self.start()
        # Not "writable": one that asks for a member has none yet.
        self.wait("serving", lambda: (lambda s: s.get("epoch") and not s["loading"])(self.status()))
        return self

    def add_replica(self, replica):
        replica.settings.append(f"replication.primary={self.replication_address}")
        replica.start()
        self.wait("streaming", lambda: len(cluster.counting_members(self.status())) == 1)


class RedisNode:
    """A redis-server with the same handles. Its AOF is never rewritten: that would be to its cost."""

    kind = "redis"
    client_words = ()

    def __init__(self, name, directory, cpus, settings=()):
        self.directory = directory / name
        self.name = name
        self.port = cluster.free_ports(1)[0]
        self.cpus = cpus
        self.settings = list(settings)
        self.process = None

    def start(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        words = [REDIS, "--port", str(self.port), "--bind", cluster.LOCALHOST, "--daemonize", "no",
                 "--dir", str(self.directory), "--save", "", "--logfile",
                 str(self.directory / "redis.log"), "--auto-aof-rewrite-percentage", "0",
                 *self.settings]
        return self.run(words)

    def run(self, words):
        if self.cpus is not None:
            words = ["taskset", "-c", self.cpus, *words]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True,
                                        stdout=subprocess.DEVNULL, preexec_fn=cluster.die_with_parent)
        return self

    def up(self):
        self.start()
        wait_for(lambda: call(self, "PING") == "PONG", "redis answers")
        return self

    def add_replica(self, replica):
        replica.settings += ["--replicaof", f"{cluster.LOCALHOST} {self.port}"]
        replica.start()
        wait_for(lambda: redis_link_is_up(replica), "redis' replica streams")

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def kill(self):
        self.process.kill()
        self.process.wait()


class MemcachedNode(RedisNode):
    """A memcached with one thread, for what starts and ends a node; it speaks its own text protocol.

    It stays the user that it was started as: a change would undo die_with_parent (prctl(2))."""

    kind = "memcached"
    client_words = ("--protocol", "memcached")

    def start(self):
        words = [MEMCACHED, "-p", str(self.port), "-l", cluster.LOCALHOST, "-U", "0", "-t", "1",
                 "-m", "8192", "-I", "4m", "-u", getpass.getuser(), *self.settings]
        return self.run(words)

    def up(self):
        self.start()
        wait_for(self.answers, "memcached answers")
        return self

    def answers(self):
        try:
            with socket.create_connection((cluster.LOCALHOST, self.port), timeout=30) as client:
                client.sendall(b"version\r\n")
                return client.recv(100).startswith(b"VERSION")
        except OSError:
            return False


def call(node, *words):
    """One command on a connection of its own; None while nobody answers, text if it is an error."""
    try:
        client = cluster.Resp(node.port, timeout=30)
    except OSError:
        return None
    try:
        reply = client.call(*words)
        return str(reply) if isinstance(reply, Exception) else reply
    except OSError:
        return None
    finally:
        client.close()


def redis_link_is_up(node):
    return b"master_link_status:up" in (call(node, "INFO", "replication") or b"")


def wait_for(condition, what, seconds=300, interval=0.005):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise cluster.Failure(f"not within {seconds} s: {what}")
        time.sleep(interval)


def load(node, *words, cpu=CLIENT_CPU, **options):
    """One run of kvbench against the node; its figures (docs/performance.md)."""
    command = ["taskset", "-c", cpu] if cpu is not None else []
    command += [str(cluster.BIN / "kvbench"), "--port", str(node.port), "--json", "-",
                *node.client_words, *words]
    for name, value in {"value_bytes": VALUE_BYTES, **options}.items():
        command += ["--" + name.replace("_", "-"), str(value)]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if result.returncode != 0:
        raise cluster.Failure(f"{node.kind}: {' '.join(command)} failed")
    return json.loads(result.stdout)


def fill(node, items, value_bytes=VALUE_BYTES):
    """Every key once. Of one letter, so that neither server's files cost more than the other's."""
    load(node, "--load", "--compressible", connections=16, depth=64, keys=items,
         value_bytes=value_bytes, cpu=None)


def cpu_seconds(node):
    """CPU time of all threads so far, from the scheduler's nanoseconds."""
    total = 0
    for task in Path(f"/proc/{node.process.pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9
