"""Starts the two servers on free loopback ports with directories of their own, and ends them."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from resp import Client, Closed

START_SECONDS = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server process. `name` is what reports call it."""

    def __init__(self, name, command, port, directory):
        self.name = name
        self.port = port
        self.directory = directory
        self.log_path = os.path.join(directory, "output.log")
        self.log = open(self.log_path, "wb")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT,
                                        cwd=directory)
        self._wait()

    def _wait(self):
        deadline = time.monotonic() + START_SECONDS
        while True:
            if self.process.poll() is not None:
                raise RuntimeError("%s ended with status %s: %s" %
                                   (self.name, self.process.returncode, self.output()))
            try:
                client = Client("127.0.0.1", self.port)
                reply = client.call("PING")
                client.close()
                if reply == (b"+", b"PONG"):
                    return
            except (OSError, Closed):
                pass
            if time.monotonic() > deadline:
                self.stop()
                raise RuntimeError("%s does not answer: %s" % (self.name, self.output()))
            time.sleep(0.05)

    def output(self):
        with open(self.log_path, "rb") as log:
            return log.read()[-4000:].decode(errors="replace")

    def connect(self):
        return Client("127.0.0.1", self.port)

    def alive(self):
        return self.process.poll() is None

    def stop(self):
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def start_redis(binary, name="redis"):
    port, directory = free_port(), tempfile.mkdtemp(prefix="compat-redis-")
    return Server(name, [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                         "--appendonly", "no", "--dir", directory], port, directory)


def start_kvstored(binary, shards, threads):
    port, directory = free_port(), tempfile.mkdtemp(prefix="compat-kvstored-")
    config = os.path.join(directory, "kvstored.toml")
    settings = {
        "server.port": port,
        "server.data_dir": os.path.join(directory, "data"),
        "server.shards": shards,
        "server.threads": threads,
        "replication.port": free_port(),
        "replication.ack_replicas": 0,
        "metrics.port": free_port(),
        "memory.max_memory": "1GiB",
    }
    with open(config, "w") as out:
        out.write("")
    command = [binary, "--config", config]
    for key, value in settings.items():
        command += ["--set", "%s=%s" % (key, value)]
    return Server("kvstored", command, port, directory)


class External:
    """A server that runs already; never stopped here."""

    def __init__(self, name, address):
        self.name = name
        self.host, _, port = address.rpartition(":")
        self.port = int(port)

    def connect(self):
        return Client(self.host or "127.0.0.1", self.port)

    def alive(self):
        return True

    def output(self):
        return ""

    def stop(self):
        pass
