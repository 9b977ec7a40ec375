"""Writes that can be checked: who wrote what, what was acknowledged, and the comparison byte for byte."""

import random
import threading
import time

from cluster import Failure, Resp

PIPELINE = 16
BLOCK = random.Random(7).randbytes(3 << 20)
KIB = 1024


def key_of(index):
    return b"check:%d" % index


def size_of(index):
    """16 B to 1 MiB: mostly small, each size class there from a few hundred keys on."""
    dice = random.Random(index)
    share = index % 1000
    if share < 900:
        return dice.randint(16, 512)
    if share < 990:
        return dice.randint(512, 16 * KIB)
    if share < 999:
        return dice.randint(64 * KIB, 256 * KIB)
    return 1024 * KIB


def value_of(index, version):
    """The bytes that version `version` of a key has: named in front, then a part of one random block."""
    size = size_of(index)
    name = b"%d/%d/" % (index, version)
    offset = (index * 7919 + version * 104729) % (1 << 20)
    return (name + BLOCK[offset:offset + size])[:size]


def describe(value):
    return "nothing" if value is None else f"{len(value)} bytes starting {value[:40]!r}"


class Writer:
    """Owns its keys, so it knows their newest versions; outlives connections and servers."""

    def __init__(self, indexes):
        self.indexes = list(indexes)
        self.sent = {}      # index -> newest version that was sent
        self.acked = {}     # index -> newest version that was acknowledged, or seen by a reader
        self.refused = {}   # index -> versions that were refused before they ran
        self.acked_count = 0
        self.acked_bytes = 0

    def write(self, client, indexes):
        """One pipeline of new versions. Returns the first error reply, or None."""
        versions = []
        for index in indexes:
            self.sent[index] = self.sent.get(index, 0) + 1
            versions.append((index, self.sent[index]))
        client.send(b"".join(client.encode("SET", key_of(i), value_of(i, v)) for i, v in versions))
        error = None
        for index, version in versions:
            reply = client.read()
            if isinstance(reply, Exception):
                self.refused.setdefault(index, set()).add(version)
                error = error or Failure(f"SET {key_of(index).decode()}: {reply}")
                continue
            self.acked[index] = version
            self.acked_count += 1
            self.acked_bytes += size_of(index)
        return error

    def check(self, index, value):
        """What a reader of committed values may find: the newest acknowledged version or a later one that
        was sent and not refused. What was found may not be taken back."""
        acked, sent = self.acked.get(index, 0), self.sent[index]
        refused = self.refused.get(index, ())
        for version in range(max(acked, 1), sent + 1):
            if version not in refused and value == value_of(index, version):
                self.acked[index] = version
                return
        if value is None and acked == 0:
            return
        expected = describe(value_of(index, max(acked, 1)))
        raise Failure(f"first difference: {key_of(index).decode()}: acknowledged was version {acked}, "
                      f"{expected}; found {describe(value)}")


class Load(threading.Thread):
    """Writes each key of a writer once, if it never did, then overwrites until it is stopped or the
    connection ends. `bearable`: first words of error replies after which it goes on."""

    def __init__(self, writer, port, seed=0, bearable=()):
        super().__init__(daemon=True)
        self.writer = writer
        self.dice = random.Random(seed)
        self.bearable = tuple(bearable)
        self.loaded = threading.Event()
        self.stop = threading.Event()
        self.error = None
        self.client = Resp(port)

    def batches(self):
        new = [i for i in self.writer.indexes if i not in self.writer.sent]
        for at in range(0, len(new), PIPELINE):
            yield new[at:at + PIPELINE]
        self.loaded.set()
        while True:
            # Mostly small values: the load after the loading is about many writes, not about bytes.
            yield [i for i in self.dice.choices(self.writer.indexes, k=PIPELINE) if i % 1000 < 990]

    def run(self):
        try:
            for batch in self.batches():
                if self.stop.is_set() and self.loaded.is_set():
                    break
                error = self.writer.write(self.client, batch)
                if error is None:
                    continue
                if not str(error).split(": ", 1)[1].startswith(self.bearable or ("no error",)):
                    raise error
                self.stop.wait(0.01)
        except OSError as error:
            if not self.stop.is_set():
                self.error = error
        except Failure as failure:
            self.error = failure
        finally:
            self.client.close()
            self.loaded.set()


def verify(port, writers, progress=None):
    """Compares every key; returns (keys, bytes). An in-flight write may be there or not."""
    client = Resp(port)
    keys = bytes_read = 0
    last = time.monotonic()
    for writer in writers:
        todo = [index for index in writer.indexes if index in writer.sent]
        for at in range(0, len(todo), PIPELINE):
            part = todo[at:at + PIPELINE]
            client.send(b"".join(client.encode("GET", key_of(index)) for index in part))
            for index in part:
                value = client.read()
                if isinstance(value, Exception):
                    raise Failure(f"GET {key_of(index).decode()}: {value}")
                writer.check(index, value)
                keys += 1
                bytes_read += len(value or b"")
            if progress and time.monotonic() - last > 10:
                last = time.monotonic()
                progress(keys)
    client.close()
    return keys, bytes_read


class Ledger:
    """Several writers and their load, through as many lives of as many servers as there are."""

    def __init__(self, indexes, writers=4):
        indexes = list(indexes)
        self.writers = [Writer(indexes[n::writers]) for n in range(writers)]
        self.loads = []

    def acked_count(self):
        return sum(writer.acked_count for writer in self.writers)

    def start(self, port, bearable=()):
        self.loads = [Load(writer, port, seed, bearable)
                      for seed, writer in enumerate(self.writers)]
        for load in self.loads:
            load.start()

    def wait(self, node, count, seconds=60):
        """Until so many more writes were acknowledged."""
        target = self.acked_count() + count

        def reached():
            for load in self.loads:
                if load.error:
                    raise Failure(f"a write failed while {node.name} was alive: {load.error}")
            return self.acked_count() >= target

        node.wait(f"acknowledging {count} writes", reached, seconds, interval=0.01)

    def end(self):
        """The server is dead or silent: replies that have not come do not come."""
        for load in self.loads:
            load.stop.set()
            load.client.shut()
        self.join()

    def stop(self):
        """Ends the load after its last replies."""
        for load in self.loads:
            load.stop.set()
        self.join()

    def join(self):
        for load in self.loads:
            load.join(60)
            if load.is_alive():
                raise Failure("a reply did not come within 60 s")
            if isinstance(load.error, Failure):
                raise load.error
        self.loads = []

    def fill(self, port):
        """Writes each key once more, without any concurrency."""
        client = Resp(port)
        for writer in self.writers:
            for at in range(0, len(writer.indexes), PIPELINE):
                error = writer.write(client, writer.indexes[at:at + PIPELINE])
                if error:
                    raise error
        client.close()

    def verify(self, node):
        return verify(node.port, self.writers)
