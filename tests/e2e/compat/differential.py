#!/usr/bin/python3
"""The same commands to kvstored and to redis-server; the replies must be equal, byte for byte, but for
what compare.py lists. A failing sequence is shrunk and printed with its seed.

  differential.py [--seed N] [--sequences N] [--length N]    random sequences (seed printed)
  differential.py --self-test                                redis-server against itself
  differential.py --wire                                     only the fixed cases
"""

import argparse
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import client_cases  # noqa: E402
import compare  # noqa: E402
import generate  # noqa: E402
import servers  # noqa: E402
import wire_cases  # noqa: E402
from resp import Closed  # noqa: E402

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))


# Sent alone even where others are pipelined: the test looks at what they do.
ALONE = {b"SCANALL"}


class Context:
    def __init__(self, past_sets, pipelined):
        self.past_sets = past_sets
        self.pipelined = pipelined


class Peer:
    """One server and its two connections."""

    def __init__(self, server, protocol):
        self.server = server
        self.protocol = protocol
        self.clients = [None, None]
        self.ended = None
        server.revive()
        control = server.connect()
        control.call("FLUSHALL")
        control.close()
        for connection in (0, 1):
            self.open(connection)

    def open(self, connection):
        client = self.server.connect()
        if self.protocol == 3:
            client.call("HELLO", "3")
        self.clients[connection] = client

    def send(self, connection, args):
        try:
            self.clients[connection].send(args)
        except Closed:
            pass  # read() will say so

    def read(self, connection):
        try:
            return self.clients[connection].read()
        except Closed:
            self.ended = self.ended or self.server.ended_with()
            if self.ended:
                return (b"ended", self.ended)
            self.open(connection)
            return (b"closed", None)

    def scan_all(self, connection, args):
        """SCAN to its end as one reply: the sorted set of keys."""
        keys, cursor = set(), b"0"
        for _ in range(100_000):
            self.send(connection, [b"SCAN", cursor, b"MATCH", args[1], b"COUNT", args[2]])
            reply = self.read(connection)
            if reply[0] != b"*" or len(reply[1] or []) != 2:
                return reply
            cursor = reply[1][0][1]
            keys.update(item[1] for item in reply[1][1][1])
            if cursor == b"0":
                return (b"*", sorted(keys))
        return (b"-", b"SCAN did not end")

    def close(self):
        for client in self.clients:
            client.close()


class Run:
    """One sequence on both servers. result: None or (step number, queued, Redis's, kvstored's)."""

    def __init__(self, pair, steps, protocol, context, batch_seed):
        self.context = context
        self.peers = [Peer(server, protocol) for server in pair]
        self.queued = [None, None]
        self.random = random.Random(batch_seed)
        try:
            self.result = self._run(steps)
        finally:
            for peer in self.peers:
                peer.close()

    def _batches(self, steps):
        """Neighbours of one connection go out together when the sequence is pipelined."""
        batch = []
        for number, (connection, args) in enumerate(steps):
            alone = not self.context.pipelined or args[0].upper() in ALONE
            if batch and (alone or batch[-1][1] != connection or self.random.random() < 0.2):
                yield batch
                batch = []
            batch.append((number, connection, args))
            if alone:
                yield batch
                batch = []
        if batch:
            yield batch

    def _run(self, steps):
        for batch in self._batches(steps):
            if batch[0][2][0] == b"SCANALL":
                number, connection, args = batch[0]
                if self.queued[connection] is not None:
                    continue
                replies = [[peer.scan_all(connection, args)] for peer in self.peers]
            else:
                for peer in self.peers:
                    for _, connection, args in batch:
                        peer.send(connection, args)
                replies = [[peer.read(connection) for _, connection, _ in batch] for peer in self.peers]
            for (number, connection, args), theirs, ours in zip(batch, *replies):
                if not self._same(connection, args, theirs, ours):
                    return number, self.queued[connection], theirs, ours
        return None

    def _same(self, connection, args, theirs, ours):
        name = args[0].upper()
        queued = self.queued[connection]
        if name == b"EXEC" and queued is not None:
            self.queued[connection] = None
            return compare.same_exec(queued, ours, theirs, self.context)
        if theirs == (b"+", b"QUEUED") and ours == theirs:
            queued.append(args)
            return True
        if name == b"MULTI" and theirs == (b"+", b"OK"):
            self.queued[connection] = []
        elif name in (b"DISCARD", b"RESET", b"EXEC"):
            self.queued[connection] = None
        return compare.same(args, theirs, ours, self.context)


