"""A replica that was away: what it missed comes from the log, or, where the log no longer has it, from memory
in a full sync. Three nodes: who counts, who only follows, and who may take over."""

import pytest
from cluster_fixture import (MIXED_KEYS, SMALL_KEYS, kill_under_load, log_length,  # noqa: F401
                             make_cluster, promote, put, wait_equal, wait_follows, wait_member,
                             wait_promotable, wait_refusal, wait_role, wait_serving,
                             wait_streaming)
from cluster import Resp, counting_members
from ledger import Ledger

MIB = 1 << 20


def write_while_away(first, second, ledger, megabytes):
    second.kill()
    ledger.start(first.port)
    ledger.wait(first, 1000)
    ledger.stop()
    client = Resp(first.port)
    for i in range(megabytes):
        client.must("SET", f"filler:{i % 4}", bytes([i % 251]) * MIB)
    for i in range(50):
        client.must("SET", f"gone:{i}", "?")
    client.must("MULTI")
    client.must("DEL", *(f"gone:{i}" for i in range(50)))
    client.must("SET", "left", "one")
    client.must("SET", "right", "one")
    assert client.must("EXEC") == [50, "OK", "OK"]
    client.must("SET", "expiring", "?", "PX", "600000")


def same_on(first, second, ledger):
    wait_equal(first, second)
    ledger.verify(second)
    one, two = Resp(first.port), Resp(second.port)
    assert one.must("DBSIZE") == two.must("DBSIZE")
    for key in ("filler:0", "filler:3", "left", "right", "gone:7"):
        assert one.must("GET", key) == two.must("GET", key)
    assert 0 < two.must("PTTL", "expiring") <= 600000


def test_catch_up_from_the_log(cluster):
    first, second = cluster.learner()
    ledger = Ledger(MIXED_KEYS)
    write_while_away(first, second, ledger, 4)
    second.start()
    wait_streaming(second)
    assert "full sync" not in second.log_text()
    same_on(first, second, ledger)
    # While it catches up, writes go on.
    second.kill()
    ledger.start(first.port)
    ledger.wait(first, 1000)
    second.start()
    wait_streaming(second)
    ledger.wait(first, 300)
    ledger.stop()
    same_on(first, second, ledger)
    assert "full sync" not in second.log_text()


def test_full_sync_beyond_what_the_log_keeps(cluster):
    first, second = cluster.learner("log.retain=0", "log.segment_size=4MiB")
    ledger = Ledger(MIXED_KEYS)
    write_while_away(first, second, ledger, 24)
    first.must_kvctl("checkpoint")
    Resp(first.port).must("SET", "one", "more")
    ledger.start(first.port)  # writes go on during the sync
    second.start()
    wait_streaming(second)
    ledger.wait(first, 300)
    ledger.stop()
    assert "full sync: complete, states are equal" in second.log_text()
    same_on(first, second, ledger)
    # What was published is the data set of the next start.
    second.kill()
    second.start()
    wait_streaming(second)
    assert "full sync" not in second.log_text()
    same_on(first, second, ledger)


@pytest.mark.parametrize("who", ["replica", "primary"])
def test_killed_during_a_full_sync(cluster, who):
    """The old data set stays until the new one is whole."""
    first, second = cluster.learner("log.retain=0", "log.segment_size=4MiB")
    ledger = Ledger(SMALL_KEYS)
    client = Resp(first.port)
    for i in range(100):
        client.must("SET", f"bulk:{i}", bytes([i]) * MIB)
    write_while_away(first, second, ledger, 12)
    first.must_kvctl("checkpoint")
    client.must("SET", "one", "more")
    second.start()
    second.wait("in full sync", lambda: second.status().get("stream") == "full_sync" or
                "full sync: complete" in second.log_text(), interval=0.005)
    (second if who == "replica" else first).kill()
    if who == "primary":
        second.wait("without a primary", lambda: second.status().get("stream") == "connecting")
        first.start()
        wait_serving(first)
    else:
        second.start()
    wait_streaming(second)
    same_on(first, second, ledger)
    assert Resp(second.port).must("GET", "bulk:99") == bytes([99]) * MIB


def trio(cluster, ack_replicas):
    settings = [f"replication.ack_replicas={ack_replicas}"]
    first = cluster.node("first", settings=settings).start()
    first.wait_answering()
    others = [cluster.node(name, first, settings).start() for name in ("second", "third")]
    for node in others:
        wait_streaming(node)
    wait_member(first, ack_replicas)
    return first, others


def test_three_nodes_one_member(cluster):
    """The member's death stops writes, the learner's does not; the learner takes the member's place."""
    first, others = trio(cluster, 1)
    members = {m["store"] for m in counting_members(first.status())}
    member = next(n for n in others if n.status()["store"] in members)
    other = next(n for n in others if n is not member)
    wait_promotable(member)
    assert not other.status()["promotable"]
    ledger = Ledger(SMALL_KEYS)
    ledger.start(first.port)
    ledger.wait(first, 500)
    other.kill()
    ledger.wait(first, 500)
    other.start()
    wait_streaming(other)
    ledger.wait(first, 500)
    ledger.stop()
    member.kill()
    wait_refusal(first, "NOREPLICAS")
    first.must_kvctl("member", "replace", next(iter(members)), other.status()["store"], "--force")
    put(first, "after", "replace")
    wait_promotable(other)
    # Who lost its place by force loses its right as soon as it is back.
    member.start()
    wait_streaming(member)
    member.wait("without the right", lambda: not member.status().get("promotable"))
    ledger.fill(first.port)
    first.kill()
    code, _, error = member.kvctl("promote", "--ack-replicas", "0")
    assert code == 1 and "may lack acknowledged writes" in error
    other.must_kvctl("promote", "--ack-replicas", "1")
    wait_role(other, "primary")
    # The third node hears of it, follows and is counted.
    wait_member(other)
    put(other, "after", "promotion")
    ledger.verify(other)
    wait_equal(other, member)
    ledger.verify(member)
    first.start()
    wait_follows(first, other)
    ledger.verify(first)


def test_three_nodes_two_members(cluster):
    """Both must acknowledge; after the primary's death either has everything."""
    first, others = trio(cluster, 2)
    for node in others:
        wait_promotable(node)
    ledger = Ledger(SMALL_KEYS)
    ledger.start(first.port, bearable=["NOREPLICAS"])
    ledger.wait(first, 500)
    others[0].kill()
    wait_refusal(first, "NOREPLICAS")
    others[0].start()
    wait_member(first, 2)
    put(first, "both", "again")
    ledger.end()
    kill_under_load(ledger, first)
    lengths = [log_length(node) for node in others]
    longer, shorter = others if lengths[0] >= lengths[1] else others[::-1]
    # Even if another shard's log is the longer one at the other node.
    if lengths[0] != lengths[1]:
        code, _, error = shorter.kvctl("promote", "--ack-replicas", "1")
        assert code == 1 and "has a longer log" in error, error
    longer.must_kvctl("promote", "--ack-replicas", "1")
    wait_role(longer, "primary")
    wait_member(longer)
    ledger.verify(longer)
    put(longer, "after", "promotion")
    wait_equal(longer, shorter)
    ledger.verify(shorter)
    first.start()
    wait_follows(first, longer)
    ledger.verify(first)
