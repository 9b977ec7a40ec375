"""promtool over a node's metrics: clean but for two names that the source design fixes.

  tools/check_metrics.py http://127.0.0.1:9479/metrics     or a FILE, or - for standard input
"""

import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Exactly what promtool 2.42 says of the names that others rely on; nothing else may be said.
KNOWN = {
    'qp_retry_count counter metrics should have "_total" suffix',
    'qp_retry_count non-histogram and non-summary metrics should not have "_count" suffix',
}
REQUIRED = ("rdma_write_latency", "qp_retry_count")


def complaints(text):
    """What is wrong with the exposition, beyond what is known."""
    promtool = shutil.which("promtool") or str(ROOT / ".cache" / "promtool")
    result = subprocess.run([promtool, "check", "metrics"], input=text.encode(),
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    lines = set(result.stdout.decode().splitlines()) - KNOWN
    if result.returncode not in (0, 3):
        lines.add(f"promtool ended with exit {result.returncode}")
    return sorted(lines)


def missing(text):
    return [name for name in REQUIRED if f"# TYPE {name} " not in text]


def main():
    source = sys.argv[1]
    if source == "-":
        text = sys.stdin.read()
    elif source.startswith("http"):
        text = urllib.request.urlopen(source, timeout=10).read().decode()
    else:
        text = Path(source).read_text()
    found = complaints(text) + [f"{name} is not exposed" for name in missing(text)]
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
