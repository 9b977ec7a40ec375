"""Directories that a node cannot use, and disks that are full: a clear error, nothing lost, no crash. (Port in
use, directory locked: tests/e2e/daemon_basic_test.py.)"""

import errno
import os
import shutil
import subprocess

import pytest
from cluster_fixture import (ALONE, SMALL_KEYS, Failure, attempt, make_cluster,  # noqa: F401
                             must_refuse, promote, put, wait_equal, wait_loaded, wait_member,
                             wait_promotable, wait_refusal, wait_role, wait_serving,
                             wait_streaming)
from cluster import Resp
from ledger import Ledger

MIB = 1 << 20
# No checkpoint comes and makes room.
STAYS_FULL = ["log.segment_size=4MiB", "log.checkpoint_interval=0", "log.checkpoint_log_size=0"]
# Root ignores permission bits unless it gives up the right to.
OBEY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


def test_data_directory_unwritable(cluster):
    node = cluster.node("node", settings=ALONE)
    node.prefix = OBEY
    data = node.directory / "data"
    data.mkdir(parents=True)
    data.chmod(0o500)
    node.start()
    assert node.wait_end() == 1
    text = node.log_text()
    assert f"{data}: Permission denied; the directory must belong to the user" in text, text
    # With data in it: nothing of it changes, and it is there when the right is given back.
    data.chmod(0o700)
    node.start()
    put(node, "key", "value")
    node.stop()
    data.chmod(0o500)
    before = sorted((p, p.stat().st_mtime_ns) for p in data.rglob("*"))
    node.start()
    assert node.wait_end() == 1
    assert str(data) in node.log_text() and "Permission denied" in node.log_text()
    assert sorted((p, p.stat().st_mtime_ns) for p in data.rglob("*")) == before
    data.chmod(0o700)
    node.start()
    wait_serving(node)
    assert attempt(node, "GET", "key") == b"value"


def test_data_directory_is_a_file(cluster):
    node = cluster.node("node", settings=ALONE)
    node.directory.mkdir(parents=True)
    (node.directory / "data").write_text("something else")
    node.start()
    assert node.wait_end() == 1
    assert "is not a directory" in node.log_text()
    assert (node.directory / "data").read_text() == "something else"


def test_locked_directory_leaves_the_first_alone(cluster):
    """Two processes on one directory, started again and again while the first is written to."""
    node = cluster.alone()
    ledger = Ledger(SMALL_KEYS)
    ledger.start(node.port)
    for _ in range(3):
        ledger.wait(node, 200)
        other = cluster.node("other", settings=[*ALONE, f"server.data_dir={node.directory / 'data'}"])
        other.start()
        assert other.wait_end() == 1
        text = other.log_text()
        assert "is in use by another process" in text and str(node.process.pid) in text, text
    ledger.stop()
    ledger.verify(node)
    node.kill()
    node.start()
    wait_serving(node)
    ledger.verify(node)


@pytest.fixture(name="small_disk")
def make_small_disk(tmp_path):
    """A file system of its own for one node; where mounting is not permitted the tests say so."""
    directory = tmp_path / "disk"
    directory.mkdir()
    result = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", directory],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if result.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {result.stdout.decode().strip()}")
    yield directory
    subprocess.run(["umount", "-l", directory], check=False)


def fill_disk(directory, leave=0):
    """Takes all of the room but `leave` bytes; what to remove to give it back."""
    ballast = directory / "ballast"
    free = os.statvfs(directory)
    with open(ballast, "wb", buffering=0) as file:
        left = free.f_bavail * free.f_frsize - leave
        while left > 0:
            try:
                left -= file.write(bytes(min(left, MIB)))
            except OSError as error:
                # A node beside takes room, too.
                assert error.errno == errno.ENOSPC
                break
    return ballast


def write_until_refused(node, ledger_keys):
    """1 MiB values until one is refused; what was acknowledged."""
    client = Resp(node.port)
    acked = {}
    for i in range(200):
        value = b"%d/" % i + bytes([i % 251]) * MIB
        reply = client.call("SET", f"{ledger_keys}:{i}", value)
        if isinstance(reply, Exception):
            return acked, str(reply)
        acked[f"{ledger_keys}:{i}"] = value
    raise Failure(f"{node.name} took 200 MiB on a full disk")


