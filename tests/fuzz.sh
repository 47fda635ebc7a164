#!/usr/bin/env bash
# Feeds the readers of files and messages with mutated input (tests/fuzz):
#   bash tests/fuzz.sh SECONDS [target...]
# Builds the targets with Clang's libFuzzer, AddressSanitizer and UBSan in build/fuzz and runs all
# or the named ones for this many seconds each, two at a time on two processors; the target network,
# what onnx::load makes of a file, only where it is named. An input that crashes, leaks, throws
# anything but an error of Ferrite, or takes more time or memory than its size allows is kept in
# build/fuzz/artifacts. The output ends with the command to reproduce it, and the exit status is 1.
set -euo pipefail
case ${1:-} in -h | --help) sed '1d;/^#/!Q;s/^# \{0,1\}//' "${BASH_SOURCE[0]}"; exit ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:?expected: bash tests/fuzz.sh SECONDS [target...]}
shift
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "fuzz: expected whole seconds a target, got '$seconds'" >&2; exit 2; }
jobs=${FERRITE_JOBS:-$(nproc)}
build=build/fuzz

cannot_run() {
  echo "fuzz: skipped: $1 (Debian: clang, lld, libclang-rt-dev)"
  exit 0
}
command -v clang++ >/dev/null || cannot_run "there is no clang++"
command -v ld.lld >/dev/null || cannot_run "there is no lld"
[[ -e $(clang++ -print-file-name="libclang_rt.fuzzer-$(uname -m).a") ||
  -e $(clang++ -print-file-name=libclang_rt.fuzzer.a) ]] || cannot_run "this Clang has no libFuzzer"

mkdir -p "$build"
cmake -S tests/fuzz -B "$build" -G Ninja -DCMAKE_CXX_COMPILER=clang++ >"$build/configure.log" 2>&1 ||
  { cat "$build/configure.log"; exit 1; }
cmake --build "$build" --parallel "$jobs"
mapfile -t known < <("$build/fuzz" --list)
targets=("${@:-${known[@]}}")
# The network of a file needs all of ops and nn, which take long to compile: only where it is named.
if [[ " ${targets[*]} " == *" network "* ]]; then
  cmake --build "$build" --parallel "$jobs" --target fuzz_network
  known+=(network)
fi
for target in "${targets[@]}"; do
  [[ " ${known[*]} " == *" $target "* ]] ||
    { echo "fuzz: there is no target '$target'; expected of: ${known[*]}" >&2; exit 2; }
done

export ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1
mkdir -p "$build/bin" "$build/logs"
fuzz() {
  local target=$1 corpus=$build/corpus/$1 artifacts=$build/artifacts/$1
  local program=fuzz
  [[ $target != network ]] || program=fuzz_network
  ln -sf "../$program" "$build/bin/$target"
  mkdir -p "$corpus" "$artifacts"
  "$build/bin/$target" --seeds "$build/seeds/$target"
  # Superlinear growth shows only in inputs of megabytes: large seeds, and mutations of small
  # ones. Slow inputs are chosen less often.
  local options=(-max_len=4194304 -len_control=0 -timeout=300 -report_slow_units=300 -rss_limit_mb=3072 -malloc_limit_mb=2048
    -artifact_prefix="$artifacts/")
  if "$build/bin/$target" "${options[@]}" -runs=0 "$build/seeds/$target/large" >"$build/logs/$target" 2>&1 &&
    "$build/bin/$target" "${options[@]}" -max_total_time="$seconds" -entropic_scale_per_exec_time=1 \
      -print_final_stats=1 "$corpus" "$build/seeds/$target/small" >>"$build/logs/$target" 2>&1; then
    awk -v t="$target" '/number_of_executed_units/ {n = $2} /peak_rss_mb/ {m = $2}
      END {printf "fuzz: %-12s %9d inputs, %4d MB\n", t, n, m}' "$build/logs/$target"
  else
    touch "$build/failed/$target"
    echo "fuzz: $target: a finding; the end of $build/logs/$target:"
    tail -n 40 "$build/logs/$target"
  fi
}
rm -rf "$build/failed"
mkdir -p "$build/failed"
for target in "${targets[@]}"; do
  while (($(jobs -rp | wc -l) >= jobs)); do wait -n || true; done
  fuzz "$target" &
done
wait

status=0
for target in "${targets[@]}"; do
  [[ -e $build/failed/$target ]] || continue
  status=1
  input=$(sed -n 's/.*Test unit written to //p' "$build/logs/$target" | tail -n 1)
  echo "fuzz: to run it again: $build/bin/$target ${input:-"(see $build/logs/$target)"}"
done
exit $status
