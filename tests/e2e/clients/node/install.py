#!/usr/bin/python3
"""Puts the packages of package-lock.json into DIRECTORY/node_modules, as `npm ci` would: Debian's npm is 387
packages of its own, these are 16 without any script to run. Nothing is fetched when all is there.

  install.py DIRECTORY      the registry is that of npm_config_registry, otherwise npm's own
"""

import base64
import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path

LOCK = Path(__file__).resolve().parent / "package-lock.json"
REGISTRY = os.environ.get("npm_config_registry", "https://registry.npmjs.org").rstrip("/")
TIMEOUT_S = 30


def fetch(name, version, integrity):
    """The tarball of a package, as the lock file knows it."""
    url = f"{REGISTRY}/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        data = answer.read()
    algorithm, _, expected = integrity.partition("-")
    if base64.b64encode(hashlib.new(algorithm, data).digest()).decode() != expected:
        raise ValueError(f"{url} is not what the lock file knows")
    return data


def unpack(tarball, directory):
    """Its files without the one folder above them all."""
    with tarfile.open(fileobj=io.BytesIO(tarball)) as archive:
        for member in archive.getmembers():
            member.name = member.name.partition("/")[2]
            if not (member.isfile() and member.name) or ".." in Path(member.name).parts:
                continue
            target = directory / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.extractfile(member).read())


def install(directory):
    """The path of node_modules. OSError if the registry cannot be reached."""
    lock = LOCK.read_bytes()
    done = Path(directory) / hashlib.sha256(lock).hexdigest()[:16]
    if not done.exists():
        Path(directory).mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=directory))
        try:
            for path, package in json.loads(lock)["packages"].items():
                if path:
                    name = path.rpartition("node_modules/")[2]
                    unpack(fetch(name, package["version"], package["integrity"]), part / path)
            try:
                part.rename(done)
            except OSError:
                if not done.exists():  # otherwise somebody else was first
                    raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return done / "node_modules"


if __name__ == "__main__":
    print(install(sys.argv[1]))
