#!/usr/bin/env bash
# Runs the tests of CUDA code on the emulator (tests/emulator/README.md): under the address and
# undefined-behaviour sanitizers with the threads in descending order (`tests/run.sh emulator-asan`
# runs the ascending one), those of kernels in a random order too, another one with every commit
# (FERRITE_EMULATOR_SEED=N: that one), after which the coverage of kernels/cuda is printed and must be
# 90 % or more; then under the race detector.
#   bash tests/emulate.sh [asan|race...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jobs=${FERRITE_JOBS:-$(nproc)}

build() {
  bash scripts/configure.sh "$1"
  cmake --build --preset "$1" --parallel "$jobs" --target cuda_tests
}

# run <preset> <tests to leave out> [setting=value...]
run() {
  local preset=$1 left_out=$2
  shift 2
  printf '\n--- %s %s\n' "$preset" "$*"
  env "$@" ctest --preset "$preset" --label-regex '^cuda$' --exclude-regex "$left_out" \
    --output-on-failure --no-tests=error -j2
}
commit=$(git rev-parse --short=7 HEAD 2>/dev/null || echo 1)
seed=${FERRITE_EMULATOR_SEED:-$((16#$commit))}
# Whole trainings take as long as all the rest.
trainings='^(nn|examples)/'
all_but_kernels='^(nn|examples|ops|optim|data|autograd|core)/'

bash scripts/install_packages.sh
(($#)) || set -- asan race
for kind in "$@"; do
  case $kind in
    asan)
      build emulator-asan
      run emulator-asan "$trainings" FERRITE_EMULATOR_ORDER=descending
      run emulator-asan "$all_but_kernels" \
        FERRITE_EMULATOR_ORDER=shuffled FERRITE_EMULATOR_SEED="$seed"
      bash scripts/kernel_coverage.sh --report build/emulator-asan
      ;;
    race)
      build emulator-race
      run emulator-race "$trainings"
      ;;
    *)
      echo "unknown kind '$kind': expected asan or race" >&2
      exit 1
      ;;
  esac
done
