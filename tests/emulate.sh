#!/usr/bin/env bash
# Runs the tests of CUDA code on the emulator (tests/emulator/README.md). First under the address
# and undefined-behaviour sanitizers with the threads in descending order (`tests/run.sh
# emulator-asan` runs the ascending one); those of kernels also in a random order, which changes
# with every commit (FERRITE_EMULATOR_SEED=N selects one). The coverage of kernels/cuda is then
# printed and must be at least 90 %. Next under the race detector. Host code of that build is
# compiled for x86-64-v3, and it also runs the tests of kernels, ops and nn on the CPU, once more
# with kernels for x86-64. A machine with AVX-512 thus finds errors of machines without it.
#   bash tests/emulate.sh [asan|race|levels...]
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

has_levels() { [[ $(uname -m) == x86_64 ]] && grep -qw avx2 /proc/cpuinfo; }
race_options=(-DFERRITE_ISA=native -DFERRITE_TEST_LEVELS=)
if has_levels; then
  race_options=(-DFERRITE_ISA=x86-64-v3 -DFERRITE_TEST_LEVELS=x86-64)
fi

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
trainings='^(nn|examples)/'
all_but_kernels='^(nn|examples|ops|optim|data|autograd|core)/'

bash scripts/install_packages.sh
(($#)) || set -- asan race levels
for kind in "$@"; do
  case $kind in
    asan)
      build emulator-asan cuda_tests
      run emulator-asan "$trainings" FERRITE_EMULATOR_ORDER=descending
      run emulator-asan "$all_but_kernels" \
        FERRITE_EMULATOR_ORDER=shuffled FERRITE_EMULATOR_SEED="$seed"
      bash scripts/kernel_coverage.sh --report build/emulator-asan
      ;;
    race)
      build emulator-race cuda_tests "${race_options[@]}"
      run emulator-race "$trainings"
      ;;
    levels)
      if ! has_levels; then
        echo "Levels of the instruction set: skipped, this processor has no AVX2 (x86-64-v3)"
        continue
      fi
      build emulator-race "test_kernels test_ops test_nn level_tests" "${race_options[@]}"
      printf '\n--- x86-64-v3, kernels for x86-64\n'
      FERRITE_EMULATOR_DEVICES=0 ctest --preset emulator-race --label-regex "^(kernels|ops|nn|levels)$" \
        --exclude-regex '/cuda_' --output-on-failure --no-tests=error -j$((jobs < 6 ? jobs + 2 : 8))
      ;;
    *)
      echo "unknown kind '$kind': expected asan, race or levels" >&2
      exit 1
      ;;
  esac
done
