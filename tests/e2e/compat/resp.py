"""A RESP client that keeps every byte: replies are typed tuples, so that two servers can be compared
type by type and not only value by value."""

import socket


class Closed(Exception):
    """The server closed the connection."""


class Client:
    def __init__(self, host, port, timeout=20.0):
        self.socket = socket.create_connection((host, port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def close(self):
        self.socket.close()

    def send_raw(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            raise Closed() from None

    def send(self, args):
        self.send_raw(encode(args))

    def call(self, *args):
        self.send([a if isinstance(a, bytes) else str(a).encode() for a in args])
        return self.read()

    def _fill(self):
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        if not data:
            raise Closed()
        self.buffer += data

    def _line(self):
        while b"\r\n" not in self.buffer:
            self._fill()
        line, _, self.buffer = self.buffer.partition(b"\r\n")
        return line

    def _exact(self, count):
        while len(self.buffer) < count + 2:
            self._fill()
        data, end = self.buffer[:count], self.buffer[count:count + 2]
        if end != b"\r\n":
            raise ValueError("bulk of %d bytes ends with %r" % (count, end))
        self.buffer = self.buffer[count + 2:]
        return data

    def read(self):
        """One reply: (type byte, payload). Aggregates hold a list, null aggregates None."""
        line = self._line()
        if not line:
            raise ValueError("empty line where a reply should begin")
        kind, rest = line[:1], line[1:]
        if kind in b"+-:,#(_":
            return (kind, rest)
        if kind in b"$=!":
            count = int(rest)
            return (kind, None if count < 0 else self._exact(count))
        if kind in b"*~>":
            count = int(rest)
            return (kind, None if count < 0 else [self.read() for _ in range(count)])
        if kind in b"%":
            return (kind, [self.read() for _ in range(2 * int(rest))])
        raise ValueError("unknown reply type: %r" % line[:80])

    def read_until_closed(self):
        data = self.buffer
        self.buffer = b""
        try:
            while True:
                chunk = self.socket.recv(1 << 16)
                if not chunk:
                    return data, True
                data += chunk
        except ConnectionResetError:
            return data, True
        except socket.timeout:
            return data, False


def encode(args):
    parts = [b"*%d\r\n" % len(args)]
    for arg in args:
        parts.append(b"$%d\r\n" % len(arg))
        parts.append(arg)
        parts.append(b"\r\n")
    return b"".join(parts)
