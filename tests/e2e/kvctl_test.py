"""kvctl against a server that plays a node: what it sends, what it prints, how it fails."""

import json
import os
import socket
import subprocess
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KVCTL = Path(os.environ.get("KVS_BIN", ROOT / "build/bin")) / "kvctl"


class FakeNode:
    """Accepts one connection after another and answers each command with the next reply."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.commands = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as stream:
                while True:
                    line = stream.readline()
                    if not line:
                        break
                    words = []
                    for _ in range(int(line[1:])):
                        size = int(stream.readline()[1:])
                        words.append(stream.read(size + 2)[:-2].decode())
                    self.commands.append(words)
                    reply = self.replies.pop(0)
                    if reply is None:
                        break
                    connection.sendall(reply)


def bulk(value):
    text = value if isinstance(value, str) else json.dumps(value)
    return b"$%d\r\n%s\r\n" % (len(text.encode()), text.encode())


def kvctl(*args):
    result = subprocess.run([KVCTL, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            timeout=60, check=False)
    return result.returncode, result.stdout.decode(), result.stderr.decode()


STATUS = {
    "role": "primary", "epoch": 7, "used_memory_bytes": 3 * 1024 * 1024 // 2, "promotable": True,
    "primary": None, "refuses_writes": "",
    "members": [{"address": "127.0.0.1:7480", "state": "streaming", "lag_records": 0},
                {"address": "127.0.0.1:7481", "state": "absent", "lag_records": 1200}],
    "log": {"kind": "disk", "written_bytes": 10},
}


@pytest.mark.parametrize("arguments,words", [
    (["status"], ["status"]),
    (["checkpoint"], ["checkpoint"]),
    (["promote"], ["promote"]),
    (["promote", "--ack-replicas", "0", "--accept-loss"],
     ["promote", "ack-replicas", "0", "accept-loss"]),
    (["demote"], ["demote"]),
    (["member", "list"], ["member", "list"]),
    (["member", "drop", "abc", "--force"], ["member", "drop", "abc", "force"]),
    (["member", "replace", "abc", "def"], ["member", "replace", "abc", "def"]),
    (["join", "127.0.0.1:7479", "--discard-local-data"],
     ["join", "127.0.0.1:7479", "discard-local-data"]),
])
def test_words(arguments, words):
    node = FakeNode(bulk({"ok": True}))
    code, output, error = kvctl(*arguments, "--port", str(node.port))
    assert (code, error) == (0, "")
    assert node.commands == [["KVSTORED", *words]]
    assert output == "ok  yes\n"


def test_table():
    node = FakeNode(bulk(STATUS))
    code, output, _ = kvctl("status", "--port", str(node.port))
    assert code == 0
    assert output == """\
role            primary
epoch           7
used memory     1.5 MiB
promotable      yes
primary         -
refuses writes  -

members
  address         state      lag records
  127.0.0.1:7480  streaming  0
  127.0.0.1:7481  absent     1200

log
  kind     disk
  written  10 B
"""


def test_json_is_untouched():
    node = FakeNode(bulk(STATUS))
    code, output, _ = kvctl("--port", str(node.port), "--json", "status")
    assert code == 0
    assert json.loads(output) == STATUS


def test_refusal_is_exit_1_with_the_reason():
    node = FakeNode(b"-ERR not promotable: it has not counted in the gate\r\n")
    code, output, error = kvctl("promote", "--port", str(node.port))
    assert (code, output) == (1, "")
    assert "not promotable: it has not counted" in error


@pytest.mark.parametrize("reply,hint", [
    (b"-LOADING kvstored is loading the dataset in memory\r\n", "how far it is"),
    (b"-NOAUTH Authentication required.\r\n", "--password-file"),
    (b"-ERR unknown command 'KVSTORED', with args beginning with: 'status' \r\n",
     "not the front port"),
    (b":5\r\n", "not a kvstored node"),
    (None, "outcome of the operation is unknown"),
])
def test_error_says_what_to_do(reply, hint):
    node = FakeNode(reply)
    code, _, error = kvctl("status", "--port", str(node.port))
    assert code == 1
    assert hint in error and f"127.0.0.1:{node.port}" in error


def test_connection_refused():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code, _, error = kvctl("status", "--port", str(port))
    assert code == 1
    assert f"cannot connect to 127.0.0.1:{port}" in error and "Connection refused" in error


def test_password(tmp_path):
    secret = tmp_path / "password"
    secret.write_text("open sesame\n")
    node = FakeNode(b"+OK\r\n", bulk("{}"))
    code, _, error = kvctl("status", "--port", str(node.port), "--password-file", str(secret))
    assert (code, error) == (0, "")
    assert node.commands[0] == ["AUTH", "open sesame"]
    node = FakeNode(b"-WRONGPASS invalid username-password pair or user is disabled.\r\n")
    code, _, error = kvctl("status", "--port", str(node.port), "--password-file", str(secret))
    assert code == 1 and "another password" in error
    code, _, error = kvctl("status", "--password-file", str(tmp_path / "gone"),
                           "--port", str(FakeNode().port))
    assert code == 1 and "cannot be read" in error


def test_bad_usage():
    assert kvctl()[0] not in (0, 1)
    assert kvctl("explode")[0] not in (0, 1)
    assert kvctl("promote", "--ack-replicas", "9")[0] not in (0, 1)


def test_config_check(tmp_path):
    code, output, _ = kvctl("config", "check", str(ROOT / "config/kvstored.toml"))
    assert code == 0 and "is good" in output
    bad = tmp_path / "bad.toml"
    bad.write_text("[server]\nport = 99999\n")
    code, _, error = kvctl("config", "check", str(bad))
    assert code == 1
    assert f"{bad}:2: server.port: '99999' is not allowed" in error
    assert kvctl("config", "reference")[1] == (ROOT / "config/kvstored.toml").read_text()


def test_log_file_must_exist(tmp_path):
    code, _, error = kvctl("log", "verify", str(tmp_path / "gone"))
    assert code == 1 and "is not an existing file" in error
