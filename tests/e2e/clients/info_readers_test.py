"""INFO of a primary and its replica, read as redis_exporter reads it (by heading) and as Redis Sentinel does
(line by line); and a real Sentinel, which may watch and tell clients where the primary is, but never choose one."""

import re
import subprocess
import sys
import time

import pytest
from client_fixture import HERE, LOCALHOST, Resp, die_with_parent, free_ports

sys.path.insert(0, str(HERE.parent))
from cluster_fixture import Cluster, put, wait_equal, wait_serving  # noqa: E402

# What dashboards and alerts on redis_exporter's metrics are made of.
FIELDS = {
    "Server": ["redis_version", "redis_mode", "os", "process_id", "run_id", "tcp_port",
               "uptime_in_seconds"],
    "Clients": ["connected_clients", "maxclients", "blocked_clients"],
    "Memory": ["used_memory", "used_memory_rss", "used_memory_peak", "maxmemory", "maxmemory_policy",
               "mem_fragmentation_ratio", "mem_allocator"],
    "Persistence": ["loading", "rdb_changes_since_last_save", "rdb_bgsave_in_progress",
                    "rdb_last_save_time", "rdb_last_bgsave_status", "aof_enabled",
                    "aof_rewrite_in_progress", "aof_last_write_status"],
    "Stats": ["total_connections_received", "total_commands_processed", "instantaneous_ops_per_sec",
              "total_net_input_bytes", "total_net_output_bytes", "rejected_connections", "expired_keys",
              "evicted_keys", "keyspace_hits", "keyspace_misses", "sync_full", "sync_partial_ok",
              "sync_partial_err"],
    "Replication": ["role", "connected_slaves", "master_replid", "master_repl_offset"],
    "CPU": ["used_cpu_sys", "used_cpu_user"],
    "Cluster": ["cluster_enabled"],
}


@pytest.fixture(name="pair", scope="module")
def make_pair(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("pair"), 4)
    yield cluster.pair()
    cluster.close()


def sections(text):
    """Heading -> fields in order. Every line ends with CRLF, an empty one stands before each heading but the
    first."""
    assert text.endswith("\r\n") and "\n" not in text.replace("\r\n", "")
    found, heading = {}, None
    for line in text[:-2].split("\r\n"):
        if line.startswith("# "):
            heading = line[2:]
            found[heading] = {}
        elif line:
            name, value = line.split(":", 1)
            assert name not in found[heading], line
            found[heading][name] = value
    assert text.count("\r\n\r\n") == len(found) - 1
    return found


def numbers(value):
    """`keys=1,expires=0,avg_ttl=0` as redis_exporter takes it apart."""
    return {name: float(number) for name, number in (part.split("=") for part in value.split(","))}


def read(node, *words):
    client = Resp(node.port)
    try:
        return sections(client.must("INFO", *words).decode())
    finally:
        client.close()


def test_what_redis_exporter_reads(pair):
    first, _ = pair
    client = Resp(first.port)
    client.must("CONFIG", "RESETSTAT")
    client.must("MSET", "a", "1", "b", "2")
    client.must("SET", "c", "3", "EX", 1000)
    client.must("GET", "none")
    assert isinstance(client.call("INCR"), Exception)
    found = read(first, "ALL")
    for heading, names in FIELDS.items():
        assert not set(names) - set(found[heading]), heading
    assert numbers(found["Keyspace"]["db0"]) == {"keys": 3, "expires": 1, "avg_ttl": 0}
    get = numbers(found["Commandstats"]["cmdstat_get"])
    assert get["calls"] == 1 and get["failed_calls"] == 0 and get["usec"] >= 0
    assert numbers(found["Commandstats"]["cmdstat_incr"])["rejected_calls"] == 1
    assert found["Stats"]["keyspace_misses"] == "1"
    replication = found["Replication"]
    assert replication["role"] == "master" and replication["connected_slaves"] == "1"
    assert re.match(r"ip=127\.0\.0\.1,port=\d+,state=online,offset=\d+,lag=\d+(,|$)", replication["slave0"])
    # Each is one number for Prometheus.
    for heading in ("Clients", "Stats", "CPU"):
        for name, value in found[heading].items():
            assert re.fullmatch(r"-?\d+(\.\d+)?", value), name
    client.must("FLUSHALL")
    assert read(first, "keyspace") == {"Keyspace": {}}
    assert client.must("INFO", "no-such-section") == b""
    client.close()


def test_what_redis_exporter_asks_besides(pair):
    client = Resp(pair[0].port)
    assert client.call("CLIENT", "SETNAME", "redis_exporter") == "OK"
    settings = client.call("CONFIG", "GET", "*")
    assert len(settings) % 2 == 0 and b"maxmemory" in settings[::2] and b"maxclients" in settings[::2]
    assert b"name=redis_exporter " in client.call("CLIENT", "LIST")
    assert client.call("COMMAND", "INFO", "COMMANDLOG") == [None]
    assert read(pair[0], "MODULES") == {"Modules": {}}
    client.close()


