"""Damaged files. A torn tail starts and says what was cut; damage in the middle does not start and says where
and what to do."""

import json
import shutil
import subprocess

import pytest
from cluster_fixture import (SMALL_KEYS, attempt, kill_under_load, make_cluster, promote,  # noqa: F401
                             put, wait_equal, wait_member, wait_promotable, wait_serving,
                             wait_streaming)
from cluster import BIN
from ledger import Ledger

REJOIN = ["recovery.on_damage=rejoin"]


def segments(node):
    """Those that hold frames, oldest first."""
    return [s for s in sorted((node.directory / "data").glob("set-*/log/*.seg")) if frames(s)]


def frames(segment, marks=False):
    """(offset, bytes of records) of each frame, oldest first; marks hold no records."""
    result = subprocess.run([BIN / "kvctl", "log", "dump", "--json", segment], check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    return [(line["offset"], line["bytes"]) for line in lines
            if line["kind"] == "frame" and (marks or line["records"] > 0)]


def flip(path, offset):
    """One bit; the same again mends it."""
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))


def written(node):
    """Several hundred frames, then SIGKILL."""
    ledger = Ledger(SMALL_KEYS)
    kill_under_load(ledger, node, writes=1500)
    return ledger


def refuses_to_start(node, *words):
    node.start()
    code = node.wait_end()
    text = node.log_text()
    assert code == 1, f"exit {code}:\n{text}"
    for word in words:
        assert word in text, f"'{word}' is not said:\n{text}"


