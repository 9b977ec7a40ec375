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
    """A server process. `name` is what reports call it; `command(port, directory)` is its command line."""

    def __init__(self, name, command):
        self.name = name
        self.command = command
        self.last_words = ""
        self._start()

    def _start(self):
        self.port = free_port()
        self.directory = tempfile.mkdtemp(prefix="compat-%s-" % self.name)
        self.log_path = os.path.join(self.directory, "output.log")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(self.command(self.port, self.directory), stdout=log,
                                            stderr=subprocess.STDOUT, cwd=self.directory)
        self._wait()

    def _wait(self):
        deadline = time.monotonic() + START_SECONDS
        while True:
            if not self.alive():
                raise RuntimeError("%s ended with status %s: %s" %
                                   (self.name, self.process.returncode, self.output()))
            try:
                client = self.connect()
                # A primary reads before it may write.
                reply = client.call("FLUSHALL")
                client.close()
                if reply == (b"+", b"OK"):
                    return
            except (OSError, Closed):
                pass
            if time.monotonic() > deadline:
                self.stop()
                raise RuntimeError("%s does not answer: %s" % (self.name, self.last_words))
            time.sleep(0.05)

    def output(self):
        with open(self.log_path, "rb") as log:
            return log.read()[-4000:].decode(errors="replace")

    def connect(self):
        return Client("127.0.0.1", self.port)

    def alive(self):
        return self.process.poll() is None

    def ended_with(self):
        """None while it runs; otherwise what it said last. Called when a connection broke."""
        try:
            status = self.process.wait(1.0)
        except subprocess.TimeoutExpired:
            return None
        return "status %s: %s" % (status, self.output())

    def revive(self):
        """A new process with an empty directory, if the old one ended."""
        if not self.alive():
            self.stop()
            self._start()

    def stop(self):
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.last_words = self.output()
        shutil.rmtree(self.directory, ignore_errors=True)


def start_redis(binary, name="redis"):
    return Server(name, lambda port, directory: [
        binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", directory])


def start_kvstored(binary, shards, threads):
    def command(port, directory):
        config = os.path.join(directory, "kvstored.toml")
        with open(config, "w") as out:
            out.write("# Everything by --set.\n")
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
        words = [binary, "--config", config]
        for key, value in settings.items():
            words += ["--set", "%s=%s" % (key, value)]
        return words

    return Server("kvstored", command)


class External:
    """A server that runs already; never stopped here."""

    def __init__(self, name, address):
        self.name = name
        self.host, _, port = address.rpartition(":")
        self.port = int(port)

    def connect(self):
        return Client(self.host or "127.0.0.1", self.port)

    def ended_with(self):
        return None

    def revive(self):
        pass

    def stop(self):
        pass
