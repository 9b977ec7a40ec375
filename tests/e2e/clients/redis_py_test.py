"""Debian's redis-py: the ordinary client, pipelines, WATCH, locks, and its asyncio twin with a large pool."""

import asyncio
import threading
import uuid

import pytest
from client_fixture import make_client, make_server  # noqa: F401

try:
    import redis
    import redis.asyncio
except ImportError:
    redis = None

pytestmark = pytest.mark.skipif(redis is None, reason="python3-redis is not installed")


@pytest.fixture(name="options")
def make_options(server, client):  # noqa: ARG001, F811  (client: the server is empty)
    return {"host": "127.0.0.1", "port": server.port, "password": server.password or None,
            "socket_timeout": 60}


@pytest.fixture(name="r")
def make_redis(options):
    with redis.Redis(**options, client_name="redis-py", health_check_interval=1) as r:
        yield r


def test_strings(r):
    assert r.ping() is True
    assert r.client_getname() == "redis-py"
    assert r.set("a", "1", ex=100) is True
    assert r.set("a", "2", nx=True) is None
    assert r.set("a", "2", xx=True, get=True, keepttl=True) == b"1"
    assert 0 < r.ttl("a") <= 100
    assert r.incrby("a", 40) == 42 and r.incrbyfloat("a", "0.5") == 42.5
    assert r.mset({"b": "x", "c": b"\x00\xff"}) is True
    assert r.mget("b", "none", "c") == [b"x", None, b"\x00\xff"]
    assert r.append("b", "yz") == 3 and r.getrange("b", 1, -1) == b"yz"
    assert r.setbit("bits", 7, 1) == 0 and r.bitcount("bits") == 1
    assert r.bitfield("bits").incrby("u8", 0, 9).get("u8", 0).execute() == [10, 10]
    assert r.expire("b", 100, nx=True) is True and r.persist("b") is True
    assert r.copy("b", "d") is True and r.rename("d", "e") is True
    assert r.exists("b", "d", "e") == 2 and r.delete("b", "d", "e") == 2
    assert r.getex("c", px=100_000) == b"\x00\xff" and r.getdel("c") == b"\x00\xff"
    with pytest.raises(redis.ResponseError, match="^value is not an integer or out of range$"):
        r.incr("a")


def test_what_the_server_tells(r):
    info = r.info()
    assert info["redis_mode"] == "standalone" and info["loading"] == 0
    r.mset({"a": 1, "b": 2})
    r.expire("a", 100)
    keyspace = r.info("keyspace")["db0"]
    assert keyspace["keys"] == 2 and keyspace["expires"] == 1
    assert r.dbsize() == 2
    assert r.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    assert r.role()[0] == b"master"
    assert r.object("encoding", "a") == b"int" and r.memory_usage("a") > 0
    assert [c["name"] for c in r.client_list() if c["id"] == str(r.client_id())] == ["redis-py"]
    command = r.command()
    assert command["get"]["flags"] == ["readonly", "fast"] and command["mset"]["step_count"] == 2
    assert r.wait(0, 10) == 0
    assert isinstance(r.time(), tuple)


@pytest.mark.parametrize("transaction", [True, False])
def test_pipelines(r, transaction):
    with r.pipeline(transaction=transaction) as pipeline:
        for i in range(3_000):
            pipeline.set(f"key:{i}", i)
            pipeline.get(f"key:{i}")
        results = pipeline.execute()
    assert results[::2] == [True] * 3_000
    assert results[1::2] == [b"%d" % i for i in range(3_000)]


@pytest.mark.parametrize("transaction", [True, False])
def test_a_pipeline_with_an_error(r, transaction):
    with r.pipeline(transaction=transaction) as pipeline:
        pipeline.set("a", "word").incr("a").set("b", 1)
        results = pipeline.execute(raise_on_error=False)
    assert results[0] is True and results[2] is True and r.get("b") == b"1"
    assert isinstance(results[1], redis.ResponseError)
    with r.pipeline(transaction=transaction) as pipeline:
        pipeline.set("a", "word").incr("a")
        with pytest.raises(redis.ResponseError, match="^Command # 2 .INCRBY a 1. of pipeline caused error: "):
            pipeline.execute()


