"""tools/tidy.py finds each kind of fault in a tree that holds exactly one, and nothing in a clean one."""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from tidy import Tidy  # noqa: E402

CLEAN = {
    "include/kvstored/limits.h": "#pragma once\ninline constexpr int kBound = 3;\n",
    "src/base/a.h": '#pragma once\n#include "kvstored/limits.h"\ninline int a = kBound;\n',
    "src/base/a.cc": '#include "base/a.h"\n',
}
FAULTS = {
    "layer: 'base' may not include": {"src/base/b.cc": '#include "store/store.h"\n'},
    "layer: 'log' may not include": {"src/log/b.cc": '#include "replication/ring.h"\n'},
    "layer: 'shard' may not include": {"src/shard/b.cc": '#include "fabric/tcp/link.h"\n'},
    "fence: only fabric/verbs/": {"src/shard/b.cc": "#include <infiniband/verbs.h>\n"},
    "fence: only server/ may": {"src/metrics/b.cc": "#include <prometheus/counter.h>\n"},
    "fence: only base/, net/, fabric/": {"src/shard/b.cc": "#include <sys/socket.h>\n"},
    "is heavy": {"src/server/b.h": "#pragma once\n#include <spdlog/spdlog.h>\n",
                 "src/server/b.cc": '#include "server/b.h"\n'},
    "include from the root": {"src/base/b.cc": '#include "../base/a.h"\n'},
    "not in the layer table": {"src/cache/b.cc": "int b;\n"},
    "more than 800": {"src/base/b.cc": "// line\n" * 801},
    "more than 500": {"src/base/b.h": "#pragma once\n" + "// line\n" * 500,
                      "src/base/b.cc": '#include "base/b.h"\n'},
    "function of": {"src/base/b.cc": "void F() {\n" + "  F();\n" * 90 + "}\n"},
    "word 'TO" "DO'": {"src/base/b.cc": "// TO" "DO: later\n"},
    "word '/wo" "rk/'": {"docs/a.md": "see /wo" "rk/x\n"},
    "name 'LogManager'": {"src/base/b.cc": "class LogManager {};\n"},
    "name 'process'": {"src/base/b.cc": "int process(int);\n"},
    "a file's name": {"src/base/log_helper.cc": "int b;\n"},
    "do not sleep": {"tests/unit/base/b_test.cc": "void F() { usleep(1); }\n"},
    "kUnused is used nowhere": {"include/kvstored/limits.h": "#pragma once\n"
                                "inline constexpr int kBound = 3;\n"
                                "inline constexpr int kUnused = 3;\n"},
    "no file includes this header": {"src/base/b.h": "#pragma once\n"},
    "#pragma once is missing": {"src/base/b.h": "int b;\n", "src/base/b.cc": '#include "base/b.h"\n'},
    "docs/adr/0042": {"src/base/b.cc": "// See ADR-0042\n"},
    "src/base/gone.cc does not exist": {"docs/a.md": "in `src/base/gone.cc`\n"},
}


def problems_with(files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in {**CLEAN, **files}.items():
            path = Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Tidy(root).run()


failed = 0
if problems_with({}):
    failed += 1
    print("the clean tree has problems:", problems_with({}))
for expected, files in FAULTS.items():
    found = problems_with(files)
    if len(found) != 1 or expected not in found[0]:
        failed += 1
        print(f"expected exactly one problem with '{expected}', found {found}")
print(f"{len(FAULTS)} kinds of fault, {failed} not found")
sys.exit(1 if failed else 0)
