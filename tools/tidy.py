"""Checks of the sources that a compiler does not make: layers, fences, sizes, words, references.

  tools/tidy.py [ROOT]     prints `file:line: what is wrong` and exits 1, or prints nothing and exits 0

Reads text only, so it runs in about a second.
"""

import re
import subprocess
import sys
from pathlib import Path

# room -> rooms whose headers it may include; `contract` is include/kvstored/.
LAYERS = {
    "contract": "",
    "base": "contract",
    "memory": "contract base",
    "record": "contract base",
    "resp": "contract base",
    "metrics": "contract base",
    "store": "contract base memory metrics",
    "fabric": "contract base metrics",
    "nvm": "contract base metrics",
    "net": "contract base metrics",
    "tuner": "contract base metrics",
    "log": "contract base record metrics",
    "replication": "contract base record metrics",
    "shard": "contract base memory record store log replication metrics",
    "command": "contract base net resp store shard metrics memory record",
}
LAYERS["server"] = " ".join(LAYERS) + " server"
LAYERS = {room: set(rooms.split()) | {room} for room, rooms in LAYERS.items()}

# Included file -> where under src/ it may be included. An empty tuple: nowhere in a header.
FENCES = [
    (r"infiniband/|rdma/", ("fabric/verbs/",)),
    (r"xgboost/", ("tuner/model.cc",)),
    (r"libpmem", ("nvm/pmem/",)),
    (r"prometheus/|CivetServer\.h|civetweb\.h", ("server/",)),
    (r"toml\+\+/|CLI/", ("server/",)),
    # The simulator replaces sockets, threads and clocks, so nothing above may reach past the seams.
    (r"sys/socket\.h|netinet/|sys/epoll\.h|sys/un\.h|netdb\.h|poll\.h",
     ("base/", "net/", "fabric/", "server/")),
    (r"thread$|pthread\.h|condition_variable$",
     ("base/", "net/", "fabric/", "nvm/", "server/", "memory/", "log/")),
    (r"mutex$|shared_mutex$", ("base/", "net/", "fabric/", "nvm/", "server/", "memory/", "log/",
                               "metrics/", "shard/", "command/", "replication/")),
    (r"chrono$|ctime$|time\.h|sys/time\.h", ("base/", "net/", "fabric/", "server/")),
]
HEAVY = r"spdlog/|CLI/|nlohmann/json\.hpp|toml\+\+/|prometheus/|CivetServer\.h|xgboost/"

LINES_CC, LINES_H, FUNCTION_LINES, BLOB_BYTES = 800, 500, 75, 256 * 1024
SOURCE_DIRS = ("src", "include", "tests", "tools", "bench")
PROSE_DIRS = SOURCE_DIRS + ("docs", "config", "deploy", ".ci")
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
# Where the work was done is nobody's business who reads the result.
WORKPLACE = re.compile(r"/wo" r"rk/|\bissue #?\d|\bthis ses" r"sion\b|\.\./sha" r"red\b", re.I)
BAD_NAME = re.compile(r"\b(?:class|struct|enum class|namespace)\s+"
                      r"(\w*(?:Manager|Helper|Utils?|Data|Info|Ctx))\b(?!::)")
BAD_CALL = re.compile(r"\b(process|handle)\(")
SLEEP = re.compile(r"\b(sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(")
DOC_PATH = re.compile(r"(?<![\w/.-])((?:src|include|tests|tools|bench|config|deploy|docs)/"
                      r"[\w./-]*[\w-])")


