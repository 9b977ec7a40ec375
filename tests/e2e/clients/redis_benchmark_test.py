"""Debian's redis-benchmark, as far as strings go."""

import re

import pytest
from client_fixture import make_client, make_server, run  # noqa: F401

STRINGS = "ping,set,get,incr,mset"
NAMES = ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET (10 keys)"]


@pytest.fixture(name="benchmark")
def make_benchmark(server, client):  # noqa: ARG001, F811  (client: the server is empty)
    def benchmark(*words):
        password = ["-a", server.password] if server.password else []
        output = run("/usr/bin/redis-benchmark", "-p", server.port, *password, "-c", 20, *words)
        # It says so and goes on when CONFIG GET is refused or an answer is an error.
        assert "rror" not in output and "WARN" not in output, output
        return output
    return benchmark


@pytest.mark.parametrize("words", [["-n", 2_000, "-P", 16], ["-n", 2_000, "-P", 16, "-3"],
                                   ["-n", 400, "--threads", 2]],
                         ids=["pipelined", "RESP3", "threads"])
def test_the_tests_with_strings(benchmark, client, words):
    output = benchmark("-q", "-t", STRINGS, *words)
    assert re.findall(r"([A-Z][A-Z_]+(?: \(10 keys\))?): [\d.]+ requests per second", output) == NAMES, output
    # With threads a few more are sent than were asked for.
    assert int(client.must("GET", "counter:__rand_int__")) >= words[1]


def test_random_keys_and_large_values(benchmark, client):
    benchmark("-n", 400, "-q", "-t", "set,get", "-r", 100, "-d", 4096)
    keys = client.must("KEYS", "key:*")
    assert 0 < len(keys) <= 100
    assert client.must("STRLEN", keys[0]) == 4096


def test_a_command_of_ones_own(benchmark, client):
    benchmark("-n", 200, "-q", "SETEX", "session", "1000", "value")
    assert client.must("GET", "session") == b"value"
    assert client.must("TTL", "session") > 0


def test_the_whole_report(benchmark):
    assert "throughput summary" in benchmark("-n", 200, "-t", "get")
    assert benchmark("-n", 200, "-t", "get", "--csv").splitlines()[-1].startswith('"GET","')
