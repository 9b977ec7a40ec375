"""Fixed cases of several clients at once: CLIENT TRACKING, PAUSE and UNBLOCK. After each step every client
must have got the same bytes as with Redis, pushes included.

A step is "CLIENT words": the client sends them. "~CLIENT words": and its replies are looked at after its next
step without "~", or after "resume"; "!CLIENT words": and the server must hold it back first. {ID:CLIENT} is that client's id. "close CLIENT"."""

import time

from resp import encode

# Clients whose name begins with a capital speak RESP3.
CASES = [
    ("read keys are told once", """
        writer set k 1|Reader client tracking on|Reader get k|writer set k 2|writer set k 3|Reader get k|Reader set k 4
        Reader get k|writer append k 5|Reader get k|writer expire k 1000|Reader get k|writer persist k|Reader strlen k
        writer incr k|Reader ttl k|writer getdel k|Reader get k|writer setrange k 2 x|Reader exists k|writer getex k ex 100
        Reader get k|writer setbit k 1 1|Reader touch k|writer del k|writer del k|Reader client tracking off|Reader get k
        writer set k 1"""),
    ("several keys", """
        Reader client tracking on|Reader mget a b c|writer mset a 1 b 2|Reader get a|writer rename a z|Reader get z
        writer copy b z replace|Reader lcs b z|writer bitop not b b|writer set z 1|Reader dump z|writer set z 2"""),
    ("inside MULTI", """
        Reader client tracking on|Reader get p|~Reader multi|~Reader set p 5|~Reader get p|Reader exec|writer set p 6"""),
    ("flush", """
        Reader client tracking on|Reader get a|writer flushall|Reader flushdb|writer flushall|writer set a 1
        Reader client tracking off|writer flushall"""),
    ("NOLOOP", """
        Reader client tracking on noloop|Reader get p|Reader set p 1|writer set p 2|Reader get p|writer set p 3"""),
    ("BCAST", """
        Reader client tracking on bcast prefix x prefix y|writer mset x1 1 y1 2 z 1 x1 5|Reader set x9 1
        writer flushall|Reader client tracking on bcast prefix xa|Reader client tracking on bcast prefix w
        writer set w1 1|Reader client trackinginfo|Reader client tracking off|Reader client tracking on bcast noloop
        Reader set x9 1|writer set x9 1|Reader client trackinginfo"""),
    ("OPTIN", """
        Reader client tracking on optin|Reader get z|writer set z 1|Reader client caching yes|Reader client trackinginfo
        Reader get z|Reader get y|writer set y 1|writer set z 2|Reader client caching yes|~Reader multi|~Reader get z
        ~Reader get x1|Reader exec|writer mset x1 4 z 3|Reader client caching no|Reader client caching x"""),
    ("OPTOUT", """
        Reader client tracking on optout|Reader client caching no|Reader client trackinginfo|Reader get z|writer set z 1
        Reader get z|writer set z 2|Reader client caching yes"""),
    ("REDIRECT", """
        Told client id|reader client tracking on redirect {ID:Told}|reader client getredir|reader get r|writer set r 1
        reader client trackinginfo|Second client tracking on redirect {ID:Told}|Second get r|writer set r 2|close Told
        reader get r|Second get r|writer set r 3|reader client trackinginfo|Second client trackinginfo
        Second client tracking on redirect {ID:Told}|old get x|Second client tracking on redirect {ID:old}|Second get r
        writer set r 4|Second client tracking on|Second get r|writer set r 5"""),
    ("RESET", "Reader client tracking on|Reader get r|Reader reset|writer set r 3|Reader client trackinginfo"),
    ("options", """
        a client tracking on|a client tracking on|a client getredir|a client tracking off|a client tracking off
        a client getredir|a client tracking x|a client tracking on foo|a client tracking on prefix a
        a client tracking on prefix|a client tracking on redirect 0|a client tracking on redirect x
        a client tracking on redirect 999999|a client tracking on redirect|a client tracking on redirect {ID:a} redirect {ID:a}
        a client tracking on redirect 999999 foo|a client tracking foo redirect 999999|a client tracking on optin optout
        a client tracking on bcast optin|a client tracking on optin|a client tracking on optout|a client tracking on bcast
        a client tracking off|a client tracking on bcast prefix a prefix ab|a client tracking on bcast prefix a prefix b
        a client tracking on bcast prefix ac|a client tracking on bcast|a client tracking on|a client tracking off foo
        a client tracking off prefix a|a client caching yes|a client tracking on|a client caching yes|a client caching no
        a client caching x|a client caching|a client tracking|a client getredir x|a client trackinginfo x"""),
    ("PAUSE, words", """
        a client pause x|a client pause -1|a client pause 100 foo|a client pause x foo|a client pause|a client pause 1 write x
        a client unpause x|a client unpause|a client pause 0|a get q|a client pause 9223372036854775807|a get q"""),
    ("PAUSE WRITE", """
        writer client pause 100000 write|writer get q|!Reader set q 1|~a multi|!a set w 2|writer client unpause|a exec|resume
        ~a multi|~a set q 3|writer client pause 100000 WRITE|!a exec|writer get q|writer client unpause|resume"""),
    ("UNBLOCK", """
        writer client unblock x|writer client unblock 999999|writer client unblock {ID:a}|writer client unblock {ID:a} foo
        writer client unblock|writer client unblock 1 timeout x|!a wait 3 0|writer client unblock {ID:a}|resume|a ping
        !a wait 3 0|writer client unblock {ID:a} ERROR|resume|a ping|!a wait 3 0|writer client unblock {ID:a} timeout|resume"""),
]

