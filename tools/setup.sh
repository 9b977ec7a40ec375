#!/bin/bash
# Installs what building, running and testing need on a bare Debian 12, and nothing when all is there
# (then apt is not called at all). Called by tools/run and tools/test; may be run alone.
#   tools/setup.sh [build|test]      build: compiler and libraries; test (default): the tools of the tests too
set -euo pipefail
cd "$(dirname "$0")/.."
what="${1:-test}"

build_packages=(
  ca-certificates g++ cmake ninja-build pkg-config ccache python3
  libabsl-dev libspdlog-dev libfmt-dev prometheus-cpp-dev libtomlplusplus-dev libcli11-dev
  libxxhash-dev liblz4-dev nlohmann-json3-dev libssl-dev libhiredis-dev libgtest-dev libgmock-dev redis-tools)
test_packages=(
  clang-14 libclang-rt-14-dev llvm-14 clang-tidy-14 clang-format-14 systemd python3-pytest curl
  git redis-server memcached
  nodejs python3-redis php-cli php-redis ruby-redis libredis-perl)

packages=("${build_packages[@]}")
if [ "$what" = test ]; then
  packages+=("${test_packages[@]}")
elif [ "$what" != build ]; then
  echo "tools/setup.sh: '$what' is neither 'build' nor 'test'" >&2
  exit 2
fi

installed="$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)"
missing=()
for package in "${packages[@]}"; do
  grep -qxF "$package installed" <<<"$installed" || missing+=("$package")
done

as_root=()
need_root() {
  [ "$(id -u)" = 0 ] && return
  if ! command -v sudo >/dev/null; then
    echo "setup: these packages are missing and neither root nor sudo is at hand: ${missing[*]}" >&2
    echo "setup: as root run: apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
}

# A package of a daemon must not start it: exit 101 is "not allowed" (invoke-rc.d(8)).
guard=/usr/sbin/policy-rc.d
guarded=no
guard_on() {
  if [ ! -e "$guard" ]; then
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$guard" >/dev/null
    "${as_root[@]}" chmod 755 "$guard"
    guarded=yes
  fi
}
guard_off() {
  [ "$guarded" = no ] || "${as_root[@]}" rm -f "$guard"
}

if [ "${#missing[@]}" -gt 0 ]; then
  need_root
  echo "setup: installing ${#missing[@]} packages: ${missing[*]}"
  trap guard_off EXIT
  guard_on
  apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq)
  "${apt[@]}" update
  "${apt[@]}" install -y --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}" >/dev/null
  # Nor at the next boot: the tests start them themselves.
  for daemon in redis-server memcached; do
    if [[ " ${missing[*]} " == *" $daemon "* ]]; then
      "${as_root[@]}" systemctl --quiet disable "$daemon.service" ||
        echo "setup: $daemon was installed and stays enabled at boot"
    fi
  done
  echo "setup: packages installed after ${SECONDS} s"
fi

# promtool: its package would start a daemon and wants a user; the unpacked binary is enough.
if [ "$what" = test ] && ! command -v promtool >/dev/null && [ ! -x .cache/promtool ]; then
  echo "setup: fetching promtool"
  mkdir -p .cache
  unpack="$(mktemp -d)"
  (cd "$unpack" && apt-get -qq -o APT::Sandbox::User=root download prometheus) ||
    { need_root; "${as_root[@]}" apt-get -qq -o DPkg::Lock::Timeout=300 update
      (cd "$unpack" && apt-get -qq -o APT::Sandbox::User=root download prometheus); }
  dpkg -x "$unpack"/prometheus_*.deb "$unpack/root"
  install -m 755 "$unpack/root/usr/bin/promtool" .cache/promtool
  rm -rf "$unpack"
fi
