"""Promotion that is interrupted, repeated, or asked of the wrong node."""

import shutil
import threading

import pytest
from cluster_fixture import (SMALL_KEYS, Failure, attempt, kill_under_load, log_length,  # noqa: F401
                             make_cluster, must_refuse, promote, put, wait_equal, wait_follows,
                             wait_loaded, wait_member, wait_promotable, wait_refusal, wait_role,
                             wait_serving, wait_streaming)
from cluster import BIN, Resp
from ledger import Ledger

MOMENTS_MAX = 40


def killed_under_load(first):
    ledger = Ledger(SMALL_KEYS)
    kill_under_load(ledger, first, writes=1000)
    return ledger


def test_killed_at_every_moment_of_a_promotion(cluster):
    """Before each call by which it makes something durable. It comes back as the replica or as the primary,
    holds everything, and serves after another promotion or by itself, with one more epoch."""
    first, second = cluster.pair()
    ledger = killed_under_load(first)
    epoch = second.status()["epoch"]
    second.stop()
    before = cluster.directory / "before"
    shutil.copytree(second.directory / "data", before)
    armed = cluster.directory / "armed"
    roles = []
    for moment in range(1, MOMENTS_MAX):
        shutil.rmtree(second.directory / "data")
        shutil.copytree(before, second.directory / "data")
        armed.unlink(missing_ok=True)
        second.environment = {"LD_PRELOAD": str(BIN / "libkill_at.so"), "KVS_KILL_AT": str(moment),
                              "KVS_KILL_ARMED": str(armed)}
        second.start().wait_answering()
        wait_promotable(second)
        armed.touch()
        code, _, error = second.kvctl("promote", "--ack-replicas", "0")
        second.environment = {}
        if code == 0:
            # The epoch's first record may become durable after the answer: nothing is acknowledged before.
            break
        assert "connection" in error or "closed" in error, error
        assert second.wait_end() == -9 and armed.read_text() == "x"
        second.start()
        wait_loaded(second)
        roles.append(second.status()["role"])
        if roles[-1] == "replica":
            # It reads up to what it was told to be committed; only the promotion knows more.
            must_refuse(second, "READONLY")
            second.must_kvctl("promote", "--ack-replicas", "0")
        assert wait_serving(second)["epoch"] > epoch
        ledger.verify(second)
        put(second, "after", str(moment))
        second.kill()
    else:
        raise Failure(f"a promotion takes more than {MOMENTS_MAX} durable steps")
    # The switch of the role is one moment: replica before it, primary from it on.
    assert set(roles) == {"replica", "primary"} and roles == sorted(roles, reverse=True), roles
    # The old primary finds out what happened, whoever was killed how often.
    if second.running():
        second.kill()
    second.start()
    wait_serving(second)
    put(second, "last", "word")
    first.start()
    wait_follows(first, second)
    ledger.verify(first)
    assert attempt(first, "GET", "last") == b"word"


def test_promoted_twice(cluster):
    first, second = cluster.pair()
    ledger = killed_under_load(first)
    epoch = second.status()["epoch"]
    answers = []

    def ask():
        answers.append(second.kvctl("promote", "--ack-replicas", "0"))

    both = [threading.Thread(target=ask) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert sorted(code for code, _, _ in answers) == [0, 1], answers
    refusal = next(error for code, _, error in answers if code == 1)
    assert "under way" in refusal or "the primary already" in refusal
    assert wait_serving(second)["epoch"] == epoch + 1
    code, _, error = second.kvctl("promote")
    assert code == 1 and "this node is the primary already" in error
    assert second.status()["epoch"] == epoch + 1
    ledger.verify(second)
    put(second, "freed", "yes")
    # The old primary may not be promoted from below the new one either.
    first.start()
    wait_role(first, "replica")
    wait_streaming(first)
    code, _, error = first.kvctl("promote", "--ack-replicas", "0")
    assert code == 1 and "may lack acknowledged writes" in error and "--accept-loss" in error
    assert wait_serving(second)["epoch"] == epoch + 1


def test_two_replicas_of_different_length(cluster):
    """Both have the right to be promoted; one was away for the last writes, which its absence held back. The
    shorter one's promotion is refused, the longer one's takes over what was written."""
    two = ["replication.ack_replicas=2"]
    first = cluster.node("first", settings=two).start()
    first.wait_answering()
    longer = cluster.node("longer", first, two).start()
    shorter = cluster.node("shorter", first, two).start()
    wait_member(first, 2)
    wait_promotable(longer)
    wait_promotable(shorter)
    ledger = Ledger(SMALL_KEYS)
    ledger.start(first.port)
    ledger.wait(first, 1000)
    shorter.kill()
    # What is under way now reaches one member: it is not acknowledged.
    wait_refusal(first, "NOREPLICAS")
    ledger.end()
    first.kill()
    shorter.start()
    wait_loaded(shorter)
    assert shorter.status()["promotable"] and longer.status()["promotable"]
    assert log_length(longer) > log_length(shorter)
    code, _, error = shorter.kvctl("promote", "--ack-replicas", "0")
    assert code == 1 and "has a longer log" in error and longer.replication_address in error
    wait_role(shorter, "replica")
    promote(longer)
    ledger.verify(longer)
    put(longer, "after", "promotion")
    # The shorter one hears of it and follows.
    wait_streaming(shorter)
    wait_equal(longer, shorter)
    ledger.verify(shorter)
    assert attempt(shorter, "GET", "after") == b"promotion"


@pytest.mark.parametrize("level", ["none", "received"])
def test_who_may_lack_writes_is_not_promoted(cluster, level):
    """A learner never counted; under `received` a restart may have lost what was only received."""
    if level == "received":
        first, second = cluster.pair()
        first.must_kvctl("status")
        reply = attempt(first, "CONFIG", "SET", "replication.ack", "received")
        assert reply == "OK"
        first.wait("at the level", lambda: first.status().get("ack") == "received")
        put(first, "some", "thing")
        wait_promotable(second)
        second.kill()
        first.kill()
        second.start()
        wait_loaded(second)
    else:
        first, second = cluster.learner()
        put(first, "some", "thing")
        wait_equal(first, second)
        first.kill()
    second.wait("without the right", lambda: not second.status().get("promotable"))
    code, _, error = second.kvctl("promote", "--ack-replicas", "0")
    assert code == 1 and "may lack acknowledged writes" in error and "--accept-loss" in error
    must_refuse(second, "READONLY")
    promote(second, "--ack-replicas", "0", "--accept-loss")
    put(second, "freed", "yes")


def test_roles_change_while_a_node_loads(cluster):
    """It is told to join, or hears of a new primary, before it has a log: it follows once it has."""
    first, second = cluster.pair()
    client = Resp(first.port)
    for number in range(400):
        assert client.call("SET", f"large:{number}", "x" * 100_000) == "OK"
    client.close()
    for discard in ([], ["--discard-local-data"]):
        second.kill()
        second.start().wait_answering()
        second.must_kvctl("join", first.replication_address, *discard)
        wait_follows(second, first)
        wait_promotable(second)
    for old, new in ((first, second), (second, first)):
        old.must_kvctl("demote")  # it starts again, and loads while the other one tells it
        promote(new, "--ack-replicas", "1")
        wait_follows(old, new)
        wait_member(new)
        wait_promotable(old)
        put(new, "after", new.name)
    assert attempt(first, "GET", "large:399") == b"x" * 100_000
