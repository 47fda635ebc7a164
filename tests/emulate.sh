#!/usr/bin/env bash
# Runs the tests of CUDA code on the emulator (tests/emulator/README.md).
#   bash tests/emulate.sh [race|sanitizers|coverage|orders|examples|asan|levels...]
# race: kernels under the race detector. Host code is that of a release build; `tests/run.sh
#   emulator-check` has it under the sanitizers too, with the tests that need no device.
# coverage: the same, and how many lines of the kernels ran. To count them takes as long again.
# sanitizers: host code under AddressSanitizer and UBSan, kernels under UBSan; without the race detector, which
#   checks the bounds of kernels' accesses, too.
# orders: the threads in descending order; those of kernels also in a random order, which changes with
#   every commit (FERRITE_EMULATOR_SEED=N selects one).
# examples: the tests of the example programs.
# asan: the emulator's own tests with kernels under the address sanitizer.
# levels: the tests of kernels, ops and nn of the default build, with CPU kernels for x86-64 and, on a
#   processor with AVX-512, for x86-64-v3. It thus finds errors of machines without it.
set -euo pipefail
case ${1:-} in -h | --help) sed '1d;/^#/!Q;s/^# \{0,1\}//' "${BASH_SOURCE[0]}"; exit ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jobs=${FERRITE_JOBS:-$(nproc)}

# build <preset> <targets> [options...]
build() {
  local preset=$1 targets=$2
  shift 2
  bash scripts/configure.sh "$preset" "$@"
  # shellcheck disable=SC2086
  cmake --build --preset "$preset" --parallel "$jobs" --target $targets
}

# run <preset> <tests to leave out> [setting=value...]
run() {
  local preset=$1 left_out=$2
  shift 2
  printf '\n--- %s %s\n' "$preset" "$*"
  env "$@" ctest --preset "$preset" --label-regex '^cuda$' --exclude-regex "$left_out" \
    --output-on-failure --no-tests=error -j$((jobs < 6 ? jobs + 2 : 8))
}
commit=$(git rev-parse --short=7 HEAD 2>/dev/null || echo 1)
seed=${FERRITE_EMULATOR_SEED:-$((16#$commit))}
# Whole trainings take as long as all other tests.
trainings='^(nn|examples|programs)/'
all_but_kernels='^(nn|examples|programs|ops|optim|data|autograd|core)/'

bash scripts/install_packages.sh
(($#)) || set -- coverage orders examples asan levels
for kind in "$@"; do
  case $kind in
    race | coverage)
      coverage=OFF
      [[ $kind == race ]] || coverage=ON
      build emulator-race cuda_tests -DFERRITE_COVERAGE="$coverage"
      run emulator-race '^$'
      [[ $kind == race ]] || bash scripts/kernel_coverage.sh --report build/emulator-race
      ;;
    sanitizers)
      build emulator-check cuda_tests
      run emulator-check '^$' FERRITE_EMULATOR_RACES=0
      ;;
    orders)
      build emulator-race cuda_tests
      # The race detector has looked in the ascending order; here results count.
      run emulator-race "$trainings" FERRITE_EMULATOR_RACES=0 FERRITE_EMULATOR_ORDER=descending
      run emulator-race "$all_but_kernels" FERRITE_EMULATOR_RACES=0 \
        FERRITE_EMULATOR_ORDER=shuffled FERRITE_EMULATOR_SEED="$seed"
      ;;
    examples)
      build emulator-race "test_examples custom_kernel_test" -DFERRITE_EXAMPLES=ON
      ctest --preset emulator-race --tests-regex '^examples/' --output-on-failure --no-tests=error \
        -j$((jobs < 6 ? jobs + 2 : 8))
      ;;
    asan)
      build emulator-asan test_emulator
      ctest --preset emulator-asan --tests-regex '^emulator/' --output-on-failure --no-tests=error -j"$jobs"
      ;;
    levels)
      if [[ $(uname -m) != x86_64 ]]; then
        echo "Levels of the instruction set: skipped, this is no x86-64 processor"
        continue
      fi
      levels=x86-64
      ! grep -qw avx512f /proc/cpuinfo || levels+=";x86-64-v3"
      build default level_tests -DFERRITE_TEST_LEVELS="$levels"
      ctest --preset default --label-regex '^levels$' --output-on-failure --no-tests=error \
        -j$((jobs < 6 ? jobs + 2 : 8))
      ;;
    *)
      echo "unknown kind '$kind': expected race, sanitizers, coverage, orders, examples, asan or levels" >&2
      exit 1
      ;;
  esac
done