def test_watch_sees_a_change(r):
    r.set("a", 1)
    with r.pipeline() as pipeline:
        pipeline.watch("a")
        assert pipeline.get("a") == b"1"
        r.set("a", 2)
        pipeline.multi()
        pipeline.set("a", 3)
        with pytest.raises(redis.WatchError):
            pipeline.execute()
    assert r.get("a") == b"2"


def test_watch_and_try_again(r, options):
    """Four clients count by reading and writing; without WATCH most of it would be lost."""
    rounds, failures = 50, []

    def count():
        def add_one(pipeline):
            here, there = int(pipeline.get("here") or 0), int(pipeline.get("there") or 0)
            pipeline.multi()
            pipeline.set("here", here + 1).set("there", there + 1)
        try:
            with redis.Redis(**options) as mine:
                for _ in range(rounds):
                    mine.transaction(add_one, "here", "there")
        except redis.RedisError as error:
            failures.append(error)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert r.mget("here", "there") == [b"200", b"200"]


def test_scan_iter(r):
    names = {b"user:%d" % i for i in range(2_000)}
    r.mset({name: 1 for name in names})
    r.set("other", 1)
    assert set(r.scan_iter("user:*", count=100)) == names
    assert set(r.scan_iter("user:1??", count=7)) == {b"user:%d" % i for i in range(100, 200)}
    assert set(r.scan_iter(_type="string")) == names | {b"other"}
    assert not list(r.scan_iter(_type="list"))


def test_a_lock(r, options):
    """redis-py takes a lock with SET NX PX and frees it with a script, which kvstored does not run: whoever
    frees it there does so with WATCH."""
    lock = r.lock("lock", timeout=100)
    assert lock.acquire(blocking=False) and lock.locked()
    with redis.Redis(**options) as other:
        assert not other.lock("lock", timeout=100).acquire(blocking=False)

    def free(token):
        def if_mine(pipeline):
            mine = pipeline.get("lock") == token
            pipeline.multi()
            if mine:
                pipeline.delete("lock")
        return r.transaction(if_mine, "lock") == [1]

    assert not free(uuid.uuid4().hex.encode())
    assert free(lock.local.token)
    assert not lock.locked()


def test_decoded_and_from_url(server, client):  # noqa: ARG001, F811
    password = f":{server.password.replace(' ', '%20')}@" if server.password else ""
    with redis.Redis.from_url(f"redis://{password}127.0.0.1:{server.port}/0?decode_responses=True") as r:
        assert r.set("a", "für") and r.get("a") == "für"


def test_a_wrong_password(server, options):
    text = "WRONGPASS invalid username-password pair" if server.password else (
        "AUTH <password> called without any password configured")
    with redis.Redis(**{**options, "password": "wrong"}) as r:
        with pytest.raises(redis.ResponseError, match="^" + text):
            r.ping()
    if server.password:
        with redis.Redis(**{**options, "password": None}) as r:
            with pytest.raises(redis.AuthenticationError, match="Authentication required"):
                r.get("a")


def test_a_pool_of_150_connections(options):
    """As a cache of large blocks uses it: EXISTS, SET and GET, DEL, many at once, some of 1 MiB."""

    async def use():
        pool = redis.asyncio.BlockingConnectionPool(**options, max_connections=150)
        r = redis.asyncio.Redis(connection_pool=pool)

        async def one(i):
            key, block = f"block:{i}", bytes(range(256)) * (4096 if i % 10 == 0 else 16)
            assert await r.exists(key) == 0
            assert await r.set(key, block) is True
            assert await r.exists(key) == 1
            assert await r.get(key) == block
            assert await r.delete(key) == 1

        # All connections exist at the same time before the work begins.
        connections = [await pool.get_connection("_") for _ in range(150)]
        for connection in connections:
            await pool.release(connection)
        await asyncio.gather(*(one(i) for i in range(150)))
        async with r.pipeline(transaction=True) as pipeline:
            assert await pipeline.incr("n").incr("n").execute() == [1, 2]
        await r.close()
        await pool.disconnect()

    asyncio.run(use())
