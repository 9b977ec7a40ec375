"""clang-tidy 14 over the files of a build tree, two at a time, remembering what was clean.

  tools/clang_tidy.py BUILD_DIR [--all | FILE...]

Without more it looks at src, tools and bench: tests include half of the system each and would triple the time;
`--all` (ctest label long) takes them too.
A file is looked at again only if it, a header of ours that it reaches, .clang-tidy or its compiler flags
changed: a fresh clone has no base to compare with, so the memory is by content (.cache/tidy).
"""

import hashlib
import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "tidy"
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.M)


def reached(path, roots, seen):
    """The file and every header of ours that it includes, directly or not."""
    if path in seen:
        return
    seen[path] = path.read_bytes()
    for name in INCLUDE.findall(seen[path].decode(errors="replace")):
        for root in [path.parent, *roots]:
            if (root / name).is_file():
                reached((root / name).resolve(), roots, seen)
                break


def key_of(entry, settings):
    seen = {}
    reached(Path(entry["file"]).resolve(), [ROOT / "src", ROOT / "include", ROOT / "bench", ROOT], seen)
    # The flags without paths of the tree, so that two trees share what they know.
    flags = re.sub(r"-o \S+|-c \S+|\S*ccache\S*", "", entry["command"])
    digest = hashlib.sha256(settings + flags.encode())
    for path in sorted(seen):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + seen[path] + b"\0")
    return digest.hexdigest()


def check(job):
    build_dir, entry, key = job
    result = subprocess.run(["clang-tidy-14", "--quiet", "-p", str(build_dir), entry["file"]],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if result.returncode == 0:
        (CACHE / key).touch()
        return ""
    return result.stdout.decode(errors="replace") or result.stderr.decode(errors="replace")


def main():
    build_dir = Path(sys.argv[1]).resolve()
    everything = sys.argv[2:] == ["--all"]
    only = [] if everything else [str(Path(name).resolve()) for name in sys.argv[2:]]
    CACHE.mkdir(parents=True, exist_ok=True)
    version = subprocess.run(["clang-tidy-14", "--version"], stdout=subprocess.PIPE, check=True).stdout
    settings = version + (ROOT / ".clang-tidy").read_bytes()
    jobs = []
    known = 0
    entries = json.loads((build_dir / "compile_commands.json").read_text())
    for entry in entries:
        name = entry["file"]
        ours = [str(ROOT / top) + "/" for top in ("src", "tools", "bench")]
        wanted = name in only if only else everything or name.startswith(tuple(ours))
        if not wanted or name.startswith(str(build_dir)) or not Path(name).exists():
            continue
        key = key_of(entry, settings)
        if (CACHE / key).exists():
            known += 1
        else:
            jobs.append((build_dir, entry, key))
    start = time.monotonic()
    failed = 0
    with ThreadPoolExecutor(2) as pool:
        for done, text in enumerate(pool.map(check, jobs), 1):
            if text:
                failed += 1
                print(text, flush=True)
            elif done % 10 == 0:
                print(f"{done} of {len(jobs)} files after {time.monotonic() - start:.0f} s", flush=True)
    print(f"{len(jobs)} files looked at, {failed} with findings, {known} unchanged, "
          f"{time.monotonic() - start:.0f} s")
    sys.exit(1 if failed else 0)


main()
