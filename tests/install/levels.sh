#!/usr/bin/env bash
# Builds a small library for several instruction set levels, like Ferrite's kernels with
# FERRITE_ISA_LEVELS, installs and moves it, and checks the loader's choice:
#   tests/install/levels.sh <scratch folder> [cmake options...]
# Exits with 77 if the loader does not support levels.
set -euo pipefail
scratch=$1
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

loader=/lib64/ld-linux-x86-64.so.2
known=$("$loader" --help 2>/dev/null | grep '^  x86-64-v' || true)
if [[ -z $known ]]; then
  echo "skipped: $loader is no loader of glibc 2.33 or later, which looks into glibc-hwcaps"
  exit 77
fi

rm -rf "$scratch"
mkdir -p "$scratch/moved"
cmake -S "$here/levels" -B "$scratch/build" -DFERRITE_SOURCE="$here/../.." \
  "-DLEVELS=x86-64-v2;x86-64-v3;x86-64-v4" "$@"
cmake --build "$scratch/build"
cmake --install "$scratch/build" --prefix "$scratch/prefix"
rm -r "$scratch/build"
mv "$scratch/prefix" "$scratch/moved"
program=$scratch/moved/prefix/bin/print_level

# expect <level> <command...>: the command must print the level; 1 is the baseline library.
expect() {
  local expected=${1}07 got
  shift
  got=$("$@")
  echo "$got: $*"
  if [[ $got != "$expected" ]]; then
    echo "expected $expected" >&2
    exit 1
  fi
}
highest=1
expect 1 "$loader" --glibc-hwcaps-mask none "$program"
for level in 2 3 4; do
  if ! grep -q "x86-64-v$level (supported" <<<"$known"; then
    echo "skipped from level $level on: this machine does not have it"
    break
  fi
  highest=$level
  expect "$level" "$loader" --glibc-hwcaps-mask "x86-64-v$level" "$program"
done
expect "$highest" "$program"
# A level that is not shipped is optional.
if ((highest > 1)); then
  rm -r "$scratch/moved/prefix/lib/glibc-hwcaps/x86-64-v$highest"
  expect "$((highest - 1))" "$program"
fi
