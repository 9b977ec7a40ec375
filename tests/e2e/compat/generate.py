"""Seeded commands: mostly sensible, often on the edge, sometimes wrong. A step of a sequence is
(connection, args); connections 0 and 1 exist on both servers."""

import random

KEYS = [b"", b"a", b"b", b"c", b"key", b"key:1", b"key:2", b"{tag}x", b"{tag}y", b"x y", b"\x00\xff\r\n",
        b"*", b"h[ae]llo", b"number", b"float", b"long" * 60, b"ttl", b"big", b"Key", b"zz"]

INTEGERS = [b"0", b"1", b"-1", b"7", b"10", b"100", b"-5", b"42", b"9223372036854775807",
            b"-9223372036854775808", b"9223372036854775806", b"4294967296", b"12345678901"]
NOT_INTEGERS = [b"", b" 1", b"1 ", b"+1", b"01", b"-0", b"00", b"1.0", b"0x10", b"abc", b"1e3", b"--1", b"-",
                b"9223372036854775808", b"-9223372036854775809", b"99999999999999999999999", b"1\x00"]
INT32_EDGES = [b"2147483647", b"2147483648", b"-2147483648", b"-2147483649", b"4294967296"]
FLOATS = [b"0.1", b"-0.1", b"3.0", b"1.5e3", b"5.0e-3", b"1e15", b"0.00000000000000001", b"123456789.123456789",
          b"1e20", b"-1e-17", b"3.14159265358979323846", b".5", b"5.", b"0x1p3", b"1e300", b"00.5", b"+2.5"]
NOT_FLOATS = [b"", b" 1.0", b"1.0 ", b"nan", b"1e", b"abc", b"1..2", b"1e5000", b"--1.5", b"1.5\x00", b"NaN(1)"]
INFINITE = [b"inf", b"-inf", b"Infinity"]
TEXTS = [b"", b"hello", b"Hello World", b"x" * 44, b"x" * 45, b"\x00\x01\xfe\xff", b"\r\n", b"a" * 300, b"OK", b"12a",
         b"true", b"y" * 5000]
LARGE = [70_000, 65_536, 65_535, 300_000, 990_000, 1_200_000]

OFFSETS = [b"0", b"1", b"5", b"-1", b"-3", b"2", b"100", b"-100", b"10", b"70000", b"9223372036854775807",
           b"-9223372036854775808", b"4294967295"]
WRITE_OFFSETS = [b"0", b"1", b"3", b"10", b"70", b"536870911", b"536870912", b"9223372036854775807", b"-1", b"66000"]

PATTERNS = [b"*", b"a*", b"*y*", b"key:?", b"h[ae]llo", b"h\\[ae\\]llo", b"[a-c]", b"[^a]", b"[c-a]", b"", b"**", b"?",
            b"k*[0-9]", b"[", b"[^", b"\\", b"*\\", b"[a-", b"K*", b"{tag}*", b"[\\a]", b"long*", b"*****a"]

# Long enough that no test run reaches them, or long past.
SECONDS = [b"1000", b"5000", b"100000", b"86400"]
BAD_TIMES = [b"0", b"-1", b"-1000", b"9223372036854775807", b"9223372036854775", b"9223372036854776",
             b"-9223372036854775808", b"9223370000000000", b"abc", b"1.5", b"", b"-9223372036854775", b"-9223372036854776"]
FUTURE_S = [b"4000000000", b"5000000000", b"9000000000"]
FUTURE_MS = [b"4000000000000", b"5000000000123", b"9000000000500", b"9000000000499"]
PAST = [b"1", b"1000000", b"1600000000"]

# In neither server: commands of other data types are in Redis only (docs/compatibility.md).
UNKNOWN = [b"foo", b"LPUSHY", b"hsetx", b"GETX", b"x" * 200, b"get\x00", b"", b"SETBIT2", b"pub\r\nlish", b"G ET"]


BIT_OFFSETS = [b"0", b"1", b"7", b"8", b"9", b"100", b"-1", b"4000", b"600000", b"4294967296", b"9223372036854775807"]
BIT_ENDS = [b"0", b"1", b"-1", b"-2", b"3", b"7", b"8", b"20", b"-20", b"100", b"-100", b"9223372036854775807",
            b"-9223372036854775808"]