def verify(node, acked):
    client = Resp(node.port)
    for key, value in acked.items():
        found = client.must("GET", key)
        assert found == value, f"{key}: {len(found or b'')} bytes instead of {len(value)}"
    client.close()


def test_full_disk_of_a_node_alone(cluster, small_disk):
    node = cluster.node("node", settings=[*ALONE, *STAYS_FULL], directory=small_disk / "node")
    node.start()
    wait_serving(node)
    put(node, "first", "value")
    ballast = fill_disk(small_disk, leave=6 * MIB)
    acked, refusal = write_until_refused(node, "a")
    assert refusal.startswith("MISCONF ") and "No space left" in refusal
    # Reads go on, the operator gets in, the node says what is wrong.
    verify(node, acked)
    status = node.status()
    assert status["disk_full"] and status["role"] == "primary"
    # What lies ready may still hold small ones, but not for long.

    def refuses_all():
        attempt(node, "SET", "small", bytes(1 << 16))
        return "-MISCONF" in node.status()["refuses_writes"]

    node.wait("refusing small writes, too", refuses_all)
    assert not node.status()["writable"]
    node.wait("explaining", lambda: "free space or lower log.segment_size" in node.log_text())
    # A crash on a full disk loses nothing and starts, as often as it happens: each start takes what is left
    # of the room that is kept for its epoch, then it waits for more.
    for _ in range(4):
        node.kill()
        node.start()
        wait_loaded(node)
        verify(node, acked)
        assert attempt(node, "GET", "first") == b"value"
        node.wait("refusing large writes with MISCONF", lambda: str(
            attempt(node, "SET", "large", bytes(MIB))).startswith("MISCONF "))
    assert "the log has no room for a new epoch" in node.log_text()
    must_refuse(node, "MISCONF")
    # Room again: writes work again by themselves.
    ballast.unlink()
    put(node, "room", "again")
    more, _ = write_until_refused(node, "b")
    assert len(more) > 5
    verify(node, {**acked, **more})
    node.kill()
    node.start()
    wait_loaded(node)
    verify(node, {**acked, **more})


def test_a_transaction_that_no_disk_could_hold(cluster, small_disk):
    """It alone is refused. With one shard the disk is not filled for it either; with several each shard's part
    might fit by itself, and segments are made until the sum does not."""
    node = cluster.node("node", settings=[*ALONE, "log.segment_size=4MiB"], directory=small_disk / "node")
    node.start()
    wait_serving(node)
    free = shutil.disk_usage(small_disk).free
    client = Resp(node.port)
    assert client.call("MULTI") == "OK"
    for i in range(30):
        assert client.call("SET", f"large:{i}", bytes(MIB)) == "QUEUED"
    reply = client.call("EXEC")
    assert "MISCONF" in str(reply), reply
    assert client.call("EXISTS", "large:0") == 0
    put(node, "small", "value")
    node.wait("over it", lambda: not node.status()["disk_full"])
    if len(node.status()["shards"]) == 1:
        assert shutil.disk_usage(small_disk).free > free - 12 * MIB
    node.wait("naming the reason", lambda: "a command or transaction needs" in node.log_text())
    assert client.call("SET", "large", bytes(MIB)) == "OK"


def test_a_log_that_filled_the_disk_makes_room_by_itself(cluster, small_disk):
    """Little data, written again and again: a checkpoint frees the log, though none was due."""
    # A busy machine may be slow; the gate is not what is tested.
    settings = [*ALONE, "log.segment_size=4MiB", "replication.gate_timeout=60s"]
    node = cluster.node("node", settings=settings, directory=small_disk / "node")
    node.start()
    wait_serving(node)
    acked, _ = write_until_refused(node, "a")
    acked["a:0"] = b"again" + bytes(MIB)

    def checkpoint_after_more_writes():
        attempt(node, "SET", "a:0", acked["a:0"])
        return node.status()["checkpoints"] > 0

    node.wait("making room", checkpoint_after_more_writes)
    put(node, "a:0", acked["a:0"])
    verify(node, acked)
    node.kill()
    node.start()
    wait_loaded(node)
    verify(node, acked)


