#!/usr/bin/env bash
# Checks and measures Ferrite on a machine with a GPU, without root or network, in visits of any length:
#   scripts/gpu_check.sh [--seconds N] [--after FOLDER] [--again] [--list] [part or step...]
# Without arguments it runs all parts. Each part takes less than nine minutes; its steps run in this order:
#   tests       info, cuda: the machine; the tests of CUDA code, on the device
#   figures     kernels, ledger, resnet, lenet: bench_kernels; a step's launches; training compared with PyTorch
#   checks      memcheck, nccl, profile: compute-sanitizer; groups on NCCL; counters of five kernels
#   sanitizers  racecheck, synccheck, initcheck
#   own         kernels_own: products and convolutions without NVIDIA's libraries
#   beside      kernels_torch, host_cost: kernels and the host's cost per operation compared with PyTorch
#   training    training: all models, precisions and executions compared with PyTorch
#   cpu         cpu: all other tests
# It first unpacks the programs that scripts/pack_gpu_check.sh packed, or else builds build/gpu; an
# interrupted build continues where it stopped ("build" as the only argument does no more than that).
#
# Each part writes $OUT/<part>.tar.gz (OUT is build/gpu_check), which grows with each step. It has the logs,
# the results, and "steps", a file with one line per step. A step that fails or takes too long does not stop
# the others. An archive in $OUT, or in the folder given with --after, is continued: steps that it lists as
# done are not repeated, except with --again, so that a second visit resumes where the first one ended. With
# --seconds, no step runs beyond that time, and none starts when less than a quarter of its limit is left.
#
# Environment: LIMIT_<step>, a step's limit in seconds; BUILD, the build folder; DEVICE, cuda:0; JOBS,
# processes of the build; CMAKE_OPTIONS, TESTS, CASES, KERNELS, HOST_COST and TRAINING: more options for
# cmake and ctest, test cases per kernel under compute-sanitizer, more options for those benchmarks.

# shellcheck disable=SC2086,SC2317 # options are words; functions are called by name
set -uo pipefail
case ${1:-} in -h | --help) sed '1d;/^#/!Q;s/^# \{0,1\}//' "${BASH_SOURCE[0]}"; exit ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

# part, step, limit in seconds
table="
tests info 30
tests cuda 500
figures kernels 150
figures ledger 60
figures resnet 200
figures lenet 120
checks memcheck 200
checks nccl 140
checks profile 190
sanitizers racecheck 175
sanitizers synccheck 175
sanitizers initcheck 175
own kernels_own 500
beside kernels_torch 330
beside host_cost 200
training training 535
cpu cpu 535"

seconds=0 after='' again=0 wanted=()
while (($#)); do
  case $1 in
    --seconds) seconds=${2:?--seconds takes a number}; shift ;;
    --after) after=${2:?--after takes a folder}; shift ;;
    --again) again=1 ;;
    --list) echo "$table" | tail -n +2; exit ;;
    *) wanted+=("$1") ;;
  esac
  shift
done
names=$(awk '{ print $1; print $2 }' <<<"$table")
for name in "${wanted[@]}"; do
  if [[ $name != build ]] && ! grep -qxF -- "$name" <<<"$names"; then
    echo "There is no part or step \"$name\"; --list prints all of them." >&2
    exit 2
  fi
done

out=${OUT:-build/gpu_check}
mkdir -p "$out" || exit
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=${BUILD:-build/gpu} device=${DEVICE:-cuda:0} jobs=${JOBS:-$(nproc)}
bin=$build/bin

# Tools copied by scripts/gather_packages.sh, and a toolkit that is not on the PATH.
tools=third_party/gathered/tools/bin
if [[ -x $tools/cmake ]] && ! command -v cmake >/dev/null; then PATH=$PWD/$tools:$PATH; fi
if [[ -x $tools/ninja ]] && ! command -v ninja >/dev/null; then PATH=$PATH:$PWD/$tools; fi
for folder in /usr/local/cuda/bin /usr/local/cuda/compute-sanitizer; do
  [[ ! -d $folder ]] || PATH=$PATH:$folder
done
# A CMake too old for the presets is treated as missing.
if [[ -x $tools/cmake ]]; then
  version=$(cmake --version | sed -n 's/^cmake version //p')
  [[ $(printf '3.25\n%s\n' "$version" | sort -V | head -1) == 3.25 ]] || PATH=$PWD/$tools:$PATH
fi
export PATH PYTHONUNBUFFERED=1

has_torch() { python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; }

