#!/usr/bin/env bash
# Builds Ferrite and runs its tests:  bash tests/run.sh [preset]
# Presets: default, cpu, debug, asan, tsan, emulator (CMakePresets.json). Installs missing packages first.
set -euo pipefail
case ${1:-} in -h | --help) sed '1d;/^#/!Q;s/^# \{0,1\}//' "${BASH_SOURCE[0]}"; exit ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-default}
jobs=${FERRITE_JOBS:-$(nproc)}

bash scripts/install_packages.sh
bash scripts/configure.sh "$preset"
SECONDS=0
cmake --build --preset "$preset" --parallel "$jobs"
printf '\nBuild finished in %dm%02ds.\n' $((SECONDS / 60)) $((SECONDS % 60))
# Tests with several processes mostly wait.
ctest --preset "$preset" --output-on-failure --no-tests=error -j$((jobs < 6 ? jobs + 2 : 8))
