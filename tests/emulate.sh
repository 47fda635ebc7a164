#!/usr/bin/env bash
# Runs the tests of CUDA code on the emulator (tests/emulator/README.md) beyond what `tests/run.sh
# emulator-check` does, which has the race detector for kernels and the sanitizers for host code.
#   bash tests/emulate.sh [orders|asan|levels...]
# orders: the threads in descending order; those of kernels also in a random order, which changes with
#   every commit (FERRITE_EMULATOR_SEED=N selects one). The coverage of kernels/cuda is then printed and
#   must be at least 90 %.
# asan: the emulator's own tests with kernels under the address sanitizer.
# levels: the tests of kernels, ops and nn on the CPU, compiled for x86-64-v3, and once more with kernels
#   for x86-64. A machine with AVX-512 thus finds errors of machines without it.
set -euo pipefail
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
(($#)) || set -- orders asan levels
for kind in "$@"; do
  case $kind in
    orders)
      build emulator-check cuda_tests
      # The race detector has looked in the ascending order; here results count.
      run emulator-check "$trainings" FERRITE_EMULATOR_RACES=0 FERRITE_EMULATOR_ORDER=descending
      run emulator-check "$all_but_kernels" FERRITE_EMULATOR_RACES=0 \
        FERRITE_EMULATOR_ORDER=shuffled FERRITE_EMULATOR_SEED="$seed"
      bash scripts/kernel_coverage.sh --report build/emulator-check
      ;;
    asan)
      build emulator-asan test_emulator
      ctest --preset emulator-asan --tests-regex '^emulator/' --output-on-failure --no-tests=error -j"$jobs"
      ;;
    levels)
      if [[ $(uname -m) != x86_64 ]] || ! grep -qw avx2 /proc/cpuinfo; then
        echo "Levels of the instruction set: skipped, this processor has no AVX2 (x86-64-v3)"
        continue
      fi
      build levels "test_kernels test_ops test_nn level_tests"
      ctest --preset levels --label-regex "^(kernels|ops|nn|levels)$" --output-on-failure --no-tests=error \
        -j$((jobs < 6 ? jobs + 2 : 8))
      ;;
    *)
      echo "unknown kind '$kind': expected orders, asan or levels" >&2
      exit 1
      ;;
  esac
done
