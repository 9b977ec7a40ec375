"""clang-format 14 over all C++ files; prints what it would change and exits 1. `--fix` changes it."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

files = [str(path) for top in ("src", "include", "tests", "tools", "bench")
         for path in sorted((ROOT / top).rglob("*")) if path.suffix in (".h", ".cc")]
mode = ["-i"] if "--fix" in sys.argv[1:] else ["--dry-run", "-Werror", "--ferror-limit=3"]
half = (len(files) + 1) // 2
runs = [subprocess.Popen(["clang-format-14", "--style=file", *mode, *part])
        for part in (files[:half], files[half:]) if part]
codes = [run.wait() for run in runs]
if any(codes):
    print(f"{os.path.relpath(__file__)} --fix repairs it")
sys.exit(1 if any(codes) else 0)