# Ends a step that cannot run here; the reason is its result.
leave_out() {
  echo "$1" >"$here/.left_out"
  exit 0
}
needs() {
  local program
  for program in "$@"; do
    [[ -x $bin/$program ]] || command -v "$program" >/dev/null || leave_out "no $program"
  done
}
needs_torch() { has_torch || leave_out "python3 has no PyTorch with CUDA"; }

step_info() {
  nvidia-smi
  nvidia-smi --query-gpu=name,clocks.max.sm,clocks.max.mem,power.limit --format=csv
  nvcc --version
  cmake --version
  python3 -c 'import torch; print(torch.__version__, torch.version.cuda, torch.backends.cudnn.version())'
  git log -1 --oneline
  lscpu | head -20
  free -g
  return 0
}

tests() { ctest --test-dir "$build" --output-on-failure --no-tests=error ${TESTS:-} "$@"; }
step_cuda() { tests -L cuda -j8 --timeout 240 --output-junit "$here/cuda.xml"; }
step_cpu() { tests -LE cuda -j"$((jobs / 2 + 1))" --output-junit "$here/cpu.xml"; }

step_kernels() {
  needs bench_kernels
  "$bin"/bench_kernels --device "$device" --json "$here/kernels.json" --sizes 64 --dtypes float32,float16 \
    --budget 0.05 ${KERNELS:-}
}
step_kernels_own() {
  needs bench_kernels
  FERRITE_CUDNN=0 FERRITE_CUBLAS=0 "$bin"/bench_kernels --device "$device" --json "$here/kernels_own.json" \
    --only 'conv|linear|matmul|bmm' ${KERNELS:-}
}
step_kernels_torch() {
  needs bench_kernels
  needs_torch
  benchmarks/kernels/compare.py --build "$build" --device "$device" --json "$here/kernels_torch.json" \
    --sizes 64 --dtypes float32,float16 --budget 0.05 ${KERNELS:-}
}
step_host_cost() {
  needs bench_host_cost
  benchmarks/host_cost/compare.py --build "$build" --device "${device%%:*}" --json "$here/host_cost.json" \
    ${HOST_COST:-}
}
step_ledger() {
  needs bench_ledger
  "$bin"/bench_ledger --model resnet18 --batch 128 --image-size 224 --opt-level O2 --channels-last \
    --json "$here/ledger.json"
}

# trainings <name> <options...>
trainings() {
  local name=$1
  shift
  needs bench_training
  benchmarks/training/compare.py --build "$build" --device "${device%%:*}" --json "$here/$name.json" "$@" \
    ${TRAINING:-}
}
step_resnet() {
  trainings resnet --models resnet18-224 --precisions amp --layouts channels_last \
    --executions eager graph compile-reduce-overhead --rounds 3
}
step_lenet() {
  trainings lenet --models lenet5 --batches 256 --precisions float32 --layouts contiguous \
    --executions eager graph compile-reduce-overhead --rounds 3
}
step_training() { trainings training --limit 20; }

# Without the vendor libraries, which would cause most of the time and of the reports.
sanitize() {
  needs test_kernels compute-sanitizer
  FERRITE_CUDNN=0 FERRITE_CUBLAS=0 FERRITE_KIT_DEVICE=$device FERRITE_KIT_CASES=${CASES:-2} \
    compute-sanitizer --tool "$1" --error-exitcode 9 "$bin"/test_kernels '-sfe=*cuda_cudnn*,*cublas*'
}
step_memcheck() { sanitize memcheck; }
step_racecheck() { sanitize racecheck; }
step_synccheck() { sanitize synccheck; }
step_initcheck() { sanitize initcheck; }

# ctest runs these too; here with NCCL's log.
step_nccl() {
  needs test_parallel
  NCCL_DEBUG=WARN "$bin"/test_parallel -d '--source-file=*cuda_nccl_*'
}

# Batch norm's reduction and application, SGD, a transpose, a convolution: what they reach, and why.
step_profile() {
  needs bench_kernels ncu
  ncu --clock-control none --section SpeedOfLight --section Occupancy --section LaunchStats \
    --section MemoryWorkloadAnalysis --csv --log-file "$here/profile.csv" --launch-count 40 \
    "$bin"/bench_kernels --device "$device" --sizes 64 --dtypes float16 --budget 0 \
    --only 'batch_norm|sgd|transpose|conv2d .*\[64, 64, 56'
}

# ---- The build

