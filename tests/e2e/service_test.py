"""deploy/kvstored.service: systemd-analyze has nothing to say, and the sandbox keeps its level."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy" / "kvstored.service"
EXPOSURE_MAX = 20  # tenths; 0 is shut, 100 wide open


def verify(unit_text):
    """What `systemd-analyze verify` prints for the unit in a root where its programs exist. Its exit code
    is 0 even for unknown keys (systemd 252), so any output counts."""
    with tempfile.TemporaryDirectory() as root:
        units = Path(root) / "etc/systemd/system"
        units.mkdir(parents=True)
        for program in ("usr/bin/kvstored", "bin/kill"):
            path = Path(root) / program
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("#!/bin/sh\n")
            path.chmod(0o755)
        shutil.copytree("/lib/systemd/system", Path(root) / "lib/systemd/system", symlinks=True)
        path = units / UNIT.name
        path.write_text(unit_text)
        result = subprocess.run(["systemd-analyze", "verify", "--root", root, "--man=no", UNIT.name],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return result.stdout.decode(), result.returncode


def test_verify_says_nothing():
    output, code = verify(UNIT.read_text())
    assert (output, code) == ("", 0)


def test_verify_would_complain():
    """The check above sees a misspelt key and a missing program."""
    output, _ = verify(UNIT.read_text().replace("Restart=", "Restrat="))
    assert "Restrat" in output
    output, _ = verify(UNIT.read_text().replace("/usr/bin/kvstored", "/usr/bin/gone"))
    assert "/usr/bin/gone" in output


def test_sandbox():
    result = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager",
                             f"--threshold={EXPOSURE_MAX}", str(UNIT)],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert result.returncode == 0, result.stdout.decode()


if __name__ == "__main__":
    test_verify_says_nothing()
    test_verify_would_complain()
    test_sandbox()
    sys.exit(0)