def tear(node, how):
    """Makes the newest records' frame incomplete; where it begins."""
    segment = segments(node)[-1]
    offset, size = frames(segment)[-1]
    for mark, _ in frames(segment, marks=True):
        # What says that the frame was persistent was not written either.
        if mark > offset:
            with open(segment, "r+b") as file:
                file.seek(mark)
                file.write(bytes(64))
    if how == "flip":
        flip(segment, offset + 64 + size // 2)
    else:
        with open(segment, "r+b") as file:
            rest = segment.stat().st_size - (offset + 64 + size // 2)
            file.seek(-rest, 2)
            file.write(bytes(rest))
    return segment, offset


def in_the_middle(node):
    """A frame that many others follow: its segment, its offset, the bytes of its records."""
    segment = segments(node)[0]
    known = frames(segment)
    assert len(known) > 20
    return segment, *known[len(known) // 2]


def both_go_on(first, second, ledger):
    wait_member(first)
    put(first, "after", "the damage")
    wait_equal(first, second)
    ledger.verify(second)


@pytest.mark.parametrize("how", ["flip", "zero"])
def test_torn_tail_of_a_node_alone(cluster, how):
    node = cluster.alone()
    put(node, "kept", "x" * 100)
    put(node, "torn", "x" * 100)
    node.kill()
    segment, offset = tear(node, how)
    node.start()
    wait_serving(node)
    text = node.log_text()
    assert f"{segment.name}: torn tail cut at offset {offset}" in text, text
    assert text.count("torn tail") == 1, text
    assert attempt(node, "GET", "kept") == b"x" * 100
    assert attempt(node, "GET", "torn") is None
    # What is written over it survives the next start, and the one after: the cut is durable.
    put(node, "after", "the cut")
    for _ in range(2):
        node.kill()
        node.start()
        wait_serving(node)
        assert "torn tail" not in node.log_text()
        assert attempt(node, "GET", "after") == b"the cut"
        assert attempt(node, "GET", "torn") is None


@pytest.mark.parametrize("how", ["flip", "zero"])
def test_torn_tail_of_a_primary_with_a_member(cluster, how):
    """What its device lost the member has: nothing is missing."""
    ledger = Ledger(SMALL_KEYS)
    first, second = cluster.written_pair(ledger)
    first.kill()
    _, offset = tear(first, how)
    first.start()
    wait_serving(first)
    assert f"torn tail cut at offset {offset}" in first.log_text()
    assert "fetching shard" in first.log_text()
    ledger.verify(first)
    both_go_on(first, second, ledger)


@pytest.mark.parametrize("how", ["flip", "zero"])
def test_torn_tail_of_a_replica(cluster, how):
    ledger = Ledger(SMALL_KEYS)
    first, second = cluster.written_pair(ledger)
    second.kill()
    tear(second, how)
    second.start()
    both_go_on(first, second, ledger)
    assert "torn tail" in second.log_text()


def test_bit_flip_in_the_middle_stops_a_primary(cluster):
    node = cluster.alone()
    ledger = written(node)
    segment, offset, size = in_the_middle(node)
    for place in (offset + 9, offset + 64 + size // 2):  # header, records
        flip(segment, place)
        refuses_to_start(node, str(segment), f"damaged at offset {offset}", "proves that the log was "
                         "persistent", "restore the file from a copy", "replication.primary")
        flip(segment, place)
    node.start()
    wait_serving(node)
    ledger.verify(node)


def test_damaged_chain_stops_a_primary(cluster):
    """A segment that others follow is cut short, loses its header, or is gone."""
    node = cluster.alone()
    for i in range(24):
        put(node, f"large:{i}", bytes([i]) * (1 << 20))
    ledger = written(node)
    found = segments(node)
    assert len(found) >= 3
    middle, copy = found[1], cluster.directory / "copy"
    shutil.copy(middle, copy)
    with open(middle, "r+b") as file:
        file.truncate(1 << 20)
    refuses_to_start(node, str(middle), "offset", "cut short", "restore the file from a copy")
    shutil.copy(copy, middle)
    newest = found[-1]
    shutil.copy(newest, copy)
    with open(newest, "r+b") as file:
        file.truncate(newest.stat().st_size // 2)  # no crash does that: it was made in its full size
    refuses_to_start(node, str(newest), "offset", "cut short", "restore the file from a copy")
    shutil.copy(copy, newest)
    shutil.copy(middle, copy)
    flip(middle, 17)
    refuses_to_start(node, middle.name, "offset 0", "damaged", "restore the file from a copy")
    middle.unlink()
    refuses_to_start(node, middle.name, "absent", "restore the file from a copy")
    shutil.copy(copy, middle)
    node.start()
    wait_serving(node)
    ledger.verify(node)
    assert attempt(node, "GET", "large:7") == b"\7" * (1 << 20)


def test_damaged_checkpoint_and_meta_stop_a_primary(cluster):
    node = cluster.alone()
    ledger = Ledger(SMALL_KEYS)
    ledger.fill(node.port)
    node.must_kvctl("checkpoint")
    node.kill()
    data = node.directory / "data"
    checkpoint = sorted(p for p in data.glob("set-*/*") if p.is_file() and p.name != "manifest")[-1]
    manifest = next(data.glob("set-*/manifest"))
    for path in (checkpoint, manifest, data / "meta"):
        place = path.stat().st_size // 2
        flip(path, place)
        refuses_to_start(node, str(path), "copy")
        flip(path, place)
    node.start()
    wait_serving(node)
    ledger.verify(node)


@pytest.mark.parametrize("how", ["newest", "newest and spares", "all"])
def test_deleted_segments_are_missed(cluster, how):
    """A log from which the newest segments were taken is not taken for a shorter one."""
    node = cluster.alone("log.segment_size=4MiB")
    ledger = written(node)
    newest = segments(node)[-1]
    gone = {path: path.read_bytes() for path in newest.parent.glob("*.seg")
            if how == "all" or path == newest or (how != "newest" and path.name > newest.name)}
    for path in gone:
        path.unlink()
    refuses_to_start(node, str(min(gone) if how == "all" else newest), "is absent", "restore the file from a copy")
    for path, contents in gone.items():
        path.write_bytes(contents)
    node.start()
    wait_serving(node)
    ledger.verify(node)


def test_replica_whose_log_was_deleted_rejoins(cluster):
    ledger = Ledger(SMALL_KEYS)
    first, second = cluster.written_pair(ledger, *REJOIN)
    second.kill()
    for path in (second.directory / "data").glob("set-*/log/*.seg"):
        path.unlink()
    second.start()
    wait_promotable(second)
    both_go_on(first, second, ledger)
    assert len(set_aside(second)) == 1


def damaged_replica(cluster, *settings):
    """A primary, its member that is down and has a flipped byte, what was written, where the flip is."""
    ledger = Ledger(SMALL_KEYS)
    first, second = cluster.written_pair(ledger, *settings)
    second.kill()
    segment, offset, size = in_the_middle(second)
    flip(segment, offset + 64 + size // 2)
    return first, second, ledger, (segment, offset, size)


def test_damaged_replica_refuses_to_start(cluster):
    """It says where the damage is and what can be done; with the file restored it goes on as a member."""
    first, second, ledger, (segment, offset, size) = damaged_replica(cluster)
    refuses_to_start(second, str(segment), f"damaged at offset {offset}", "restore the file from a copy",
                     'recovery.on_damage = "rejoin"')
    assert not set_aside(second)
    flip(segment, offset + 64 + size // 2)
    second.start()
    both_go_on(first, second, ledger)


def set_aside(node):
    return sorted((node.directory / "data").glob("*.damaged-*"))


def test_damaged_replica_rejoins_where_it_is_told_to(cluster):
    """It keeps the damaged data set, takes everything from its primary, and is a member again."""
    first, second, ledger, (segment, offset, _) = damaged_replica(cluster, *REJOIN)
    damaged = segment.read_bytes()
    second.start()
    wait_promotable(second)
    both_go_on(first, second, ledger)
    (kept,) = set_aside(second)
    text = second.log_text()
    for word in (str(segment), f"damaged at offset {offset}", str(kept), "may be deleted"):
        assert word in text, f"'{word}' is not said:\n{text}"
    assert (kept / "log" / segment.name).read_bytes() == damaged
    # It is kept over the next starts, and not missed once it was deleted.
    for _ in range(2):
        second.kill()
        second.start()
        wait_streaming(second)
        assert "damaged data set" not in second.log_text()
    assert set_aside(second) == [kept]
    shutil.rmtree(kept)
    second.kill()
    second.start()
    wait_streaming(second)
    # What it has now is as good as what it had: nothing is lost with the primary.
    wait_promotable(second)
    first.kill()
    promote(second)
    ledger.verify(second)
    assert attempt(second, "GET", "after") == b"the damage"


def test_damaged_manifest_of_a_replica_that_rejoins(cluster):
    first, second = cluster.pair(*REJOIN)
    put(first, "before", "damage")
    second.kill()
    manifest = next((second.directory / "data").glob("set-*/manifest"))
    flip(manifest, manifest.stat().st_size // 2)
    second.start()
    wait_streaming(second)
    wait_equal(first, second)
    assert attempt(second, "GET", "before") == b"damage"
    assert len(set_aside(second)) == 1


def test_a_replica_that_lacks_its_data_set_may_not_be_promoted(cluster):
    """With its primary gone it waits, keeps what is left, and says that it holds nothing."""
    first, second, ledger, _ = damaged_replica(cluster, *REJOIN)
    (member,) = first.status()["members"]
    first.kill()
    second.start()
    # It starts again without what it had read of the damaged data set.
    second.wait("started again", lambda: "starting again" in second.log_text())
    second.wait("without a right", lambda: second.status().get("promotable") is False)
    assert len(set_aside(second)) == 1
    for words in ((), ("--accept-loss",)):
        code, _, error = second.kvctl("promote", "--ack-replicas", "0", *words)
        assert code == 1 and "no complete data set" in error, error
    # The primary does not go on as if its member had answered: what the member had is gone.
    first.start()
    first.wait("reading only", lambda: "has not answered" in first.log_text())
    assert not first.status()["writable"]
    first.must_kvctl("member", "drop", member["store"], "--force")
    wait_serving(first)
    wait_streaming(second)
    put(first, "after", "the damage")
    wait_equal(first, second)
    ledger.verify(second)


def test_rejoin_does_not_concern_a_primary(cluster):
    node = cluster.alone(*REJOIN)
    ledger = written(node)
    segment, offset, size = in_the_middle(node)
    place = offset + 64 + size // 2
    flip(segment, place)
    refuses_to_start(node, str(segment), "restore the file from a copy")
    assert not set_aside(node)
    flip(segment, place)
    node.start()
    wait_serving(node)
    ledger.verify(node)


def test_zeroed_newest_records_after_an_orderly_end(cluster):
    """They look like a torn tail, or a segment that was never begun: the note beside the log tells."""
    node = cluster.alone()
    for i in range(200):
        put(node, f"key:{i}", "x" * 1000)
    node.stop()
    segment = segments(node)[-1]
    notes = segment.parent.parent / "log_files"
    whole = segment.read_bytes()
    for start, words in ((0, ["its header (offset 0) is gone"]),
                         (4096, ["confirmed persistent up to seq"])):
        segment.write_bytes(whole[:start] + bytes(len(whole) - start))
        refuses_to_start(node, str(segment.parent), *words, "restore the file from a copy")
    segment.write_bytes(whole)
    text = notes.read_bytes()
    notes.unlink()
    refuses_to_start(node, str(notes), "is absent, though", "restore the file from a copy")
    notes.write_bytes(text)
    node.start()
    wait_serving(node)
    assert attempt(node, "GET", "key:199") == b"x" * 1000
