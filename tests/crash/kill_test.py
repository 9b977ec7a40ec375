"""SIGKILL under load, again and again: each acknowledged write is there after each restart, byte for byte, and
at the end on the other node."""

from cluster_fixture import (MIXED_KEYS, attempt, kill_under_load, make_cluster,  # noqa: F401
                             promote, put, wait_equal, wait_follows, wait_member,
                             wait_promotable, wait_role, wait_serving)
from cluster import Resp
from ledger import Ledger

ROUNDS = 8
PAIRS = 20


def transfer(client, ledger, turn):
    """Two keys that one transaction changes together; returns whether it was acknowledged."""
    client.must("MULTI")
    client.must("SET", f"left:{turn % PAIRS}", turn)
    client.must("SET", f"right:{turn % PAIRS}", turn)
    done = client.must("EXEC") == ["OK", "OK"]
    if done:
        ledger[turn % PAIRS] = turn
    return done


def verify_pairs(node, acked):
    """Both halves of each pair are of the same transaction, the newest acknowledged one or a later one."""
    client = Resp(node.port)
    for pair in range(PAIRS):
        left, right = client.must("MGET", f"left:{pair}", f"right:{pair}")
        assert left == right, f"pair {pair}: {left} and {right}"
        if pair in acked:
            assert left is not None and int(left) >= acked[pair], f"pair {pair}: {left} < {acked[pair]}"
            acked[pair] = int(left)
    client.close()


def test_primary_is_killed(cluster):
    first, second = cluster.pair()
    ledger, pairs, turn = Ledger(MIXED_KEYS), {}, 0
    for round_number in range(ROUNDS):
        ledger.start(first.port)
        client = Resp(first.port)
        for _ in range(50):
            turn += 1
            transfer(client, pairs, turn)
        ledger.wait(first, 300)
        # The last transaction is under way: its outcome is not known.
        client.send(b"".join([client.encode("MULTI"), client.encode("SET", f"left:{turn % PAIRS}", turn + 1),
                              client.encode("SET", f"right:{turn % PAIRS}", turn + 1),
                              client.encode("EXEC")]))
        turn += PAIRS
        first.kill()
        ledger.end()
        first.start()
        wait_serving(first)
        ledger.verify(first)
        verify_pairs(first, pairs)
        wait_member(first)
        assert first.status()["epoch"] == round_number + 2
    wait_promotable(second)
    kill_under_load(ledger, first, writes=300)
    promote(second)
    ledger.verify(second)
    verify_pairs(second, pairs)
    first.start()
    wait_follows(first, second)
    ledger.verify(first)
    verify_pairs(first, pairs)


def test_replica_is_killed(cluster):
    first, second = cluster.pair()
    ledger = Ledger(MIXED_KEYS)
    ledger.start(first.port, bearable=["NOREPLICAS"])
    for _ in range(ROUNDS):
        ledger.wait(first, 300)
        second.kill()
        second.start()
        second.wait_answering()
        wait_member(first)
        # Replies that its absence held back come, or their connections were closed: then anew.
        ledger.end()
        ledger.verify(first)
        ledger.start(first.port, bearable=["NOREPLICAS"])
    ledger.wait(first, 300)
    ledger.end()
    put(first, "last", "word")
    wait_equal(first, second)
    ledger.verify(second)
    wait_promotable(second)
    first.kill()
    promote(second)
    ledger.verify(second)
    assert attempt(second, "GET", "last") == b"word"


def test_both_are_killed_and_the_roles_change(cluster):
    """Each round the primary dies, the other takes over, the dead one follows it and is counted again."""
    primary, replica = cluster.pair()
    ledger = Ledger(MIXED_KEYS)
    for _ in range(4):
        kill_under_load(ledger, primary, writes=300)
        replica.must_kvctl("promote", "--ack-replicas", "1")
        wait_role(replica, "primary")
        replica.kill()
        replica.start()
        wait_role(replica, "primary")
        primary.start()
        wait_role(primary, "replica")
        wait_member(replica)
        ledger.verify(replica)
        wait_promotable(primary)
        wait_equal(replica, primary)
        ledger.verify(primary)
        primary, replica = replica, primary
