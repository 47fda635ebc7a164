#!/usr/bin/env bash
# Runs the tests of CUDA code on the emulator (tests/emulator/README.md): under the address and
# undefined-behaviour sanitizers with the threads in descending and in three random orders
# (`tests/run.sh emulator-asan` runs the ascending one), after which the coverage of kernels/cuda is
# printed and must be 90 % or more; then under the race detector.
#   bash tests/emulate.sh [asan|race...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jobs=${FERRITE_JOBS:-$(nproc)}

build() {
  bash scripts/configure.sh "$1"
  cmake --build --preset "$1" --parallel "$jobs" --target cuda_tests
}

# run <preset> [setting=value...]
# Whole trainings (nn, examples) take as long as all the rest, and run in one order of threads only.
run() {
  local preset=$1
  shift
  printf '\n--- %s %s\n' "$preset" "$*"
  env "$@" ctest --preset "$preset" --label-regex '^cuda$' --exclude-regex '^(nn|examples)/' \
    --output-on-failure --no-tests=error -j2
}

bash scripts/install_packages.sh
(($#)) || set -- asan race
for kind in "$@"; do
  case $kind in
    asan)
      build emulator-asan
      run emulator-asan FERRITE_EMULATOR_ORDER=descending
      for seed in 1 2 3; do
        run emulator-asan FERRITE_EMULATOR_ORDER=shuffled FERRITE_EMULATOR_SEED=$seed
      done
      bash scripts/kernel_coverage.sh --report build/emulator-asan
      ;;
    race)
      build emulator-race
      run emulator-race
      ;;
    *)
      echo "unknown kind '$kind': expected asan or race" >&2
      exit 1
      ;;
  esac
done