def test_disk_that_others_filled_to_the_last_byte(cluster, small_disk):
    """An orderly end and a start need no room: reads go on, writes when there is some again."""
    node = cluster.node("node", settings=[*ALONE, "log.segment_size=4MiB"],
                        directory=small_disk / "node")
    node.start()
    wait_serving(node)
    put(node, "first", "value")
    for end in (node.stop, node.kill):
        ballast = fill_disk(small_disk)
        end()
        node.start()
        wait_loaded(node)
        assert attempt(node, "GET", "first") == b"value"
        ballast.unlink()
        put(node, "room", "again")
        assert attempt(node, "GET", "room") == b"again"
    assert "gives up its role" not in node.log_text()


def test_full_disk_at_the_first_start(cluster, small_disk):
    """It says what is missing and begins to serve when it is there."""
    data = small_disk / "data"
    node = cluster.node("node", settings=[*ALONE, f"server.data_dir={data}"])
    ballast = fill_disk(small_disk)
    node.start()
    assert node.wait_end() == 1
    text = node.log_text()
    assert str(data) in text and "No space left on device" in text, text
    ballast.unlink()
    # Room for meta, not for the log.
    ballast = fill_disk(small_disk, leave=MIB)
    node.start()
    wait_refusal(node, "MISCONF")
    text = node.log_text()
    assert f"{data} has" in text and "free space or lower log.segment_size" in text, text
    node.wait("state", lambda: "waiting for room" in node.status()["state"])
    ballast.unlink()
    put(node, "key", "value")
    node.kill()
    node.start()
    wait_serving(node)
    assert attempt(node, "GET", "key") == b"value"


def test_full_disk_of_a_replica(cluster, small_disk):
    """It takes no more, says so, keeps what it has, and goes on by itself."""
    first = cluster.node("first", settings=STAYS_FULL).start()
    first.wait_answering()
    second = cluster.node("second", first, STAYS_FULL, small_disk / "second").start()
    wait_member(first)
    wait_promotable(second)
    ballast = fill_disk(small_disk, leave=6 * MIB)
    acked = {}
    client = Resp(first.port)
    for i in range(200):
        key, value = f"a:{i}", b"%d/" % i + bytes([i % 251]) * MIB
        try:
            reply = client.call("SET", key, value)
        except OSError:
            break  # the gate's time is over: its outcome is unknown
        if isinstance(reply, Exception):
            assert str(reply).startswith("NOREPLICAS "), reply
            break
        acked[key] = value
    else:
        raise Failure("200 MiB were acknowledged by a member whose disk is full")
    wait_refusal(first, "NOREPLICAS")
    second.wait("disk_full", lambda: second.status().get("disk_full"))
    assert second.running() and second.status()["role"] == "replica"
    verify(first, acked)
    # Killed on its full disk it comes back as it was.
    second.kill()
    second.start()
    wait_loaded(second)
    wait_streaming(second)
    large = 0
    while str(attempt(first, "SET", f"large:{large}", bytes(MIB))) == "OK":
        acked[f"large:{large}"] = bytes(MIB)
        large += 1
        assert large < 10
    wait_refusal(first, "NOREPLICAS")
    ballast.unlink()
    put(first, "room", "again")
    wait_equal(first, second)
    verify(second, acked)
    wait_promotable(second)
    first.kill()
    promote(second)
    verify(second, acked)
    assert attempt(second, "GET", "room") == b"again"


def test_wiped_directories_one_after_the_other(cluster):
    """First the replica's, which takes everything anew; then the primary's, whose data the replica has."""
    ledger = Ledger(SMALL_KEYS)
    first, second = cluster.written_pair(ledger)
    old = second.status()["store"]
    second.kill()
    shutil.rmtree(second.directory / "data")
    second.start()
    wait_streaming(second)
    first.must_kvctl("member", "replace", old, second.status()["store"], "--force")
    wait_member(first)
    wait_promotable(second)
    ledger.fill(first.port)
    wait_equal(first, second)
    first.kill()
    shutil.rmtree(first.directory / "data")
    second.must_kvctl("promote", "--ack-replicas", "1")
    wait_role(second, "primary")
    ledger.verify(second)
    first.settings.append(f"replication.primary={second.replication_address}")
    first.start()
    wait_member(second)
    put(second, "after", "both")
    wait_equal(second, first)
    ledger.verify(first)