MARK = b"mark-that-no-reply-holds"
PUSH = b">2\r\n$10\r\ninvalidate\r\n"
ANSWER = b"$%d\r\n%s\r\n" % (len(MARK), MARK)


class Clients:
    """The clients of one case at one server."""

    def __init__(self, server):
        self.server = server
        self.clients = {}
        self.ids = {}
        self.silent = set()
        control = server.connect()
        control.call("CLIENT", "UNPAUSE")
        control.call("FLUSHALL")
        control.close()

    def get(self, name):
        if name not in self.clients:
            client = self.server.connect()
            if name[0].isupper():
                client.call("HELLO", "3")
            self.ids[name] = int(client.call("CLIENT", "ID")[1])
            self.clients[name] = client
        return self.clients[name]

    def step(self, step):
        if step == "resume":
            self.silent.clear()
            return
        name, words = step.lstrip("~!").split(" ", 1)
        if name == "close":
            self.clients.pop(words).close()
            return
        if step[0] in "~!":
            self.silent.add(name)
        else:
            self.silent.discard(name)
        client = self.get(name)
        for other in list(self.ids):
            words = words.replace("{ID:%s}" % other, str(self.ids[other]))
        if "{ID:" in words:
            other = words.partition("{ID:")[2].partition("}")[0]
            self.get(other)
            words = words.replace("{ID:%s}" % other, str(self.ids[other]))
        client.send([word.encode() for word in words.split(" ")])
        if step[0] == "!":
            self.await_blocked(name)

    def await_blocked(self, name, seconds=10.0):
        control = self.server.connect()
        deadline = time.monotonic() + seconds
        flags = b""
        while b"b" not in flags and time.monotonic() < deadline:
            line = control.call("CLIENT", "LIST", "ID", self.ids[name])[1]
            flags = line.partition(b" flags=")[2].partition(b" ")[0]
        control.close()

    def got(self, name, at_least, seconds=10.0):
        """What the client got up to a mark, but not before it got so many bytes (or time is up)."""
        client = self.clients[name]
        deadline = time.monotonic() + seconds
        while len(self.normal(client.buffer)) < at_least and time.monotonic() < deadline:
            client.socket.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                client._fill()
            except TimeoutError:
                break
        client.socket.settimeout(20.0)
        # Twice: Redis sends what BCAST collected behind the replies of the same round.
        for count in (1, 2):
            client.send_raw(encode([b"ECHO", MARK]))
            while client.buffer.count(ANSWER) < count:
                client._fill()
        data, client.buffer = client.buffer.replace(ANSWER, b""), b""
        return self.normal(data)

    def normal(self, data):
        """Without what is each server's own: ids, and the order of messages on several keys."""
        for name, client_id in self.ids.items():
            data = data.replace(b":%d\r\n" % client_id, b":<%s>\r\n" % name.encode())
        reply, *pushes = data.split(PUSH)
        return PUSH.join([reply, *sorted(pushes)])

    def close(self):
        for client in self.clients.values():
            client.close()


def one_case(pair, steps):
    """None, or the step, the client and what it got."""
    both = [Clients(server) for server in pair]
    try:
        for step in steps:
            for clients in both:
                clients.step(step)
            # Who sent it first: with the reply there, what others are told of it is on its way.
            sender = step.lstrip("~!").partition(" ")[0]
            for name in sorted(both[0].clients, key=lambda name: name != sender):
                if name not in both[0].silent:
                    theirs = both[0].got(name, 0)
                    ours = both[1].got(name, len(theirs))
                    if theirs != ours:
                        return step, name, theirs, ours
        return None
    finally:
        for clients in both:
            clients.close()


def run(pair):
    differences = 0
    # So that no id looks like a count.
    for server in pair:
        for client in [server.connect() for _ in range(100)]:
            client.close()
    for name, text in CASES:
        steps = [step.strip() for line in text.strip().split("\n") for step in line.split("|")]
        result = one_case(pair, steps)
        if result is not None:
            differences += 1
            print("DIFFERENCE  %s: after %r, client %r\n  %-10s %r\n  %-10s %r"
                  % (name, result[0], result[1], pair[0].name, result[2], pair[1].name, result[3]))
    print("%d cases of several clients, %d differences" % (len(CASES), differences), flush=True)
    return differences
