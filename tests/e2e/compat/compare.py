"""Are two replies the same? Byte for byte, but for the intended differences, each named in
docs/compatibility.md and nowhere else than in this file."""

# Relative expiries start a moment apart at the two servers.
TTL_TOLERANCE = {b"TTL": 2, b"EXPIRETIME": 2, b"PTTL": 2000, b"PEXPIRETIME": 2000}

# (Redis, kvstored): Redis remembers how a string came about, kvstored looks at what it is.
ENCODING_PAIRS = {(b"raw", b"int"), (b"raw", b"embstr"), (b"embstr", b"int")}

SAME_SHAPE = {b"LASTSAVE", b"TIME", b"ROLE", b"RANDOMKEY"}

HELLO_OWN = {b"version", b"id"}


def shape(reply):
    kind, payload = reply
    return (kind, [shape(r) for r in payload] if isinstance(payload, list) else payload is None)


def integer(reply):
    return int(reply[1]) if reply[0] == b":" else None


def sorted_array(reply):
    return (reply[0], sorted(reply[1])) if reply[0] in (b"*", b"~") and reply[1] is not None else reply


def without(reply, names):
    """A HELLO map without some fields."""
    kind, items = reply
    if not isinstance(items, list):
        return reply
    pairs = list(zip(items[::2], items[1::2]))
    return (kind, [pair for pair in pairs if pair[0][1] not in names])


def same_exec(queued, ours, theirs, context):
    if ours[0] != theirs[0] or not isinstance(ours[1], list) or not isinstance(theirs[1], list):
        return ours == theirs
    if not len(ours[1]) == len(theirs[1]) == len(queued):
        return False
    return all(same(args, a, b, context) for args, a, b in zip(queued, theirs[1], ours[1]))


def same(args, theirs, ours, context):
    """`theirs` is Redis's reply, `ours` kvstored's. `context` says what the sequence contains."""
    if theirs == ours:
        return True
    if theirs[0] == b"-" or ours[0] == b"-":
        return False
    name = args[0].upper()
    sub = args[1].upper() if len(args) > 1 else b""
    if name in TTL_TOLERANCE:
        a, b = integer(theirs), integer(ours)
        return a is not None and b is not None and a > 0 and b > 0 and abs(a - b) <= TTL_TOLERANCE[name]
    if name == b"KEYS":
        return sorted_array(theirs) == sorted_array(ours)
    if name in SAME_SHAPE or (name, sub) == (b"CLIENT", b"ID"):
        return shape(theirs) == shape(ours)
    if name == b"DBSIZE":
        # Expired items count until they are removed, which both do in their own time.
        return context.past_sets and shape(theirs) == shape(ours)
    if (name, sub) == (b"OBJECT", b"ENCODING"):
        return theirs[0] == ours[0] and (theirs[1], ours[1]) in ENCODING_PAIRS
    if (name, sub) == (b"MEMORY", b"USAGE"):
        # Redis counts an expired item that is still there.
        return context.past_sets or theirs[0] == ours[0] == b":"
    if name == b"DUMP":
        # Redis compresses (its second byte says so), kvstored does not; both read both.
        return theirs[0] == ours[0] == b"$" and theirs[1] is not None and ours[1] is not None and theirs[1][1:2] == b"\xc3"
    if name == b"HELLO":
        return without(theirs, HELLO_OWN) == without(ours, HELLO_OWN)
    return False
