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


ALL_COMMANDS = "status, checkpoint, promote, demote, member, join, config, log"


@pytest.mark.parametrize("arguments,text", [
    ([], f"a command is missing; there are: {ALL_COMMANDS}; see kvctl --help"),
    (["bogus"], f"unknown command 'bogus'; there are: {ALL_COMMANDS}; see kvctl --help"),
    (["--json", "bogus", "--port", "1"],
     f"unknown command 'bogus'; there are: {ALL_COMMANDS}; see kvctl --help"),
    (["--bogus"], "unknown option '--bogus'; see kvctl --help"),
    (["status", "--bogus"], "unknown option '--bogus'; see kvctl status --help"),
    (["status", "more"], "'more' is one word too many; see kvctl status --help"),
    (["status", "promote"], "'promote' is one word too many; see kvctl status --help"),
    (["member"], "a command is missing; there are: list, replace, drop; see kvctl member --help"),
    (["member", "bogus"],
     "unknown command 'bogus'; there are: list, replace, drop; see kvctl member --help"),
    (["config", "bogus"],
     "unknown command 'bogus'; there are: check, reference; see kvctl config --help"),
    (["member", "drop"], "MEMBER is required; see kvctl member drop --help"),
    (["join"], "ADDRESS is required; see kvctl join --help"),
    (["join", "host"], "ADDRESS: 'host' is not HOST:PORT; see kvctl join --help"),
    (["demote", "host:0"], "ADDRESS: 'host:0' is not HOST:PORT; see kvctl demote --help"),
    (["promote", "--ack-replicas", "9"],
     "--ack-replicas: Value 9 not in range 0 to 8; see kvctl promote --help"),
    (["status", "--timeout", "0"],
     "--timeout: Value 0 not in range 1 to 86400; see kvctl status --help"),
])
def test_bad_usage_is_exit_2_and_one_line(arguments, text):
    assert kvctl(*arguments) == (2, "", f"kvctl: {text}\n")


@pytest.mark.parametrize("arguments,option", [
    (["--port", "many", "status"], "--port"), (["status", "--port"], "--port"),
    (["promote", "--ack-replicas"], "--ack-replicas"),
])
def test_bad_values_are_bad_usage(arguments, option):
    code, output, error = kvctl(*arguments)
    assert (code, output) == (2, "") and error.count("\n") == 1
    assert error.startswith("kvctl: ") and option in error and "; see kvctl " in error


def test_help_and_version_are_no_errors():
    code, output, error = kvctl("--help")
    assert (code, error) == (0, "") and "checkpoint" in output
    code, output, error = kvctl("member", "drop", "--help")
    assert (code, error) == (0, "") and "--force" in output
    code, output, error = kvctl("--version")
    assert (code, error) == (0, "") and output.strip()


def test_json_is_always_json(tmp_path):
    node = FakeNode(bulk("OK"))
    code, output, _ = kvctl("checkpoint", "--json", "--port", str(node.port))
    assert code == 0 and json.loads(output) == {"result": "OK"}
    assert kvctl("checkpoint", "--port", str(FakeNode(b"+OK\r\n").port))[:2] == (0, "OK\n")
    good = tmp_path / "good.toml"
    good.write_text("[server]\nport = 1\n")
    code, output, _ = kvctl("--json", "config", "check", str(good))
    assert code == 0 and json.loads(output) == {"file": str(good), "result": "OK"}
    code, output, _ = kvctl("--json", "config", "reference")
    keys = {key["key"]: key for key in json.loads(output)}
    assert code == 0 and keys["server.port"] == {
        "key": "server.port", "default": "7379", "allowed": "a whole number from 0 to 65535",
        "runtime": False, "help": "Front port (RESP2 and RESP3). 0 takes any free one."}
    assert keys["server.maxclients"]["runtime"] is True
    # Errors are text on standard error.
    node = FakeNode(b"-ERR not promotable\r\n")
    code, output, error = kvctl("promote", "--json", "--port", str(node.port))
    assert (code, output) == (1, "") and "not promotable" in error


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