FIELD_TYPES = [b"u8", b"i8", b"u1", b"i1", b"u4", b"i5", b"u13", b"i16", b"u32", b"i33", b"u63", b"i63", b"i64"]
BAD_FIELD_TYPES = [b"u64", b"i65", b"u0", b"i0", b"x8", b"8", b"u", b"", b"i-1", b"u08", b"U8", b"u8\x00"]
FIELD_OFFSETS = [b"0", b"1", b"#1", b"#0", b"3", b"#3", b"64", b"63", b"100", b"#40", b"600000", b"-1", b"#-1", b"#", b"##1",
                 b"4294967296", b"#9223372036854775807"]


LCS_TEXTS = [b"ohmytext", b"mynewtext", b"abcabcabd", b"bdcaba", b"x" * 300, b"xyxyyxxyxyyx" * 20, b"aaaaaaaaab", b"baaaaaaaa"]

# DUMPs of redis-server 7.0.15: "abc", 5, thirty-two times "a" (compressed), a list; then damaged ones.
PAYLOADS = [b"\x00\x03abc\n\x00\xd9\xac0=Ar\xa2\xe2", b"\x00\xc0\x05\n\x00c/_f\x83/\xb3Q",
            b"\x00\xc3\t \x01aa\xe0\x13\x00\x01aa\n\x00\n\xaa\x0e\xcb\xf5\xef0\xf3"]
BAD_PAYLOADS = [b"", b"x", b"123456789", b"\x00\x03abd\n\x00\xd9\xac0=Ar\xa2\xe2", b"\n\x00]\x9b\\@\x0f\x7f\xa2\xda",
                b"\x00\x82\x00\x00\x00\x03abc\n\x00x\xc8V\xc9j\xa1s\x99", b"\x00\xc3\x00\x03\n\x00!\x06\x89o\xba\xf9$B",
                b"\x00\x03abc\n\x00" + bytes(8)]