# Unpacks what was carried, and puts this folder for the one it was built in.
unpack() {
  rm -rf "$build.new"
  mkdir -p "$build.new" && tar -xJf "$1" -C "$build.new" || return
  local root
  root=$(cat "$build.new/root")
  find "$build.new" -name CTestTestfile.cmake -exec sed -i "s|$root|$PWD|g" {} +
  mv "$build.new" "$build" && echo "unpacked $1"
}
prepare() {
  local carried=build/gpu_carry/programs.tar.xz
  if [[ -f $build/root ]]; then
    echo "already unpacked"
  elif [[ -f $carried && ! -d $build ]]; then
    unpack "$carried" || return
  elif [[ -z ${BUILD:-} ]]; then
    local generator=()
    command -v ninja >/dev/null && generator=(-G Ninja)
    cmake -S . -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DFERRITE_CUDA=ON \
      -DFERRITE_BENCHMARKS=ON ${CMAKE_OPTIONS:-} && cmake --build "$build" --parallel "$jobs" || return
  fi
}
# Programs that were carried find themselves, their libraries and NVIDIA's from here.
surroundings() {
  [[ -f $build/root ]] || return 0
  export FERRITE_TEST_SOURCE_DIR=$PWD FERRITE_TEST_BIN_DIR=$PWD/$bin
  local site
  export LD_LIBRARY_PATH=$PWD/$build/lib:${LD_LIBRARY_PATH:-}
  for site in $(python3 -c 'import site, sys; print(*site.getsitepackages(), *sys.path)' 2>/dev/null); do
    for folder in "$site"/nvidia/*/lib; do
      [[ ! -d $folder ]] || LD_LIBRARY_PATH+=:$folder
    done
  done
}

# ---- The visit

left() { echo $((seconds ? seconds - SECONDS : 1000000)); }

# run <part> <step> <limit>; sets `result`. A step runs in a process group of its own, which the time limit
# ends as a whole.
run() {
  local part=$1 name=$2 limit=$3 began=$SECONDS status
  export here=$work/$part
  mkdir -p "$here"
  rm -f "$here/.left_out"
  ((limit <= $(left))) || limit=$(left)
  echo "=== $name (up to $limit s), $here/$name.log"
  timeout --kill-after=10 "$limit" bash -c "set -o pipefail; step_$name" >"$here/$name.log" 2>&1
  status=$?
  case $status in
    0) result=ok ;;
    124 | 137) result="out of time" ;;
    *) result="failed ($status)" ;;
  esac
  [[ ! -f $here/.left_out ]] || result="left out: $(cat "$here/.left_out")"
  rm -f "$here/.left_out"
  took=$((SECONDS - began))
}

# Puts the step's line into its part's list, and the part into its archive.
record() {
  local part=$1 name=$2 list=$work/$1/steps
  touch "$list"
  sed -i "/^$name /d" "$list"
  echo "$name $took s: $result" >>"$list"
  tar -czf "$out/$part.tar.gz.new" -C "$work" "$part" && mv "$out/$part.tar.gz.new" "$out/$part.tar.gz"
}

is_wanted() {
  local name
  ((${#wanted[@]})) || return 0
  for name in "${wanted[@]}"; do [[ $name != "$1" && $name != "$2" ]] || return 0; done
  return 1
}

for archive in ${after:+"$after"/*.tar.gz} "$out"/*.tar.gz; do
  [[ ! -f $archive ]] || tar -xzf "$archive" -C "$work" || echo "cannot read $archive" >&2
done

echo "=== build, $work/build.log"
export build bin device jobs CASES CMAKE_OPTIONS TESTS KERNELS HOST_COST TRAINING
export -f prepare unpack
timeout --kill-after=10 "$(left)" bash -c prepare >"$work/build.log" 2>&1 || {
  tail -15 "$work/build.log"
  echo "build: failed or timed out after $SECONDS s"
  exit 1
}
surroundings
export -f has_torch leave_out needs needs_torch tests trainings sanitize
failed=0
while read -r part name limit; do
  is_wanted "$part" "$name" || continue
  if ((!again)) && grep -qs "^$name .*: ok$" "$work/$part/steps"; then
    printf '%-14s already done\n' "$name"
    continue
  fi
  variable=LIMIT_$name
  limit=${!variable:-$limit}
  if (($(left) < limit / 4 + 1)); then
    printf '%-14s not started: only %d s are left\n' "$name" "$(left)"
    continue
  fi
  export -f "step_$name"
  run "$part" "$name" "$limit" </dev/null
  record "$part" "$name"
  [[ $result == ok || $result == left* ]] || { failed=1; tail -15 "$work/$part/$name.log"; }
  printf '%-14s %s, %d s\n' "$name" "$result" "$took"
done <<<"$(tail -n +2 <<<"$table")"
exit $failed
