"""Fixed cases of odd and bad bytes: what comes back, and whether the connection is closed, must be the
same as with Redis."""

import socket

MARK = b"mark-that-no-reply-holds"
ECHO = b"*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n" % (len(MARK), MARK)
ANSWER = b"$%d\r\n%s\r\n" % (len(MARK), MARK)

CASES = [
    ("inline", b"PING\r\n"),
    ("inline with line feed only", b"PING\n"),
    ("inline, several", b"PING\r\nPING hi\r\nECHO x\r\n"),
    ("inline, empty lines", b"\r\n\r\nPING\r\n"),
    ("inline, spaces", b"   SET   a    b  \r\nGET a\r\n"),
    ("inline, double quotes", b'SET a "x y \\x41\\n\\t\\"z"\r\nGET a\r\n'),
    ("inline, single quotes", b"SET a 'it\\'s \\n'\r\nGET a\r\n"),
    ("inline, empty quotes", b'SET a ""\r\nGET a\r\nSTRLEN a\r\n'),
    ("inline, unbalanced double quote", b'SET a "x\r\n'),
    ("inline, unbalanced single quote", b"SET a 'x\r\n"),
    ("inline, quote glued to a word", b'SET a "x"y\r\n'),
    ("inline, unknown", b"FOO bar\r\n"),
    ("inline, too long", b"A" * 70_000),
    ("empty array", b"*0\r\nPING\r\n"),
    ("negative array", b"*-1\r\nPING\r\n"),
    ("array length is no number", b"*a\r\n"),
    ("array length with space", b"* 1\r\n"),
    ("array too long", b"*2147483648\r\n"),
    ("array length overflows", b"*99999999999999999999\r\n"),
    ("bulk expected", b"*1\r\n+PING\r\n"),
    ("bulk expected, inner array", b"*1\r\n*1\r\n"),
    ("bulk length negative", b"*1\r\n$-1\r\n"),
    ("bulk length is no number", b"*1\r\n$a\r\n"),
    ("bulk length empty", b"*1\r\n$\r\n"),
    ("bulk too long", b"*2\r\n$3\r\nGET\r\n$536870913\r\n"),
    ("bulk length line too long", b"*1\r\n$" + b"1" * 70_000),
    ("array length line too long", b"*" + b"1" * 70_000),
    ("empty command name", b"*1\r\n$0\r\n\r\n"),
    ("binary command name", b"*1\r\n$4\r\n\x00\r\n\xff\r\n"),
    ("mixed with inline", b"*1\r\n$4\r\nPING\r\nPING\r\n*1\r\n$4\r\nping\r\n"),
    ("QUIT", b"*1\r\n$4\r\nQUIT\r\n*1\r\n$4\r\nPING\r\n"),
    ("QUIT in the middle", b"PING\r\nQUIT\r\nPING\r\n"),
    ("RESET", b"MULTI\r\nRESET\r\nGET a\r\n"),
    ("RESET from RESP3", b"*2\r\n$6\r\nCLIENT\r\n$7\r\nGETNAME\r\n*1\r\n$5\r\nRESET\r\nGET no-such-key\r\n"),
    ("HTTP POST", b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ("HTTP Host", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ("CLIENT REPLY OFF", b"CLIENT REPLY OFF\r\nPING\r\nGET a\r\nCLIENT REPLY ON\r\n"),
    ("CLIENT REPLY SKIP", b"CLIENT REPLY SKIP\r\nPING\r\nPING x\r\n"),
    ("EXEC without MULTI", b"EXEC\r\nDISCARD\r\n"),
    ("EXECABORT", b"MULTI\r\nFOO\r\nGET a\r\nEXEC\r\nEXEC\r\n"),
    ("MULTI nested", b"MULTI\r\nMULTI\r\nWATCH a\r\nPING\r\nEXEC\r\n"),
    ("not allowed in MULTI", b"MULTI\r\nSAVE\r\nEXEC\r\n"),
    ("empty EXEC", b"MULTI\r\nEXEC\r\n"),
    ("HELLO inside EXEC that fails", b"MULTI\r\nGET a\r\nHELLO 3 SETNAME n x\r\nHELLO 4\r\nGET a\r\nEXEC\r\nGET a\r\n"),
    ("error inside EXEC", b"SET a x\r\nMULTI\r\nINCR a\r\nSET a 5\r\nINCR a\r\nEXEC\r\n"),
]


def exchange(server, data, seconds=3.0):
    """All bytes that come back until the mark or the end, and whether the connection was closed."""
    client = server.connect()
    client.socket.settimeout(seconds)
    received, closed = b"", False
    try:
        client.socket.sendall(data + ECHO)
        while not received.endswith(ANSWER):
            chunk = client.socket.recv(1 << 16)
            if not chunk:
                closed = True
                break
            received += chunk
    except (ConnectionResetError, BrokenPipeError):
        closed = True
    except socket.timeout:
        pass
    finally:
        client.close()
    return received, closed


def run(pair):
    differences = 0
    for name, data in CASES:
        for server in pair:
            client = server.connect()
            client.call("FLUSHALL")
            client.close()
        theirs, ours = (exchange(server, data) for server in pair)
        if theirs != ours:
            differences += 1
            print("DIFFERENCE  bytes: %s (%r)\n  %-10s %r\n  %-10s %r" %
                  (name, data[:80], pair[0].name, theirs, pair[1].name, ours))
    print("%d cases of odd bytes, %d differences" % (len(CASES), differences), flush=True)
    return differences
