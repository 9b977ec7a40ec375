"""How the rows of bench/ are measured and judged: alternating rounds, the median of the rounds' ratios."""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import cluster  # noqa: E402
import nodes  # noqa: E402


class Row:
    """One line of the table: ours/theirs of each round, judged by their median."""

    def __init__(self, name, unit, target, at_least):
        self.name, self.unit, self.target, self.at_least = name, unit, target, at_least
        self.ours, self.theirs = [], []
        self.others = {}  # kind -> figures of a server that is shown and not judged

    def add(self, kind, figure):
        if kind == "kvstored":
            self.ours.append(figure)
        elif kind == "redis":
            self.theirs.append(figure)
        else:
            self.others.setdefault(kind, []).append(figure)

    @property
    def ratio(self):
        return statistics.median(a / b for a, b in zip(self.ours, self.theirs))

    @property
    def good(self):
        return self.ratio >= self.target if self.at_least else self.ratio <= self.target

    def text(self):
        ratios = sorted(a / b for a, b in zip(self.ours, self.theirs))
        return (f"{self.name:52} {statistics.median(self.ours):11,.1f} "
                f"{statistics.median(self.theirs):11,.1f} {self.unit:8} "
                f"{self.ratio:6.3f} ({ratios[0]:.2f}-{ratios[-1]:.2f}) "
                f"{'>=' if self.at_least else '<='} {self.target:<5} "
                f"{'ok' if self.good else 'MISSED'}" +
                "".join(f"  ({kind}: {statistics.median(figures):,.1f})"
                        for kind, figures in self.others.items()))


HEAD = f"{'':52} {'kvstored':>11} {'redis':>11} {'':8} {'ratio':>6} (least-most) target"


class Rounds:
    """Rows of one program of bench/: servers started, measured in turn, ended.

    A subclass has `row_names`; the method row_NAME measures row NAME, and its first line says what."""

    row_names = ()

    def __init__(self, options):
        self.options = options
        self.directory = Path(options.directory).resolve()
        self.rows = []
        self.live = []

    def say(self, text):
        print(text, file=sys.stderr, flush=True)

    def scaled(self, count):
        return max(count // 10, 200) if self.options.quick else count

    def node(self, node_class, name, settings=(), pinned=True):
        cpus = nodes.SERVER_CPU if pinned else None
        directory = self.directory / node_class.kind
        node = node_class(name, directory, cpus, settings)
        self.live.append(node)
        return node

    def stop_all(self):
        for node in self.live:
            if node.process is not None and node.process.poll() is None:
                node.kill()
        self.live = []
        shutil.rmtree(self.directory, ignore_errors=True)

    def alternate(self, servers, row, measure, warm_up=True):
        """row gets measure(node) of each, in pairs; each round begins with the other one."""
        for node in servers if warm_up else ():
            measure(node)
        for number in range(self.options.rounds):
            for node in servers if number % 2 == 0 else reversed(servers):
                row.add(node.kind, measure(node))
            self.say(f"  {row.name}: {row.ours[-1]:,.1f} / {row.theirs[-1]:,.1f} {row.unit} = "
                     f"{row.ours[-1] / row.theirs[-1]:.3f}")

    def new_row(self, *words):
        self.rows.append(Row(*words))
        return self.rows[-1]

    def run(self):
        for name in self.options.rows or self.row_names:
            row = getattr(self, f"row_{name}")
            self.say(f"{name}: {row.__doc__.splitlines()[0]}")
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory.mkdir(parents=True)
            row()
        print(HEAD)
        for row in self.rows:
            print(row.text())
        return 0 if all(row.good for row in self.rows) else 1


def file_system(path):
    return subprocess.run(["stat", "-f", "-c", "%T", path], stdout=subprocess.PIPE,
                          check=True).stdout.decode().strip()


def parser_of(rounds, description):
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", choices=[[], *rounds.row_names])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: to try, not to quote")
    parser.add_argument("--directory", default=str(cluster.ROOT / "build" / "bench-data"))
    return parser


def main(rounds, parser):
    """Measures what the command line asks for; 0, 1 if a target is missed, 2 if it cannot be measured."""
    options = parser.parse_args()
    os.makedirs(options.directory, exist_ok=True)
    if file_system(options.directory) in ("tmpfs", "ramfs"):
        parser.error(f"{options.directory} is on a tmpfs; choose --directory on the disk")
    bench = rounds(options)
    try:
        return bench.run()
    except cluster.Failure as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 2
    finally:
        bench.stop_all()
