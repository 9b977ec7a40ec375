"""tools/run --check with fewer keys: load, SIGKILL under load, promote, compare, rejoin."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("shards", ["1", "4"])
def test_no_acknowledged_write_is_lost(shards):
    result = subprocess.run(
        [sys.executable, ROOT / "tools/check.py", "--keys", "4000", "--overwrite-seconds", "1",
         "--shards", shards, "--threads", str(min(int(shards), 2))],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ, check=False)
    text = result.stdout.decode()
    assert result.returncode == 0, text
    assert "PASSED" in text.splitlines()[-1]
