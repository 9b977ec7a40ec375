"""What clients that Debian does not have send when they connect, byte for byte, and what they must read: each
breaks on another answer, some on an error with another first word."""

import re

import pytest
from client_fixture import Resp, make_client, make_server  # noqa: F401

UNKNOWN_MAINT = b"-ERR unknown subcommand '%s'. Try CLIENT HELP.\r\n"
NO_CLUSTER = b"-ERR This instance has cluster support disabled\r\n"


def bulk(text):
    return b"$%d\r\n%s\r\n" % (len(text), text)


def hello(server, protocol):
    """The answer to HELLO with 0 as the connection's id."""
    head = b"%7\r\n" if protocol == 3 else b"*14\r\n"
    version = b"7.0.15" if server.is_redis else b"7.2.0"
    return head + b"".join([
        bulk(b"server"), bulk(b"redis"), bulk(b"version"), bulk(version), bulk(b"proto"),
        b":%d\r\n" % protocol, bulk(b"id"), b":0\r\n", bulk(b"mode"), bulk(b"standalone"),
        bulk(b"role"), bulk(b"master"), bulk(b"modules"), b"*0\r\n"])


def set_info(server):
    """CLIENT SETINFO is of 7.2."""
    return b"-ERR unknown subcommand 'SETINFO'. Try CLIENT HELP.\r\n" if server.is_redis else b"+OK\r\n"


def auth(server):
    """The part of HELLO that says the password."""
    return ["AUTH", "default", server.password] if server.password else []


@pytest.fixture(name="exchange")
def make_exchange(server):
    """exchange((words, expected), ...) sends all commands at once and reads exactly the expected bytes."""
    connection = Resp(server.port)

    def exchange(*steps):
        expected = b"".join(reply for _, reply in steps)
        connection.send(b"".join(Resp.encode(*words) for words, _ in steps))
        got = b""
        while len(without_ids(got)) < len(expected):
            line = connection.stream.readline()
            assert line, f"closed after {got!r}"
            got += line
            assert expected.startswith(without_ids(got)), got
        assert without_ids(got) == expected

    yield exchange
    # Nothing came unasked.
    exchange((["PING", "last"], bulk(b"last")))
    connection.close()


def without_ids(reply):
    return re.sub(rb"(\$2\r\nid\r\n):\d+(?=\r)", rb"\1:0", reply)


