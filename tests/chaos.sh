#!/usr/bin/env bash
# Trains repeatedly on several hosts, which are network namespaces of this machine, while
# injecting faults: ranks and launchers are killed and stopped, networks cut, slowed and reset,
# ports flooded, the disk filled, clocks set. Each job must end, without intervention, with the
# weights of an undisturbed run. A table at the end lists the faults; the exit status is 1 if a
# job hung, ended with other weights, gave up without a reason or left processes behind.
#   bash tests/chaos.sh [--minutes 30] [--events N] [--seed S] [--only FAULT,FAULT] [--list] ...
# tests/chaos/chaos.py --help lists the rest. Needs root, for namespaces; exits with status 77 if
# it cannot run.
set -euo pipefail
case ${1:-} in -h | --help) sed '1d;/^#/!Q;s/^# \{0,1\}//' "${BASH_SOURCE[0]}"; exit ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cannot() {
  echo "chaos: not run: $1" >&2
  exit 77
}
[[ $(id -u) == 0 ]] || cannot "network name spaces need root (sudo bash tests/chaos.sh)"
for program in ip iptables tc cc python3; do
  command -v "$program" > /dev/null || cannot "there is no $program (packages iproute2, iptables, gcc, python3)"
done
probe=ferrite-chaos-probe-$$
ip netns add "$probe" 2> /dev/null || cannot "'ip netns add' fails: $(ip netns add "$probe" 2>&1)"
ip netns delete "$probe"

preset=${FERRITE_PRESET:-default}
[[ -e build/$preset/CMakeCache.txt ]] || bash scripts/configure.sh "$preset"
cmake --build "build/$preset" --parallel "${FERRITE_JOBS:-$(nproc)}" --target ferrite-run elastic > /dev/null
work=$(mktemp -d "${TMPDIR:-/tmp}/ferrite_chaos_XXXXXX")
cc -O1 -Wall -Werror -shared -fPIC -o "$work/clock.so" tests/chaos/clock.c
# Copies, so that a concurrent build does not disturb them.
cp "build/$preset/bin/ferrite-run" "build/$preset/bin/elastic" "$work"
exec python3 tests/chaos/chaos.py --work "$work" "$@"