class Tidy:
    def __init__(self, root):
        self.root = Path(root)
        self.problems = []
        self.texts = {}

    def report(self, path, line, text):
        self.problems.append(f"{path}:{line}: {text}")

    def files(self, directories, suffixes):
        for directory in directories:
            for path in sorted((self.root / directory).rglob("*")):
                if path.is_file() and path.suffix in suffixes and "__pycache__" not in path.parts:
                    yield path

    def text(self, path):
        if path not in self.texts:
            self.texts[path] = path.read_text(errors="replace")
        return self.texts[path]

    def includes(self, path):
        for number, line in enumerate(self.text(path).splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
            if match:
                yield number, match.group(1)

    def room_of_include(self, name):
        if name.startswith("kvstored/"):
            return "contract"
        room = name.split("/")[0]
        return room if "/" in name and room in LAYERS else None

    def check_layers(self):
        for path in self.files(("src", "include"), (".h", ".cc")):
            relative = path.relative_to(self.root)
            room = "contract" if relative.parts[0] == "include" else relative.parts[1]
            if room not in LAYERS:
                self.report(relative, 1, f"room '{room}' is not in the layer table of tools/tidy.py")
                continue
            for number, name in self.includes(path):
                other = self.room_of_include(name)
                if other and other not in LAYERS[room]:
                    self.report(relative, number, f"layer: '{room}' may not include '{name}'")
                if name.startswith("../") or "/../" in name:
                    self.report(relative, number, f"include from the root, not '{name}'")

    def check_fences(self):
        for path in self.files(("src", "include"), (".h", ".cc")):
            relative = path.relative_to(self.root)
            inside = str(relative).removeprefix("src/")
            for number, name in self.includes(path):
                for pattern, places in FENCES:
                    if re.match(pattern, name) and not inside.startswith(places):
                        self.report(relative, number, f"fence: only {', '.join(places)} may include "
                                                      f"<{name}>")
                if path.suffix == ".h" and re.match(HEAVY, name):
                    self.report(relative, number, f"<{name}> is heavy: include it in .cc files only")

    def check_sizes(self):
        for path in self.files(SOURCE_DIRS, (".h", ".cc")):
            relative = path.relative_to(self.root)
            lines = self.text(path).splitlines()
            bound = LINES_H if path.suffix == ".h" else LINES_CC
            if len(lines) > bound:
                self.report(relative, 1, f"{len(lines)} lines: more than {bound}, split the file")
            if relative.parts[0] != "tests":
                self.check_function_sizes(relative, lines)
        listed = subprocess.run(["git", "-C", str(self.root), "ls-files", "-z"],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
        for name in listed.decode().split("\0"):
            path = self.root / name
            if name and path.is_file() and path.stat().st_size > BLOB_BYTES:
                self.report(name, 1, f"{path.stat().st_size} bytes: blobs over {BLOB_BYTES} stay out")

    def check_function_sizes(self, relative, lines):
        """Approximate: from an unindented line of a definition to the `}` in the first column."""
        start = None
        for number, line in enumerate(lines, 1):
            if line.startswith("}"):
                if start and number - start > FUNCTION_LINES:
                    self.report(relative, start, f"function of {number - start} lines: split it")
                start = None
            elif re.match(r"[A-Za-z~]", line) and not re.match(
                    r"(namespace|struct|class|enum|union|using|extern|template|constexpr|const|inline "
                    r"constexpr|static const)\b", line):
                start = start or number
                if line.rstrip().endswith(";"):
                    start = None

    def check_words(self):
        suffixes = (".h", ".cc", ".py", ".sh", ".md", ".txt", ".toml", ".service", "")
        paths = list(self.files(PROSE_DIRS, suffixes))
        paths += [self.root / n for n in ("README.md", "CMakeLists.txt") if (self.root / n).exists()]
        for path in paths:
            relative = path.relative_to(self.root)
            if relative.name in ("tidy.py", "tidy_test.py"):
                continue
            code = path.suffix in (".h", ".cc")
            unit = relative.parts[:2] in (("tests", "unit"), ("tests", "sim"))
            if code and re.search(r"(manager|helper|utils?)\b", path.stem):
                self.report(relative, 1, "a file's name says what it does")
            for number, line in enumerate(self.text(path).splitlines(), 1):
                for pattern in (UNFINISHED, WORKPLACE):
                    match = pattern.search(line)
                    if match:
                        self.report(relative, number, f"word '{match.group(0)}' has no place here")
                if not code:
                    continue
                bare = re.sub(r'"(\\.|[^"\\])*"', '""', line.split("//")[0])
                for pattern in (BAD_NAME, BAD_CALL):
                    match = pattern.search(bare)
                    if match:
                        self.report(relative, number, f"name '{match.group(1)}' says nothing")
                if unit and SLEEP.search(bare):
                    self.report(relative, number, "unit and sim tests do not sleep")

    def check_limits(self):
        limits = self.root / "include/kvstored/limits.h"
        if not limits.exists():
            return
        sources = "\n".join(self.text(p) for p in self.files(("src", "include"), (".h", ".cc"))
                            if p != limits)
        for number, line in enumerate(self.text(limits).splitlines(), 1):
            match = re.match(r"inline constexpr \w+ (k\w+) =", line)
            own = match and len(re.findall(rf"\b{match.group(1)}\b", self.text(limits))) > 1
            if match and not own and not re.search(rf"\b{match.group(1)}\b", sources):
                self.report(limits.relative_to(self.root), number, f"{match.group(1)} is used nowhere")

    def check_dead_headers(self):
        included = {name for path in self.files(SOURCE_DIRS, (".h", ".cc"))
                    for _, name in self.includes(path)}
        for top in ("src", "include"):
            for path in self.files((top,), (".h",)):
                if str(path.relative_to(self.root / top)) not in included:
                    self.report(path.relative_to(self.root), 1, "no file includes this header")
        for path in self.files(SOURCE_DIRS, (".h",)):
            if "#pragma once" not in self.text(path):
                self.report(path.relative_to(self.root), 1, "#pragma once is missing")

    def check_references(self):
        for path in self.files(PROSE_DIRS, (".h", ".cc", ".md", ".py")):
            relative = path.relative_to(self.root)
            if relative.name in ("tidy.py", "tidy_test.py"):
                continue
            for number, line in enumerate(self.text(path).splitlines(), 1):
                for record in re.findall(r"\bADR-(\d{4})\b", line):
                    if not list((self.root / "docs/adr").glob(f"{record}-*.md")):
                        self.report(relative, number, f"docs/adr/{record}-*.md does not exist")
        pages = list(self.files(("docs",), (".md",)))
        pages += [self.root / "README.md"] if (self.root / "README.md").exists() else []
        for path in pages:
            for number, line in enumerate(self.text(path).splitlines(), 1):
                for name in DOC_PATH.findall(line):
                    if not (self.root / name).exists() and not list(self.root.glob(name + ".*")):
                        self.report(path.relative_to(self.root), number, f"{name} does not exist")

    def run(self):
        self.check_layers()
        self.check_fences()
        self.check_sizes()
        self.check_words()
        self.check_limits()
        self.check_dead_headers()
        self.check_references()
        return self.problems


if __name__ == "__main__":
    found = Tidy(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent).run()
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)