def shrink(fails, steps, seconds=60):
    """Removes what the failure does not need (delta debugging), for at most that long."""
    deadline = time.monotonic() + seconds
    chunk = max(len(steps) // 2, 1)
    while chunk >= 1 and time.monotonic() < deadline:
        at, removed = 0, False
        while at < len(steps) and time.monotonic() < deadline:
            candidate = steps[:at] + steps[at + chunk:]
            if candidate and fails(candidate):
                steps, removed = candidate, True
            else:
                at += chunk
        if not removed or chunk > len(steps):
            chunk //= 2
    return steps


def show(value):
    text = repr(value)
    if isinstance(value, tuple) and value[0] == b"ended":
        return "THE SERVER ENDED, %s" % value[1]
    return text if len(text) <= 400 else text[:300] + "... (%d characters)" % len(text)


def report(pair, steps, result, seed, protocol):
    number, queued, theirs, ours = result
    print("DIFFERENCE  seed=%d protocol=%d; sequence shrunk to %d steps:" % (seed, protocol, len(steps)))
    for at, (connection, args) in enumerate(steps[:number + 1]):
        print("  %3d  connection %d  %s" % (at, connection, " ".join(show(a)[1:] for a in args)))
    if queued:
        print("  queued: %s" % show(queued))
    print("  %-10s %s" % (pair[0].name, show(theirs)))
    print("  %-10s %s" % (pair[1].name, show(ours)))
    sys.stdout.flush()


def one_sequence(pair, seed, length, large):
    chooser = random.Random(seed)
    protocol = chooser.choice([2, 3])
    context = Context(past_sets=chooser.random() < 0.3, pipelined=chooser.random() < 0.5)
    steps = generate.Generator(seed, context.past_sets, large).sequence(length)
    result = Run(pair, steps, protocol, context, seed).result
    if result is None:
        return len(steps)
    steps = steps[:result[0] + 1]

    def fails(candidate):
        return Run(pair, candidate, protocol, context, seed).result is not None

    steps = shrink(fails, steps)
    result = Run(pair, steps, protocol, context, seed).result or result
    report(pair, steps, result, seed, protocol)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=None, help="of the first sequence; the next has seed + 1")
    parser.add_argument("--sequences", type=int, default=60)
    parser.add_argument("--length", type=int, default=300, help="commands of a sequence")
    parser.add_argument("--failures", type=int, default=1, help="go on until so many sequences differ")
    parser.add_argument("--small", action="store_true", help="no values above 5,000 bytes")
    parser.add_argument("--redis", default="redis-server")
    parser.add_argument("--kvstored", default=os.path.join(ROOT, "build", "bin", "kvstored"))
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--connect", metavar="HOST:PORT", help="a kvstored that runs already")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--wire", action="store_true")
    options = parser.parse_args()
    first = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "big")

    pair = [servers.start_redis(options.redis)]
    failures = commands = 0
    try:
        if options.self_test:
            pair.append(servers.start_redis(options.redis, "redis-2"))
        elif options.connect:
            pair.append(servers.External("kvstored", options.connect))
        else:
            pair.append(servers.start_kvstored(options.kvstored, options.shards, options.threads))
        failures += wire_cases.run(pair)
        failures += client_cases.run(pair)
        if not options.wire:
            print("seeds %d to %d" % (first, first + options.sequences - 1), flush=True)
            for seed in range(first, first + options.sequences):
                count = one_sequence(pair, seed, options.length, not options.small)
                commands += count or 0
                failures += count is None
                if failures >= options.failures:
                    break
    finally:
        for server in pair:
            server.stop()
    print("%d commands compared, %d differences" % (commands, failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
