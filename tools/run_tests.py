"""Builds the trees, runs ctest by label in each, and counts everything once.

  build/       Release, g++, -Werror       every label
  build-asan/  clang, ASan + UBSan, unity  unit, sim, fuzz
  build-tsan/  clang, TSan, unity          the unit programs of the rooms that have threads

The last line is `N passed, N failed, N skipped`; every skip stands above it with its reason. Exit 1 if
anything failed or if a label that was asked for has no test (ctest itself is silent about both).
"""

import json
import os
import re
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LABELS = ["style", "unit", "golden", "sim", "fuzz", "crash", "e2e", "vm", "long"]
THREADED = ["base", "net", "shard", "log", "command", "store", "fabric", "replication", "server",
            "bench"]
PROGRESS_SECONDS = 15
CONFIGURE = ["cmake", "-G", "Ninja", "-S", str(ROOT), "-DKVS_WERROR=ON"]
SANITIZER = [
    "-DCMAKE_CXX_COMPILER=clang++-14", "-DCMAKE_BUILD_TYPE=Sanitizer", "-DKVS_UNITY=ON",
    "-DCMAKE_CXX_FLAGS=-O1 -gline-tables-only -fno-omit-frame-pointer",
]

START = time.monotonic()
passed = 0
failures = []
skips = []


def say(text):
    print(f"[{time.monotonic() - START:5.0f} s] {text}", flush=True)


def run_step(name, command, env=None):
    """Runs it with its output in a log file and a line of progress now and then. True on exit 0."""
    log = ROOT / "build" / "logs" / (re.sub(r"[^a-z0-9]+", "_", name.lower()) + ".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    say(name)
    with open(log, "wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT,
                                   env={**os.environ, **(env or {})})
        done = threading.Event()

        def progress():
            while not done.wait(PROGRESS_SECONDS):
                lines = log.read_bytes()[-4000:].decode(errors="replace").strip().splitlines()
                say(f"  {name}: {lines[-1][:110] if lines else '...'}")

        watcher = threading.Thread(target=progress, daemon=True)
        watcher.start()
        code = process.wait()
        done.set()
        watcher.join()
    if code != 0:
        tail = log.read_text(errors="replace").splitlines()[-80:]
        print("\n".join(tail))
        say(f"{name}: FAILED (exit {code}); whole output in {log.relative_to(ROOT)}")
    return code == 0


def build(tree, options, targets=()):
    directory = ROOT / tree
    if not run_step(f"configure {tree}", [*CONFIGURE, "-B", str(directory), *options]):
        failures.append(f"{tree}: configure")
        return False
    jobs = str(max(2, os.cpu_count() or 2))
    if not run_step(f"build {tree}", ["ninja", "-C", str(directory), "-j", jobs, *targets]):
        failures.append(f"{tree}: build")
        return False
    return True


def tests_of(tree):
    """Name -> labels of all tests that this tree knows."""
    if not (ROOT / tree / "CTestTestfile.cmake").exists():
        return {}
    shown = subprocess.run(["ctest", "--test-dir", str(ROOT / tree), "--show-only=json-v1"],
                           stdout=subprocess.PIPE, check=True).stdout
    found = {}
    for test in json.loads(shown)["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        found[test["name"]] = properties.get("LABELS", [])
    return found


def skips_inside(output):
    """Reasons of skips that a test program hides behind a passing exit code (GoogleTest, pytest)."""
    reasons = re.findall(r"^SKIPPED \[\d+\] (.*)$", output, re.M)
    for name in sorted(set(re.findall(r"^\[  SKIPPED \] (\S+) \(", output, re.M))):
        text = re.search(r"Skipped\n(.*)\n\[  SKIPPED \] " + re.escape(name), output)
        reasons.append(f"{name}: {text.group(1) if text else 'no reason given'}")
    return reasons


def run_ctest(tree, title, names, env=None):
    """Runs exactly these tests and counts them from the JUnit report."""
    global passed
    if not names:
        return
    directory = ROOT / tree
    report = directory / f"junit_{title}.xml"
    report.unlink(missing_ok=True)
    pattern = "^(" + "|".join(re.escape(name) for name in names) + ")$"
    run_step(f"{tree}: {title} ({len(names)} tests)",
             ["ctest", "--test-dir", str(directory), "-R", pattern, "-j2", "--output-on-failure",
              "--test-output-size-passed", "2000000", "--test-output-size-failed", "2000000",
              "--output-junit", str(report)], env)
    seen = set()
    if report.exists():
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            name, status = case.get("name"), case.get("status")
            output = case.findtext("system-out") or ""
            seen.add(name)
            if status == "run":
                passed += 1
                skips.extend((tree, name, reason) for reason in skips_inside(output))
            elif case.find("skipped") is not None or status in ("notrun", "disabled"):
                reason = re.findall(r"SKIP[A-Z]*:? *(.*)", output)
                if status != "disabled" and not reason and "Unable to find" in output:
                    failures.append(f"{tree}: {name}: the test program was not built")
                else:
                    skips.append((tree, name, reason[-1] if reason else "no reason given"))
            else:
                failures.append(f"{tree}: {name}")
    failures.extend(f"{tree}: {name}: did not run" for name in names if name not in seen)


def label_names(tree, label):
    """Tests with the label; those that also carry `long` only belong to `long`."""
    return [name for name, labels in tests_of(tree).items()
            if label in labels and (label == "long" or "long" not in labels)]


def threaded_rooms():
    return [room for room in THREADED if list((ROOT / "tests/unit" / room).glob("*.cc"))]


def finish():
    for tree, name, reason in skips:
        print(f"skipped: {tree}: {name}: {reason}")
    for failure in failures:
        print(f"failed: {failure}")
    say("done")
    print(f"{passed} passed, {len(failures)} failed, {len(skips)} skipped", flush=True)
    sys.exit(1 if failures else 0)


def main():
    asked = sys.argv[1:]
    unknown = [label for label in asked if label not in LABELS]
    if unknown or any(label.startswith("-") for label in asked):
        print(__doc__)
        print(f"unknown label: {' '.join(unknown)}; there are: {' '.join(LABELS)}")
        sys.exit(2)
    labels = [label for label in LABELS if (label in asked if asked else label != "long")]

    if not build("build", ["-DCMAKE_BUILD_TYPE=Release"]):
        finish()
    for label in labels:
        names = label_names("build", label)
        # Fuzzers only run in the sanitizer tree for `long`; elsewhere their corpus is replayed.
        if not names and label in asked:
            failures.append(f"no test carries the label '{label}'")
        run_ctest("build", label, names)

    sanitized = [label for label in labels if label in ("unit", "sim", "fuzz", "long")
                 and label_names("build", label)]
    if sanitized and build("build-asan", [*SANITIZER, "-DKVS_SANITIZE=address"]):
        for label in sanitized:
            run_ctest("build-asan", label, label_names("build-asan", label),
                      {"ASAN_OPTIONS": "detect_stack_use_after_return=1",
                       "UBSAN_OPTIONS": "print_stacktrace=1"})
    rooms = threaded_rooms() if "unit" in labels else []
    targets = [f"unit_{room}" for room in rooms]
    if targets and build("build-tsan", [*SANITIZER, "-DKVS_SANITIZE=thread"], targets):
        run_ctest("build-tsan", "unit", targets, {"TSAN_OPTIONS": "second_deadlock_stack=1"})
    finish()


main()
