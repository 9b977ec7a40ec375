"""Debian's redis-cli in each of its modes that need strings only."""

import os
import pty
import re
import select
import subprocess
import time

import pytest
from client_fixture import Resp, make_client, make_server, run  # noqa: F401

KEY_COUNT = 5_000


@pytest.fixture(name="environment")
def make_environment(server):
    """redis-cli takes the password from here; on a dumb terminal it does not repeat each line as it is typed."""
    return {**os.environ, "TERM": "dumb",
            **({"REDISCLI_AUTH": server.password} if server.password else {})}


@pytest.fixture(name="cli")
def make_cli(server, client, environment):  # noqa: ARG001, F811  (client: the server is empty)
    def cli(*words, stdin=b""):
        return run("/usr/bin/redis-cli", "-p", server.port, *words, stdin=stdin, environment=environment)
    return cli


@pytest.fixture(name="many")
def make_many(client):
    """A server with many small keys and a big one."""
    client.send(b"".join(Resp.encode("SET", f"key:{i:05}", i) for i in range(KEY_COUNT)))
    for _ in range(KEY_COUNT):
        assert client.read() == "OK"
    client.must("SET", "big", b"x" * 50_000)
    return client


def test_one_shot(cli):
    assert cli("SET", "a", "1") == "OK\n"
    assert cli("INCR", "a") == "2\n"
    assert cli("GET", "none") == "\n"
    assert cli("--no-raw", "GET", "a") == '"2"\n'
    assert cli("--no-raw", "MGET", "a", "none") == '1) "2"\n2) (nil)\n'
    assert cli("--no-raw", "TTL", "a") == "(integer) -1\n"
    assert cli("-r", 3, "INCR", "a") == "3\n4\n5\n"
    assert cli("INCR", "a", "b") == "ERR wrong number of arguments for 'incr' command\n\n"
    assert "redis_mode:standalone" in cli("INFO", "server")


def test_an_error_is_an_exit_code_with_e(server, environment):
    words = ["/usr/bin/redis-cli", "-p", str(server.port), "-e", "INCR", "a", "b"]
    assert subprocess.run(words, env=environment, capture_output=True, check=False).returncode == 1


def test_resp3(cli):
    cli("SET", "a", "1")
    assert cli("-3", "--no-raw", "GET", "none") == "(nil)\n"
    assert cli("-3", "--no-raw", "CONFIG", "GET", "maxmemory-policy") == (
        '1# "maxmemory-policy" => "noeviction"\n')
    hello = cli("-3", "--no-raw", "HELLO")
    assert '1# "server" => "redis"\n' in hello and '3# "proto" => (integer) 3\n' in hello
    assert cli("-3", "--json", "MGET", "a", "none") == '["1",null]\n'
    assert cli("-3", stdin=b"MULTI\nINCR a\nGET none\nEXEC\n") == "OK\nQUEUED\nQUEUED\n2\n\n"


def test_commands_from_standard_input(cli):
    script = b"MULTI\nSET a 5\nINCR a\nEXEC\nGET a\nSET b 'two words'\nGET b\n"
    assert cli(stdin=script) == "OK\nQUEUED\nQUEUED\nOK\n6\n6\nOK\ntwo words\n"


def test_an_argument_from_standard_input(cli, client):
    value = bytes(range(256)) * 400
    assert cli("-x", "SET", "a", stdin=value) == "OK\n"
    assert client.must("GET", "a") == value
    assert cli("-X", "<here>", "SET", "<here>", "b", stdin=b"key") == "OK\n"
    assert client.must("GET", "key") == b"b"


def test_csv(cli):
    cli("MSET", "a", "1", "b", 'quo"te')
    assert cli("--csv", "MGET", "a", "none", "b") == '"1",NULL,"quo\\"te"\n'
    assert cli("--csv", "EXISTS", "a", "b", "c") == "2\n"


def test_pipe(cli, client):
    load = b"".join(Resp.encode("SET", f"pipe:{i}", i) for i in range(20_000))
    assert "errors: 0, replies: 20000" in cli("--pipe", stdin=load)
    assert client.must("DBSIZE") == 20_000
    assert client.must("GET", "pipe:19999") == b"19999"


def test_scan(cli, many):  # noqa: ARG001
    keys = cli("--scan").split()
    assert len(keys) == KEY_COUNT + 1 and len(set(keys)) == KEY_COUNT + 1
    assert sorted(cli("--scan", "--pattern", "key:0001?").split()) == [
        f"key:{i:05}" for i in range(10, 20)]