def test_redis_py_with_resp3(server, exchange):
    exchange((["HELLO", "3", *auth(server)], hello(server, 3)))
    exchange((["CLIENT", "MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "internal-ip"],
              UNKNOWN_MAINT % b"MAINT_NOTIFICATIONS"))
    exchange((["CLIENT", "SETNAME", "worker"], b"+OK\r\n"))
    exchange((["CLIENT", "SETINFO", "LIB-NAME", "redis-py"], set_info(server)))
    exchange((["CLIENT", "SETINFO", "LIB-VER", "7.1.0"], set_info(server)))
    exchange((["GET", "none"], b"_\r\n"), (["CLIENT", "GETNAME"], bulk(b"worker")))


def test_go_redis(server, exchange):
    exchange((["hello", "3", *map(str.lower, auth(server)[:1]), *auth(server)[1:], "setname", "go"],
              hello(server, 3)))
    exchange((["client", "setinfo", "LIB-NAME", "go-redis(,go1.23.0)"],
              set_info(server).replace(b"SETINFO", b"setinfo")),
             (["client", "setinfo", "LIB-VER", "9.7.0"],
              set_info(server).replace(b"SETINFO", b"setinfo")),
             (["client", "maint_notifications", "on", "moving-endpoint-type", "internal-ip"],
              UNKNOWN_MAINT % b"maint_notifications"))
    exchange((["client", "getname"], bulk(b"go")), (["config", "get", "maxmemory-policy"],
             b"%1\r\n" + bulk(b"maxmemory-policy") + bulk(b"noeviction")))


def test_go_redis_falls_back(server, exchange):
    """After any error to HELLO it goes on with RESP2."""
    exchange((["hello", "4"], b"-NOPROTO unsupported protocol version\r\n"))
    if server.password:
        exchange((["auth", server.password], b"+OK\r\n"))
    exchange((["select", "0"], b"+OK\r\n"), (["readonly"], NO_CLUSTER),
             (["client", "setname", "go"], b"+OK\r\n"))
    exchange((["get", "none"], b"$-1\r\n"))


def test_jedis(server, exchange):
    if server.password:
        exchange((["HELLO", "3"],
                  b"-NOAUTH HELLO must be called with the client already authenticated, otherwise the "
                  b"HELLO AUTH <user> <pass> option can be used to authenticate the client and select the "
                  b"RESP protocol version at the same time\r\n"))
        exchange((["AUTH", server.password], b"+OK\r\n"))
    exchange((["HELLO", "3"], hello(server, 3)))
    exchange((["CLIENT", "SETNAME", "jedis"], b"+OK\r\n"),
             (["CLIENT", "SETINFO", "lib-name", "jedis"], set_info(server)),
             (["CLIENT", "SETINFO", "lib-ver", "5.2.0"], set_info(server)), (["READONLY"], NO_CLUSTER),
             (["SELECT", "0"], b"+OK\r\n"))


def test_lettuce(server, exchange):
    exchange((["HELLO", "3", *auth(server), "SETNAME", "lettuce"], hello(server, 3)))
    exchange((["CLIENT", "SETINFO", "lib-name", "Lettuce"], set_info(server)),
             (["CLIENT", "SETINFO", "lib-ver", "6.5.0.RELEASE/4bc7d6e"], set_info(server)),
             (["CLIENT", "MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "none"],
              UNKNOWN_MAINT % b"MAINT_NOTIFICATIONS"),
             (["SELECT", "0"], b"+OK\r\n"), (["PING"], b"+PONG\r\n"))
    exchange((["CLUSTER", "NODES"], NO_CLUSTER), (["CLUSTER", "INFO"], NO_CLUSTER),
             (["CLUSTER", "SHARDS"], NO_CLUSTER))


@pytest.mark.parametrize("protocol", [2, 3])
def test_memtier(server, exchange, protocol):
    if server.password:
        exchange((["AUTH", server.password], b"+OK\r\n"))
    exchange((["SELECT", "0"], b"+OK\r\n"), (["HELLO", protocol], hello(server, protocol)))
    exchange((["SET", "memtier-1", "xxxx"], b"+OK\r\n"), (["GET", "memtier-1"], bulk(b"xxxx")),
             (["SETEX", "memtier-2", "100", "xx"], b"+OK\r\n"),
             (["SETRANGE", "memtier-2", "2", "yy"], b":4\r\n"),
             (["GETRANGE", "memtier-2", "1", "2"], bulk(b"xy")),
             (["MGET", "memtier-1", "memtier-2"], b"*2\r\n" + bulk(b"xxxx") + bulk(b"xxyy")),
             (["GET", "memtier-0"], b"_\r\n" if protocol == 3 else b"$-1\r\n"),
             (["WAIT", "0", "10"], b":0\r\n"), (["CLUSTER", "SLOTS"], NO_CLUSTER))


def test_a_wrong_password(server, exchange):
    wrong = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
    if not server.password:
        exchange((["AUTH", "x"], b"-ERR AUTH <password> called without any password configured for the "
                                 b"default user. Are you sure your configuration is correct?\r\n"))
        return
    exchange((["HELLO", "3", "AUTH", "default", "x"], wrong), (["AUTH", "x"], wrong),
             (["AUTH", "nobody", server.password], wrong),
             (["GET", "a"], b"-NOAUTH Authentication required.\r\n"),
             (["SELECT", "0"], b"-NOAUTH Authentication required.\r\n"),
             (["CLIENT", "SETNAME", "x"], b"-NOAUTH Authentication required.\r\n"),
             (["AUTH", server.password], b"+OK\r\n"))


def test_replies_of_known_size(server, client):  # noqa: F811
    """LMCache's own client knows how many bytes it must read and looks at nothing else."""
    value = bytes(range(256)) * 4096

    def exactly(size, *words):
        client.send(Resp.encode(*words))
        return client.stream.read(size)

    assert exactly(4, "EXISTS", "block") == b":0\r\n"
    assert exactly(5, "GET", "block") == b"$-1\r\n"
    assert exactly(5, "SET", "block", value) == b"+OK\r\n"
    assert exactly(4, "EXISTS", "block") == b":1\r\n"
    assert exactly(10 + len(value) + 2, "GET", "block") == b"$1048576\r\n" + value + b"\r\n"
    assert exactly(4, "DEL", "block") == b":1\r\n"
    assert exactly(4, "DEL", "block") == b":0\r\n"
    assert exactly(7, "PING") == b"+PONG\r\n"


def test_reset_goes_back_to_resp2(server, exchange):
    exchange((["HELLO", "3", *auth(server)], hello(server, 3)), (["RESET"], b"+RESET\r\n"))
    if server.password:
        exchange((["GET", "none"], b"-NOAUTH Authentication required.\r\n"),
                 (["AUTH", server.password], b"+OK\r\n"))
    exchange((["GET", "none"], b"$-1\r\n"), (["HELLO"], hello(server, 2)))


def test_what_is_not_there(server, exchange):
    """Locks and subscriptions of clients end with this, not with a closed connection."""
    if server.password:
        exchange((["AUTH", server.password], b"+OK\r\n"))
    exchange((["NOSUCH", "a", "b"],
              b"-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' \r\n"),
             (["CLIENT", "NOSUCH"], b"-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.\r\n"),
             (["GET"], b"-ERR wrong number of arguments for 'get' command\r\n"),
             (["SELECT", "99"], b"-ERR DB index is out of range\r\n"))
    if not server.is_redis:
        exchange((["EVALSHA", "abc", "1", "lock"],
                  b"-ERR unknown command 'EVALSHA', with args beginning with: 'abc' '1' 'lock' \r\n"),
                 (["SUBSCRIBE", "news"],
                  b"-ERR unknown command 'SUBSCRIBE', with args beginning with: 'news' \r\n"),
                 (["HSET", "h", "f", "v"],
                  b"-ERR unknown command 'HSET', with args beginning with: 'h' 'f' 'v' \r\n"))


def test_quit(server):
    connection = Resp(server.port)
    connection.send(Resp.encode("QUIT"))
    assert connection.stream.read() == b"+OK\r\n"
