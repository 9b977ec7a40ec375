"""Nodes as processes: start, ask, wait, end. Used by tools/run, its --check and the end-to-end tests."""

import ctypes
import json
import os
import random
import shlex
import signal
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(os.environ.get("KVS_BIN", ROOT / "build" / "bin"))
LOCALHOST = "127.0.0.1"
PR_SET_PDEATHSIG = 1


class Failure(Exception):
    """Something is not as it must be; the text is for a person."""


def free_ports(count):
    """Ports that are free now: all are held at once so that no two are the same. None is from the range out of
    which the kernel serves connections, or one could take it while its node is away."""
    first, _ = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    dice = random.SystemRandom()
    sockets = []
    while len(sockets) < count:
        try:
            sockets.append(socket.create_server((LOCALHOST, dice.randrange(first // 3, first))))
        except OSError:
            pass  # somebody has it
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Node:
    """One kvstored with a directory of its own: data below it, its log beside.

    Nodes that are made with the same `group` (a list) watch each other: a wait on one of them fails at once
    when any of them has ended by itself."""

    def __init__(self, name, directory, ports, settings=(), group=None):
        self.name = name
        self.directory = Path(directory)
        self.port, self.replication_port, self.metrics_port = ports
        self.settings = list(settings)
        self.process = None
        self.expected = False    # started, and nobody has ended it on purpose
        self.log_start = 0       # where the present life begins in the log file
        self.environment = {}    # more variables, for the next start
        self.arguments = []      # more of its command line, such as --config FILE
        self.prefix = []         # a command that runs kvstored, such as setpriv
        self.group = [] if group is None else group
        self.group.append(self)

    @property
    def replication_address(self):
        return f"{LOCALHOST}:{self.replication_port}"

    @property
    def log_file(self):
        return self.directory / "kvstored.log"

    def command(self, *more):
        sets = [f"server.port={self.port}", f"server.data_dir={self.directory / 'data'}",
                f"replication.port={self.replication_port}", f"metrics.port={self.metrics_port}",
                *self.settings, *more]
        return [*self.prefix, str(BIN / "kvstored"), *self.arguments,
                *(word for s in sets for word in ("--set", s))]

    def start(self, *more):
        self.directory.mkdir(parents=True, exist_ok=True)
        with open(self.log_file, "ab") as log:
            self.log_start = log.tell()
            # A session of its own: Ctrl-C reaches tools/run alone, which ends its nodes in order.
            self.process = subprocess.Popen(self.command(*more), stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, start_new_session=True,
                                            env={**os.environ, **self.environment},
                                            preexec_fn=die_with_parent)
        self.expected = True
        return self

    def running(self):
        return self.process is not None and self.process.poll() is None

    def log_text(self):
        """What the present life (or the last one) has said."""
        if not self.log_file.exists():
            return "(no log)"
        return self.log_file.read_bytes()[self.log_start:].decode(errors="replace")

    def log_tail(self, lines=15):
        return "\n".join(self.log_text().splitlines()[-lines:])

    def fail_if_ended(self, what):
        """A node that should run and does not: its last words."""
        if not self.running():
            code = "never started" if self.process is None else f"exit {self.process.returncode}"
            raise Failure(f"{self.name} ended ({code}) before {what}:\n{self.log_tail()}")

    def kvctl(self, *words, timeout=300):
        """Returns (exit code, standard output, standard error)."""
        result = subprocess.run([BIN / "kvctl", "--port", str(self.port), "--timeout", str(timeout),
                                 *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                timeout=timeout + 10, check=False)
        return result.returncode, result.stdout.decode(), result.stderr.decode().strip()

    def must_kvctl(self, *words, timeout=300):
        code, output, error = self.kvctl(*words, timeout=timeout)
        if code != 0:
            raise Failure(f"kvctl {' '.join(words)} on {self.name}: {error}")
        return output

    def status(self):
        """The JSON of `kvctl status`, or {} while the node does not answer it."""
        code, output, _ = self.kvctl("status", "--json", timeout=10)
        return json.loads(output) if code == 0 else {}

    def wait(self, what, condition, seconds=120, interval=0.1):
        """Polls until condition() is true; fails with the last words of a node of the group that ends, or when
        time is up."""
        deadline = time.monotonic() + seconds
        while True:
            self.fail_if_ended(f"{self.name} was {what}")
            for node in self.group:
                if node.expected:
                    node.fail_if_ended(f"{self.name} was {what}")
            result = condition()
            if result:
                return result
            if time.monotonic() > deadline:
                raise Failure(f"{self.name}: not {what} within {seconds} s; its status is "
                              f"{self.status()} and its log ends\n{self.log_tail()}")
            time.sleep(interval)

    def wait_answering(self, seconds=60):
        return self.wait("answering", self.status, seconds)

    def wait_end(self, seconds=60):
        """For a node that must end by itself: its exit code, negative if a signal ended it."""
        self.expected = False
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} still runs after {seconds} s:\n{self.log_tail()}") from None

    def pause(self):
        """SIGSTOP: it holds its connections and says nothing, as after a long stall of its machine."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)  # every thread of it stands still

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        """SIGKILL: nothing is written any more."""
        self.fail_if_ended("it was killed")
        self.expected = False
        self.process.kill()
        self.process.wait()

    def stop(self, seconds=60):
        """SIGTERM and its clean end."""
        if not self.running():
            return
        self.expected = False
        self.process.terminate()
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure(f"{self.name} did not end within {seconds} s of SIGTERM:\n"
                          f"{self.log_tail()}") from None
        if code != 0:
            raise Failure(f"{self.name} ended with exit {code} on SIGTERM:\n{self.log_tail()}")

    def shell_command(self):
        return shlex.join(self.command())


def streaming_replicas(status):
    """Replicas of a primary's status that receive what is written as it is written."""
    if status.get("role") != "primary":
        return []
    return [r for r in status.get("replicas", []) if r.get("state") == "streaming"]


def counting_members(status):
    return [r for r in streaming_replicas(status) if r.get("member")]


class Resp:
    """A small RESP2 client: bytes in, bytes out, pipelining by hand."""

    def __init__(self, port, timeout=60):
        self.socket = socket.create_connection((LOCALHOST, port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb", 1 << 20)

    def close(self):
        self.stream.close()
        self.socket.close()

    def shut(self):
        """From another thread: a read that waits for a reply ends."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # closed already

    @staticmethod
    def encode(*words):
        parts = [b"*%d\r\n" % len(words)]
        for word in words:
            word = word if isinstance(word, bytes) else str(word).encode()
            parts += [b"$%d\r\n" % len(word), word, b"\r\n"]
        return b"".join(parts)

    def send(self, data):
        self.socket.sendall(data)

    def read(self):
        """One reply. An error reply is returned as an Exception object, not raised."""
        line = self.stream.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the connection was closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return Exception(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            size = int(rest)
            if size < 0:
                return None
            data = self.stream.read(size + 2)
            if len(data) != size + 2:
                raise ConnectionError("the connection was closed inside a reply")
            return data[:-2]
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        raise ConnectionError(f"not RESP: {line[:40]!r}")

    def call(self, *words):
        self.send(self.encode(*words))
        return self.read()

    def must(self, *words):
        reply = self.call(*words)
        if isinstance(reply, Exception):
            raise Failure(f"{words[0]}: {reply}")
        return reply
