"""CONFIG SET of what the members must consent to: OK means that it is in force."""

from cluster_fixture import attempt, make_cluster, put, wait_refusal  # noqa: F401
from cluster import Resp


def acknowledgement(node):
    client = Resp(node.port)
    return [client.must("CONFIG", "GET", key)[1].decode()
            for key in ("replication.ack_replicas", "replication.ack", "server.timeout")]


def test_ok_is_said_when_it_is_in_force(cluster):
    first, second = cluster.pair()
    client = Resp(first.port)
    client.must("CONFIG", "SET", "replication.ack", "received", "server.timeout", "1h")
    assert acknowledgement(first) == ["1", "received", "1h"]
    client.must("CONFIG", "SET", "replication.ack_replicas", "0")
    assert acknowledgement(first) == ["0", "received", "1h"]
    put(first, "some", "thing")
    # A replica has no member set of its own.
    reply = attempt(second, "CONFIG", "SET", "replication.ack_replicas", "3")
    assert isinstance(reply, Exception) and "not a primary" in str(reply)
    # A transaction cannot wait.
    client.must("MULTI")
    client.must("CONFIG", "SET", "replication.ack_replicas", "2")
    client.must("CONFIG", "SET", "server.timeout", "2h")
    replies = client.must("EXEC")
    assert "transaction cannot wait" in str(replies[0]) and replies[1] == "OK"
    assert acknowledgement(first) == ["0", "received", "2h"]


def test_a_member_that_cannot_be_asked_refuses_it(cluster):
    first, second = cluster.pair()
    second.kill()
    wait_refusal(first, "NOREPLICAS")
    reply = attempt(first, "CONFIG", "SET", "replication.ack_replicas", "0", "server.timeout", "1h")
    assert isinstance(reply, Exception) and "CONFIG SET failed - a member" in str(reply)
    assert acknowledgement(first) == ["1", "persisted", "0"]


def test_raising_the_count_refuses_nothing(cluster):
    """The replica streams already: writes wait until it is a member."""
    first, _ = cluster.learner("replication.commit_timeout=60s", "replication.gate_timeout=60s")
    client = Resp(first.port)
    for turn in range(5):
        client.must("CONFIG", "SET", "replication.ack_replicas", "1")
        assert client.must("SET", "raised", str(turn)) == "OK"
        client.must("CONFIG", "SET", "replication.ack_replicas", "0")