@pytest.mark.parametrize("mode", ["--bigkeys", "--memkeys"])
def test_the_biggest_keys(cli, many, mode):
    size = 50_000 if mode == "--bigkeys" else many.must("MEMORY", "USAGE", "big")
    output = cli(mode)
    assert f"Sampled {KEY_COUNT + 1} keys in the keyspace!" in output
    assert f"Biggest string found '\"big\"' has {size} bytes" in output
    assert f"{KEY_COUNT + 1} strings with " in output


def test_hot_keys(cli, client):
    assert client.must("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu") == "OK"
    try:
        client.must("SET", "hot", "value")
        client.must("SET", "cold", "value")
        for _ in range(1_000):
            client.must("GET", "hot")
        first = next(line for line in cli("--hotkeys").splitlines() if line.startswith("hot key found"))
        assert first.endswith("keyname: \"hot\"")
    finally:
        client.must("CONFIG", "SET", "maxmemory-policy", "noeviction")


def test_stat(server, many, environment):  # noqa: ARG001
    # It has no end of its own.
    process = subprocess.Popen(["/usr/bin/redis-cli", "-p", str(server.port), "-i", "0.01", "--stat"],
                               env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = [process.stdout.readline().decode() for _ in range(12)]
    process.terminate()
    process.communicate()
    assert "data" in lines[0] and lines[1].split()[:3] == ["keys", "mem", "clients"], lines
    requests = []
    for line in lines[2:]:
        keys, memory, _, _, total, delta = line.split()[:6]
        assert int(keys) == KEY_COUNT + 1 and memory[-1] in "KMG", line
        assert re.fullmatch(r"\(\+\d+\)", delta), line
        requests.append(int(total))
    assert requests == sorted(requests) and requests[-1] > requests[0]


def test_latency(cli):
    least, most, mean, samples = cli("--latency", "--raw", "-i", 1).split()
    assert int(samples) >= 1
    assert int(least) <= float(mean) <= int(most)


def test_one_database(cli, server):
    refused = "ERR DB index is out of range" in cli("-n", 1, "PING")
    assert refused != server.is_redis


class Terminal:
    """redis-cli behind a terminal of its own."""

    def __init__(self, port, environment):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execve("/usr/bin/redis-cli", ["redis-cli", "-p", str(port)], environment)
        self.output = ""

    def until(self, prompt):
        """What it has printed when its last line is the prompt."""
        deadline = time.monotonic() + 60
        self.output = ""
        while not re.search(r"(^|\n)" + prompt + "$", self.output):
            ready, _, _ = select.select([self.terminal], [], [], max(deadline - time.monotonic(), 0))
            assert ready, self.output
            more = os.read(self.terminal, 65536).decode()
            self.output += re.sub(r"\r|\x1b\[[0-9;]*m", "", more)
        return self.output

    def type(self, line, prompt):
        os.write(self.terminal, line.encode() + b"\n")
        return self.until(prompt)

    def close(self):
        os.write(self.terminal, b"quit\n")
        try:
            while os.read(self.terminal, 4096):
                pass
        except OSError:
            pass  # the terminal has no other side any more
        os.close(self.terminal)
        return os.waitpid(self.pid, 0)[1]


def test_interactive(server, client, environment):  # noqa: ARG001
    prompt = rf"127\.0\.0\.1:{server.port}> "
    inside = rf"127\.0\.0\.1:{server.port}\(TX\)> "
    terminal = Terminal(server.port, environment)
    terminal.until(prompt)
    assert '\nOK\n' in terminal.type("SET a 'two words'", prompt)
    assert '\n"two words"\n' in terminal.type("GET a", prompt)
    assert "\n(nil)\n" in terminal.type("GET none", prompt)
    assert "\nOK\n" in terminal.type("MULTI", inside)
    assert "\nQUEUED\n" in terminal.type("INCR n", inside)
    assert "\n1) (integer) 1\n" in terminal.type("EXEC", prompt)
    # Its help is what COMMAND DOCS told it at the start.
    text = terminal.type("help getex", prompt)
    assert "summary: Get the value of a key and optionally set its expiration" in text, text
    assert "since: 6.2.0" in text and "group: string" in text, text
    assert "SETRANGE" in terminal.type("help @string", prompt)
    assert '3# "proto" => (integer) 3' in terminal.type("HELLO 3", prompt)
    assert '1# "maxmemory-policy" => "noeviction"' in terminal.type("CONFIG GET maxmemory-policy", prompt)
    assert terminal.close() == 0