def test_headings_are_those_of_redis(pair, tmp_path):
    port, = free_ports(1)
    redis = subprocess.Popen(["/usr/bin/redis-server", "--port", str(port), "--bind", LOCALHOST, "--save",
                              "", "--dir", str(tmp_path)], stdout=subprocess.DEVNULL,
                             preexec_fn=die_with_parent)
    try:
        reference = wait_for(lambda: connected(port))
        ours = Resp(pair[0].port)
        for words in ([], ["all"], ["default"], ["everything"], ["server", "keyspace"], ["STATS"]):
            theirs = sections(reference.must("INFO", *words).decode())
            assert list(sections(ours.must("INFO", *words).decode())) == list(theirs), words
    finally:
        redis.terminate()
        redis.wait(60)


def test_what_sentinel_reads(pair):
    first, second = pair
    put(first, "a", "1")
    wait_equal(first, second)
    for node in pair:
        run_id = read(node, "server")["Server"]["run_id"]
        assert re.fullmatch("[0-9a-f]{40}", run_id)
    assert f"ip={LOCALHOST},port={second.port}," in read(first)["Replication"]["slave0"]
    replica = read(second)["Replication"]
    assert replica["role"] == "slave"
    assert replica["master_host"] == LOCALHOST and replica["master_port"] == str(first.port)
    assert replica["master_link_status"] == "up" and replica["slave_priority"] == "100"
    assert replica["slave_repl_offset"] == read(first)["Replication"]["master_repl_offset"]
    assert replica["replica_announced"] == "1"
    assert "master_link_down_since_seconds" not in replica
    assert 0 <= int(replica["master_last_io_seconds_ago"]) < 60


def test_sentinel_cannot_promote(pair):
    """What it sends to the replica that it has chosen."""
    client = Resp(pair[1].port)
    client.send(b"".join(Resp.encode(*words.split()) for words in (
        "MULTI", "SLAVEOF NO ONE", "CONFIG REWRITE", "CLIENT KILL TYPE normal", "CLIENT KILL TYPE pubsub",
        "EXEC")))
    replies = [client.read() for _ in range(6)]
    assert replies[0] == "OK" and replies[2:5] == ["QUEUED"] * 3
    assert str(replies[1]) == "ERR Command not allowed inside a transaction"
    assert str(replies[5]) == "EXECABORT Transaction discarded because of previous errors."
    assert read(pair[1])["Replication"]["role"] == "slave"
    client.close()


def connected(port):
    try:
        client = Resp(port)
        client.must("PING")
        return client
    except OSError:
        return None


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < deadline
        time.sleep(0.1)


def pairs(flat):
    return dict(zip(flat[::2], flat[1::2]))


def test_a_real_sentinel(tmp_path):
    redis_sentinel = pytest.importorskip("redis.sentinel", reason="python3-redis is not installed")
    cluster = Cluster(tmp_path, 4)
    port, = free_ports(1)
    sentinel = None
    try:
        first, second = cluster.pair()
        put(first, "a", "1")
        config = tmp_path / "sentinel.conf"
        config.write_text(f"port {port}\nbind {LOCALHOST}\ndir {tmp_path}\n"
                          f"sentinel monitor kv {LOCALHOST} {first.port} 1\n"
                          "sentinel down-after-milliseconds kv 3000\nsentinel failover-timeout kv 3000\n")
        with open(tmp_path / "sentinel.log", "wb") as log:
            sentinel = subprocess.Popen(["/usr/bin/redis-server", str(config), "--sentinel"], stdout=log,
                                        preexec_fn=die_with_parent)
        asked = wait_for(lambda: connected(port))

        def state():
            return pairs(asked.must("SENTINEL", "MASTER", "kv"))

        def replica():
            found = asked.must("SENTINEL", "REPLICAS", "kv")
            return pairs(found[0]) if found else {}

        # It finds the replica by itself and sees both as they are.
        wait_for(lambda: replica().get(b"master-link-status") == b"ok")
        assert replica()[b"port"] == b"%d" % second.port
        assert replica()[b"role-reported"] == b"slave"
        assert state()[b"role-reported"] == b"master" and state()[b"num-slaves"] == b"1"
        run_id = read(first, "server")["Server"]["run_id"]
        wait_for(lambda: state()[b"runid"].decode() == run_id)
        where = [LOCALHOST.encode(), b"%d" % first.port]
        assert asked.must("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "kv") == where
        known = redis_sentinel.Sentinel([(LOCALHOST, port)])
        assert known.master_for("kv").set("b", "2") and known.slave_for("kv").get("a") == b"1"
        # The primary goes, and Sentinel may try as it likes: whoever promotes is kvctl.
        first.kill()
        said = tmp_path / "sentinel.log"
        wait_for(lambda: "-failover-abort-" in said.read_text())
        assert second.status()["role"] == "replica"
        second.must_kvctl("promote", "--ack-replicas", "0")
        wait_serving(second)
        client = Resp(second.port)
        assert client.must("GET", "a") == b"1"
        client.close()
        asked.close()
    finally:
        if sentinel:
            sentinel.terminate()
            sentinel.wait(60)
        cluster.close()
