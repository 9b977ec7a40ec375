"""Small programs in other languages, each with the client that its Debian package (or the npm registry) has:
they print "ok" if every answer was as it must be."""

import os
import shutil
import subprocess
import sys

import pytest
from client_fixture import BIN, HERE, make_client, make_server, run  # noqa: F401

sys.path.insert(0, str(HERE / "node"))
from install import install  # noqa: E402

CACHE = HERE.parents[2] / ".cache" / "node_clients"


def program(package, name, *check):
    """Its path; the test is skipped where it or what it needs is missing."""
    path = shutil.which(name, path="/usr/bin")
    if path is None or (check and subprocess.run([path, *check], capture_output=True, check=False).returncode):
        pytest.skip(f"{package} is not installed")
    return path


def must_print_ok(server, interpreter, script, *words, environment=None):
    output = run(interpreter, HERE / script, server.port, server.password, *words, environment=environment)
    assert output == "ok\n"


def test_hiredis(server, client):
    assert run(BIN / "hiredis_client", server.port, server.password) == "ok\n"
    assert client.must("GET", "hiredis:counter") == b"100000"


def test_php_redis(server, client):  # noqa: ARG001
    must_print_ok(server, program("php-redis", "php", "-r", "new Redis();"), "php_redis.php")


def test_redis_rb(server, client):  # noqa: ARG001
    must_print_ok(server, program("ruby-redis", "ruby", "-e", "require 'redis'"), "redis_rb.rb")


def test_perl_redis(server, client):  # noqa: ARG001
    must_print_ok(server, program("libredis-perl", "perl", "-MRedis", "-e", "1"), "perl_redis.pl")


@pytest.fixture(name="node_modules", scope="module")
def make_node_modules():
    program("nodejs", "node")
    try:
        return install(CACHE)
    except OSError as error:
        return pytest.skip(f"the npm registry cannot be reached: {error}")


@pytest.mark.parametrize("script, words", [("node_redis.cjs", ["2"]), ("node_redis.cjs", ["3"]),
                                           ("ioredis.cjs", [])],
                         ids=["node-redis RESP2", "node-redis RESP3", "ioredis"])
def test_node(server, client, node_modules, script, words):  # noqa: ARG001
    must_print_ok(server, program("nodejs", "node"), f"node/{script}", *words,
                  environment={**os.environ, "NODE_PATH": str(node_modules)})