class Generator:
    def __init__(self, seed, past_sets=True, large=True):
        self.random = random.Random(seed)
        self.past_sets = past_sets
        self.large = large
        self.keys = self.random.sample(KEYS, self.random.randint(2, len(KEYS)))

    # --- Pieces. ---

    def pick(self, *pools):
        return self.random.choice(self.random.choice(pools))

    def chance(self, probability):
        return self.random.random() < probability

    def key(self):
        return self.random.choice(self.keys)

    def some_keys(self):
        return [self.key() for _ in range(self.random.randint(1, 6))]

    def value(self):
        if self.large and self.chance(0.03):
            return bytes([self.random.randrange(97, 123)]) * self.random.choice(LARGE)
        return self.pick(INTEGERS, INTEGERS, FLOATS, TEXTS, TEXTS, NOT_INTEGERS)

    def integer(self):
        return self.pick(INTEGERS, INTEGERS, INTEGERS, NOT_INTEGERS)

    def word(self, text):
        """An option word in any case."""
        return self.random.choice([text.upper(), text.lower(), text.capitalize()]).encode()

    def relative(self):
        return self.pick(SECONDS, SECONDS, SECONDS, BAD_TIMES)

    def absolute(self, milliseconds):
        future = FUTURE_MS if milliseconds else FUTURE_S
        return self.pick(future, future, PAST if self.past_sets else future, BAD_TIMES)

    def expire_option(self):
        name = self.random.choice(["ex", "px", "exat", "pxat"])
        if name == "px":
            # Milliseconds of the same reach as the seconds: none runs out while the test runs.
            value = self.relative()
            value = value + b"000" if value in SECONDS else value
        elif name == "ex":
            value = self.relative()
        else:
            value = self.absolute(name == "pxat")
        if self.chance(0.05):
            return [self.word(name)]
        return [self.word(name), value]

    # --- Commands by family; each returns args without regard for what exists. ---

    def set_command(self):
        args = [b"SET", self.key(), self.value()]
        for _ in range(self.random.choice([0, 0, 1, 1, 2, 3])):
            choice = self.random.random()
            if choice < 0.45:
                args += self.expire_option()
            elif choice < 0.95:
                args.append(self.word(self.random.choice(["nx", "xx", "get", "keepttl"])))
            else:
                args.append(self.pick([b"persist", b"ne", b"", b"EXX", b"5"]))
        return args

    def getex_command(self):
        args = [b"GETEX", self.key()]
        for _ in range(self.random.choice([0, 1, 1, 1, 2])):
            if self.chance(0.7):
                args += self.expire_option()
            else:
                args.append(self.pick([b"persist", b"PERSIST", b"keepttl", b"nx", b"get"]))
        return args

    def expire_command(self):
        name = self.random.choice(["expire", "pexpire", "expireat", "pexpireat"])
        if name.endswith("at"):
            value = self.absolute(name[0] == "p")
        else:
            value = self.relative()
            value = value + b"000" if name[0] == "p" and value in SECONDS else value
        args = [name.encode(), self.key(), value]
        for _ in range(self.random.choice([0, 0, 1, 1, 2])):
            args.append(self.pick([b"NX", b"xx", b"gt", b"LT", b"GT", b"zz"]))
        return args

    def scan_error(self):
        """SCANs that must fail: a good one has a cursor of its own at each server (see SCANALL)."""
        return self.random.choice([
            [b"SCAN", self.pick([b"abc", b"1x", b" 0", b"99999999999999999999"])],
            [b"SCAN", b"0", b"COUNT", self.pick([b"0", b"-1", b"x", b"", b"1.5"])],
            [b"SCAN", b"0", self.pick([b"MATCH", b"COUNT", b"TYPE", b"x"])],
            [b"SCAN", b"0", b"FOO", b"1"]])

    def string_command(self):
        choices = [
            lambda: [b"GET", self.key()],
            lambda: [b"GET", self.key()],
            self.set_command, self.set_command, self.set_command,
            lambda: [b"SETEX", self.key(), self.relative(), self.value()],
            lambda: [b"PSETEX", self.key(), self.random.choice([b"1000000", b"0", b"-5", b"abc", b""]), self.value()],
            lambda: [b"SETNX", self.key(), self.value()],
            lambda: [b"GETSET", self.key(), self.value()],
            lambda: [b"GETDEL", self.key()],
            self.getex_command,
            lambda: [b"APPEND", self.key(), self.value()],
            lambda: [b"STRLEN", self.key()],
            lambda: [self.pick([b"GETRANGE", b"SUBSTR"]), self.key(), self.pick(OFFSETS, OFFSETS, NOT_INTEGERS),
                     self.pick(OFFSETS, OFFSETS, OFFSETS, NOT_INTEGERS)],
            lambda: [b"SETRANGE", self.key(), self.pick(WRITE_OFFSETS[:5], WRITE_OFFSETS, NOT_INTEGERS),
                     self.pick(TEXTS)],
            lambda: [self.pick([b"INCR", b"DECR"]), self.key()],
            lambda: [self.pick([b"INCRBY", b"DECRBY"]), self.key(), self.integer()],
            lambda: [b"INCRBYFLOAT", self.key(), self.pick(FLOATS, FLOATS, FLOATS, INTEGERS, NOT_FLOATS, INFINITE)],
            lambda: [b"INCRBYFLOAT", self.pick([b"number", b"float"]), self.pick(FLOATS)],
        ]
        return self.random.choice(choices)()

    def lcs_command(self):
        if self.chance(0.4):
            return [b"SET", self.key(), self.pick(LCS_TEXTS)]
        args = [b"LCS", self.key(), self.key()]
        for _ in range(self.random.choice([0, 1, 1, 2, 3])):
            args += self.random.choice([[self.word("idx")], [self.word("idx")], [self.word("len")], [self.word("withmatchlen")],
                                        [self.word("minmatchlen"), self.pick([b"0", b"1", b"2", b"3", b"-1"], INTEGERS, NOT_INTEGERS)],
                                        [self.pick([b"minmatchlen", b"foo", b"", b"len\x00"])]])
        return args

    def dump_command(self):
        if self.chance(0.3):
            return [b"DUMP", self.key()]
        args = [b"RESTORE", self.key(), self.pick([b"0", b"0", b"0", b"100000000"], [b"0"], [b"-1", b"x", b"", b"9223372036854775807"]),
                self.pick(PAYLOADS, PAYLOADS, PAYLOADS, BAD_PAYLOADS)]
        for _ in range(self.random.choice([0, 1, 1, 2, 3])):
            args += self.random.choice([[self.word("replace")], [self.word("replace")],
                                        [self.word("idletime"), self.pick([b"0", b"5", b"-1"], NOT_INTEGERS)],
                                        [self.word("freq"), self.pick([b"0", b"255", b"256", b"-1"], NOT_INTEGERS)],
                                        [self.pick([b"idletime", b"freq", b"foo", b""])]])
        if self.chance(0.15) and args[2] in (b"0", b"-1", b"x"):
            args.append(self.word("absttl"))
        return args

    def bit_field(self):
        args = [self.pick([b"BITFIELD", b"BITFIELD", b"BITFIELD", b"bitfield_ro"]), self.key()]
        for _ in range(self.random.choice([0, 1, 1, 2, 3, 5])):
            field = [self.pick(FIELD_TYPES, FIELD_TYPES, FIELD_TYPES, FIELD_TYPES, BAD_FIELD_TYPES), self.pick(FIELD_OFFSETS)]
            choice = self.random.random()
            if choice < 0.35 or args[0] == b"bitfield_ro":
                args += [self.word("get")] + field
            elif choice < 0.6:
                args += [self.word("set")] + field + [self.pick(INTEGERS)]
            elif choice < 0.85:
                args += [self.word("incrby")] + field + [self.pick(INTEGERS)]
            elif choice < 0.97:
                args += [self.word("overflow"), self.pick([b"wrap", b"SAT", b"Fail", b"sat", b"FAIL", b"x"])]
            else:
                args += self.pick([[b"get"], [b"set", b"u8", b"0"], [b"overflow"], [b"incrby", b"u8", b"0", b"x"], [b"put"]])
        return args

    def bit_range(self, first=()):
        args = list(first) + [self.pick(BIT_ENDS, BIT_ENDS, BIT_ENDS, NOT_INTEGERS), self.pick(BIT_ENDS, BIT_ENDS, BIT_ENDS, NOT_INTEGERS),
                              self.pick([b"BIT", b"byte", b"bit", b"BYTE", b"bits"])]
        return args[:self.random.randint(0, len(args) + 1)]

    def bit_command(self):
        choices = [
            lambda: [b"GETBIT", self.key(), self.pick(BIT_OFFSETS, BIT_OFFSETS, BIT_OFFSETS, NOT_INTEGERS)],
            lambda: [b"SETBIT", self.key(), self.pick(BIT_OFFSETS, BIT_OFFSETS, BIT_OFFSETS, NOT_INTEGERS),
                     self.pick([b"0", b"1", b"1", b"2", b"-1", b"x", b""])],
            lambda: [b"SETBIT", self.key(), self.pick(BIT_OFFSETS[:6]), self.pick([b"0", b"1"])],
            lambda: [b"BITCOUNT", self.key()] + self.bit_range(),
            lambda: [b"BITCOUNT", self.key()] + self.bit_range(),
            lambda: [b"BITPOS", self.key()] + self.bit_range([self.pick([b"0", b"1", b"0", b"1", b"2", b"x"])]),
            lambda: [b"BITPOS", self.key(), self.pick([b"0", b"1"])] + self.bit_range(),
            lambda: [b"BITOP", self.word(self.random.choice(["and", "or", "xor", "not", "nand"])), self.key()] + self.some_keys(),
            lambda: [b"BITOP", b"NOT", self.key(), self.key()],
            self.bit_field, self.bit_field, self.bit_field,
        ]
        return self.random.choice(choices)()

    def key_command(self):
        choices = [
            lambda: [self.pick([b"DEL", b"UNLINK", b"EXISTS", b"TOUCH"])] + self.some_keys(),
            lambda: [b"TYPE", self.key()],
            self.expire_command, self.expire_command, self.expire_command,
            lambda: [self.pick([b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME"]), self.key()],
            lambda: [self.pick([b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME"]), self.key()],
            lambda: [b"PERSIST", self.key()],
            lambda: [b"KEYS", self.pick(PATTERNS)],
            lambda: [b"SCANALL", self.pick(PATTERNS), self.pick([b"1", b"3", b"1000"])],
            self.scan_error,
            self.lcs_command, self.lcs_command, self.dump_command, self.dump_command,
            lambda: [b"DBSIZE"],
            lambda: [b"RANDOMKEY"],
            lambda: [self.pick([b"RENAME", b"RENAMENX"]), self.key(), self.key()],
            lambda: [b"COPY", self.key(), self.key()] + self.pick([[], [], [b"REPLACE"], [b"DB", b"0"], [b"DB"], [b"X"],
                                                                   [b"DB", b"0", b"replace"], [b"DB", b"x"], [b"db", b"99"],
                                                                   [b"db", self.pick(INT32_EDGES)]]),
            lambda: [b"OBJECT", b"ENCODING", self.key()],
            lambda: [b"MEMORY", b"USAGE", self.key()] + self.pick([[], [], [b"SAMPLES", b"5"], [b"SAMPLES", b"x"],
                                                                   [b"SAMPLES"], [b"SAMPLES", b"-1"]]),
            lambda: [self.pick([b"FLUSHALL", b"FLUSHDB"])] + self.pick([[], [b"ASYNC"], [b"sync"], [b"x"], [b"sync", b"x"]])
            if self.chance(0.3) else [b"DBSIZE"],
        ]
        return self.random.choice(choices)()

    def multi_key_command(self):
        pairs = []
        for _ in range(self.random.randint(1, 5)):
            pairs += [self.key(), self.value()]
        if self.chance(0.1):
            pairs.pop()
        return self.random.choice([
            [b"MGET"] + self.some_keys(), [b"MGET"] + self.some_keys(),
            [b"MSET"] + pairs, [b"MSET"] + pairs, [b"MSETNX"] + pairs])

    def hello_command(self):
        """Every part may be wrong; what stands before the first wrong one takes effect."""
        if self.chance(0.15):
            return [b"HELLO"]
        args = [b"HELLO", self.pick([b"2", b"3", b"3", b"2", b"4", b"1", b"-3", b"setname"], [b"2", b"3"], NOT_INTEGERS)]
        for _ in range(self.random.choice([0, 0, 1, 1, 2, 3])):
            args += self.pick([[self.word("setname"), self.pick([b"me", b"you", b"", b"a b", b"x\n"])],
                               [self.word("auth"), b"default", b"anything"], [self.word("auth"), b"nobody", b"anything"],
                               [self.word("setname"), b"again"]],
                              [[self.word("auth")], [self.word("auth"), b"default"], [self.word("setname")],
                               [self.pick([b"", b"x", b"set\r\nname", b"auth\x00x", b"nul\x00x", b"y" * 300])]])
        return args

    def connection_command(self):
        choices = [
            lambda: [b"PING"], lambda: [b"PING", self.pick(TEXTS)], lambda: [b"PING", b"a", b"b"],
            lambda: [b"ECHO", self.pick(TEXTS)],
            lambda: [b"SELECT", self.pick([b"0", b"0", b"16", b"99", b"-1"], INTEGERS[7:], NOT_INTEGERS, INT32_EDGES)],
            lambda: [b"CLIENT", b"SETNAME", self.pick([b"me", b"", b"with space", b"x\n", b"other"])],
            lambda: [b"CLIENT", b"GETNAME"],
            lambda: [b"CLIENT", b"ID"],
            self.hello_command, self.hello_command, self.watch_command,
            lambda: [b"CONFIG", b"GET", b"no-such-setting*"],
            lambda: [b"COMMAND", b"INFO", self.pick([b"get", b"set", b"mget", b"GetEx", b"nosuch", b"del", b"rename",
                                                     b"copy", b"mset", b"ttl", b"append", b"expire", b"setrange", b"bitop",
                                                     b"bitfield", b"getbit", b"setbit", b"bitpos", b"lcs", b"dump",
                                                     b"restore"],
                                                    [b"config|get", b"CLIENT|id", b"object|encoding", b"memory|usage",
                                                     b"client|kill", b"config|set", b"config|nosuch", b"nosuch|get", b"get|x",
                                                     b"command|docs", b"cluster|info", b"client|tracking", b"|", b""])],
            lambda: [b"COMMAND", self.pick([b"GETKEYS", b"getkeysandflags"])] + self.pick(
                [[b"get", b"a"], [b"mset", b"a", b"1", b"b", b"2"], [b"ping", b"a"], [b"nosuch", b"x"], [b"get", b"a", b"b"],
                 [b"del", b"a", b"b"], [b"rename", b"a", b"b"], [b"copy", b"a", b"b"], [b"bitop", b"and", b"a", b"b", b"c"],
                 [b"set", b"a", b"b"], [b"set", b"a", b"b", b"GET"], [b"set", b"a"], [b"lcs", b"a", b"b", b"len"],
                 [b"object", b"encoding", b"a"], [b"object", b"help"], [b"memory", b"usage", b"a"], [b"mset", b"a", b"b", b"c"],
                 [b"bitfield", b"a", b"get", b"u8", b"0"], [b"bitfield", b"a", b"overflow", b"sat", b"get", b"u8", b"0"],
                 [b"bitfield", b"a", b"set", b"u8", b"0", b"1"], [b"bitfield", b"a", b"x"], [b"watch", b"a"], [b"exists", b"a", b"b"],
                 [b"restore", b"a", b"0", b"x"], [b"dump", b"a"], [b"getex", b"a"], [b"bitfield_ro", b"a"]]),
            lambda: [b"CLIENT", self.pick([b"TRACKINGINFO", b"getredir", b"UNPAUSE"])],
            lambda: [b"CLIENT", b"TRACKING", self.pick([b"off", b"x"])] + self.pick([[], [b"foo"], [b"BCAST"], [b"prefix", b"a"]]),
            lambda: [b"CLIENT", b"CACHING", self.pick([b"yes", b"NO", b"x"])],
            lambda: [b"CLIENT", b"PAUSE", self.pick([b"0", b"-1", b"x"])] + self.pick([[], [b"write"], [b"ALL"], [b"x"], [b"all", b"x"]]),
            lambda: [b"CLUSTER", self.pick([b"INFO", b"SLOTS", b"NODES"])],
            lambda: [b"READONLY"],
            lambda: [b"WAIT", b"0", self.pick([b"0", b"10", b"-1", b"x"])],
            lambda: [b"LASTSAVE"], lambda: [b"TIME"], lambda: [b"ROLE"],
            lambda: [self.pick(UNKNOWN)] + [self.pick(TEXTS) for _ in range(self.random.randint(0, 4))],
            lambda: [self.pick(UNKNOWN)],
        ]
        return self.random.choice(choices)()

    def watch_command(self):
        """Both servers start with nothing logged and nothing watched."""
        return self.random.choice([
            [b"LATENCY", b"LATEST"], [b"LATENCY", b"HISTORY", b"command"], [b"LATENCY", b"RESET"], [b"LATENCY", b"DOCTOR"],
            [b"LATENCY", b"RESET", b"command", b"x"], [b"LATENCY", b"HISTOGRAM", b"no-such-command"], [b"LATENCY", b"HELP"],
            [b"SLOWLOG", b"RESET"], [b"SLOWLOG", b"HELP"], [b"CONFIG", b"GET", b"slowlog-max-len"],
            [b"CONFIG", b"GET", b"slowlog-log-*"], [b"CONFIG", b"GET", b"latency-tracking-*"],
            [b"CONFIG", b"GET", b"latency-monitor-*"], [b"CONFIG", b"GET", b"enable-debug-*"],
            [b"CONFIG", b"SET", b"slowlog-log-slower-than", b"10000"], [b"CONFIG", b"SET", b"slowlog-max-len", b"128"],
            [b"CONFIG", b"SET", b"latency-tracking", b"YES"], [b"DEBUG", b"SLEEP", b"0"],
            [b"CONFIG", b"SET", b"latency-tracking-info-percentiles", b"50 99 99.9"]])

    def subcommand_error(self):
        return self.random.choice([
            [b"OBJECT", b"NOSUCH"], [b"OBJECT", b"nosuch", b"a"], [b"OBJECT", b"ENCODING"], [b"OBJECT", b"encoding", b"a", b"b"],
            [b"CONFIG", b"NOSUCH", b"x"], [b"CONFIG", b"GET"], [b"CONFIG", b"SET", b"a"], [b"CONFIG", b"RESETSTAT", b"x"],
            [b"CONFIG", b"SET", b"no-such-setting", b"1"], [b"CONFIG", b"SET", b"a", b"1", b"b"],
            [b"CLIENT", b"TRACKING"], [b"CLIENT", b"CACHING"], [b"CLIENT", b"PAUSE"], [b"CLIENT", b"UNPAUSE", b"x"],
            [b"CLIENT", b"TRACKINGINFO", b"x"], [b"COMMAND", b"GETKEYSANDFLAGS"], [b"CLUSTER", b"HELP"], [b"CLUSTER", b"help", b"x"],
            [b"CLIENT", b"NOSUCH"], [b"CLIENT", b"GETNAME", b"x"], [b"CLIENT", b"SETNAME"], [b"CLIENT", b"ID", b"x"],
            [b"COMMAND", b"NOSUCH"], [b"COMMAND", b"COUNT", b"x"], [b"COMMAND", b"GETKEYS"], [b"MEMORY", b"NOSUCH"],
            [b"MEMORY", b"USAGE"], [b"CLUSTER", b"x"],
            [b"CLUSTER", b"SLOTS", b"x"],
            [b"SLOWLOG", b"NOSUCH"], [b"SLOWLOG", b"GET", b"x"], [b"SLOWLOG", b"GET", b"-2"], [b"SLOWLOG", b"LEN", b"x"],
            [b"SLOWLOG", b"GET", b"1", b"2"], [b"SLOWLOG", b"RESET", b"x"], [b"SLOWLOG"],
            [b"LATENCY", b"NOSUCH"], [b"LATENCY", b"HISTORY"], [b"LATENCY", b"GRAPH"], [b"LATENCY", b"GRAPH", b"command"],
            [b"LATENCY", b"DOCTOR", b"x"], [b"LATENCY"], [b"MONITOR", b"x"], [b"DEBUG"],
            [b"CONFIG", b"SET", b"slowlog-log-slower-than", b"x"],
            [b"CONFIG", b"SET", b"latency-monitor-threshold", b"1.5"], [b"CONFIG", b"SET", b"latency-tracking", b"maybe"],
            [b"CONFIG", b"SET", b"latency-tracking-info-percentiles", b"50 101"],
            [b"CONFIG", b"SET", b"latency-tracking-info-percentiles", b"p50"],
            [b"CONFIG", b"SET", b"slowlog-max-len", b"many"], [b"CONFIG", b"SET", b"enable-debug-command", b"yes"]])

    def command(self):
        choice = self.random.random()
        if choice < 0.43:
            return self.string_command()
        if choice < 0.57:
            return self.bit_command()
        if choice < 0.85:
            return self.key_command()
        if choice < 0.93:
            return self.multi_key_command()
        return self.connection_command()

    @staticmethod
    def expires(args):
        """A time made of another value could be past or run out during the test."""
        return b"EX" in args[0].upper() or args[0] == b"RESTORE" or any(a.upper() in (b"EX", b"PX", b"EXAT", b"PXAT") for a in args)

    def damaged(self, args):
        """Wrong arity or a wrong argument. Never another database, of which kvstored has one, nor a WAIT
        without an end."""
        args = list(args)
        if args[0] in (b"SCANALL", b"SCAN", b"COMMAND", b"SELECT", b"WAIT", b"CLIENT") or b"DB" in args or b"db" in args:
            return args
        choice = self.random.random()
        if choice < 0.4 and len(args) > 1:
            args.pop()
        elif choice < 0.7:
            args.append(self.pick(TEXTS, INTEGERS))
        elif len(args) > 1 and not self.expires(args):
            args[self.random.randrange(1, len(args))] = self.pick(INTEGERS, FLOATS, TEXTS, NOT_INTEGERS)
        return args

    def cased(self, args):
        if args[0] == b"SCANALL" or self.chance(0.7):
            return args
        return [bytes(self.random.choice([bytes([c]).upper(), bytes([c]).lower()])[0] for c in args[0])] + args[1:]

    def sequence(self, length):
        """Steps with transactions in between; the open ones are closed at the end."""
        steps = []
        in_multi = [False, False]
        while len(steps) < length:
            connection = 0 if self.chance(0.75) else 1
            choice = self.random.random()
            if in_multi[connection] and choice < 0.25:
                args = [self.pick([b"EXEC", b"EXEC", b"EXEC", b"DISCARD"])]
                in_multi[connection] = False
            elif not in_multi[connection] and choice < 0.04:
                args = [b"MULTI"]
                in_multi[connection] = True
            elif choice < 0.07 and not in_multi[connection]:
                args = self.pick([[b"WATCH"] + self.some_keys(), [b"UNWATCH"]])
            elif choice < 0.08:
                args = self.pick([[b"MULTI"], [b"WATCH", self.key()], [b"EXEC"], [b"DISCARD"]])
                if args[0] == b"MULTI":
                    in_multi[connection] = True
                elif args[0] != b"WATCH":
                    in_multi[connection] = False
            elif choice < 0.10:
                args = self.subcommand_error()
            else:
                args = self.command()
                if in_multi[connection] and self.chance(0.05):
                    args = self.hello_command()  # the replies behind it change with it
                if self.chance(0.04):
                    args = self.damaged(args)
                args = self.cased(args)
                if in_multi[connection] and args[0].upper() in (b"SCANALL", b"WAIT", b"SCAN"):
                    continue
            steps.append((connection, args))
        for connection in (0, 1):
            if in_multi[connection]:
                steps.append((connection, [b"EXEC"]))
        return steps
