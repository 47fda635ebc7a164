#!/usr/bin/env bash
# Checks and measures Ferrite on a machine with a GPU, without root or network:
#   scripts/gpu_check.sh [part...] all of them without arguments:
#     info the GPU, the driver, the toolkit, PyTorch
#     build configures and builds everything, including benchmarks, in build/gpu
#     cuda the tests of CUDA code, on the device
#     cpu all other tests
#     nccl process groups on NCCL: one GPU per rank, or ranks that share one
#     sanitize the kernel tests under compute-sanitizer: memcheck, racecheck, synccheck, initcheck
#     kernels bench_kernels, with and without NVIDIA's libraries, then compared with PyTorch
#     host_cost host overhead of operations, compared with PyTorch
#     training LeNet and ResNet-18, compared with PyTorch
# Logs and figures go to $OUT (build/gpu_check). A part that fails or takes too long does not stop
# the others; the table at the end and the exit status report it.
#
# Environment: LIMIT_<part>, a part's limit in seconds; JOBS, processes of the build;
# CMAKE_OPTIONS, more options for cmake; CASES, test cases per kernel under compute-sanitizer;
# KERNELS, HOST_COST and TRAINING, more options for those benchmarks.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

out=${OUT:-build/gpu_check}
mkdir -p "$out"
out=$(cd "$out" && pwd)
build=build/gpu
jobs=${JOBS:-$(nproc)}
all=(info build cuda cpu nccl sanitize kernels host_cost training)
declare -A limits=([info]=60 [build]=1500 [cuda]=600 [cpu]=600 [nccl]=600 [sanitize]=900 [kernels]=600
  [host_cost]=300 [training]=1200)

# Tools copied by scripts/gather_packages.sh, and a toolkit that is not on the PATH.
tools=third_party/gathered/tools/bin
if [[ -x $tools/cmake ]] && ! command -v cmake >/dev/null; then PATH=$PWD/$tools:$PATH; fi
if [[ -x $tools/ninja ]] && ! command -v ninja >/dev/null; then PATH=$PATH:$PWD/$tools; fi
if ! command -v nvcc >/dev/null && [[ -x /usr/local/cuda/bin/nvcc ]]; then
  PATH=$PATH:/usr/local/cuda/bin
fi
# A CMake too old for the presets is treated as missing.
if [[ -x $tools/cmake ]]; then
  version=$(cmake --version | sed -n 's/^cmake version //p')
  [[ $(printf '3.25\n%s\n' "$version" | sort -V | head -1) == 3.25 ]] || PATH=$PWD/$tools:$PATH
fi
export PATH
export PYTHONUNBUFFERED=1

has_torch() { python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; }

# Runs all of its commands, each a single string, and fails if one failed.
each() {
  local failed=0 command status
  for command in "$@"; do
    echo "+ $command"
    bash -c "$command"
    status=$?
    ((status == 0)) || { failed=1; echo "failed ($status): $command"; }
  done
  return "$failed"
}

part_info() {
  each "nvidia-smi" "nvidia-smi --query-gpu=name,clocks.max.sm,clocks.max.mem,power.limit --format=csv" \
    "nvcc --version" "cmake --version" "c++ --version" \
    "python3 -c 'import torch; print(torch.__version__, torch.version.cuda, torch.backends.cudnn.version())' || true" \
    "git log -1 --oneline || true" "nproc" "free -g"
}

part_build() {
  local generator=()
  command -v ninja >/dev/null && generator=(-G Ninja)
  # shellcheck disable=SC2086
  cmake -S . -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DFERRITE_CUDA=ON \
    -DFERRITE_BENCHMARKS=ON ${CMAKE_OPTIONS:-} && cmake --build "$build" --parallel "$jobs"
}

part_cuda() {
  ctest --test-dir "$build" -L cuda --output-on-failure --no-tests=error -j4 \
    --output-junit "$out/cuda.xml"
}

part_cpu() {
  ctest --test-dir "$build" -LE cuda --output-on-failure --no-tests=error -j"$((jobs / 2 + 1))" \
    --output-junit "$out/cpu.xml"
}

# ctest runs these too; here with NCCL's log.
part_nccl() {
  each "NCCL_DEBUG=WARN $build/bin/test_parallel -d --source-file=*cuda_nccl_group_test*"
}

# Without the vendor libraries, which would cause most of the time and of the reports.
part_sanitize() {
  local sanitizer tool commands=()
  sanitizer=$(command -v compute-sanitizer || true)
  [[ -n $sanitizer ]] || sanitizer=/usr/local/cuda/bin/compute-sanitizer
  for tool in memcheck racecheck synccheck initcheck; do
    commands+=("FERRITE_CUDNN=0 FERRITE_CUBLAS=0 FERRITE_KIT_DEVICE=cuda:0 \
FERRITE_KIT_CASES=${CASES:-4} $sanitizer --tool $tool --error-exitcode 9 \
$build/bin/test_kernels -sfe=*cuda_cudnn*,*cublas* >$out/$tool.log 2>&1; s=\$?; tail -3 $out/$tool.log; exit \$s")
  done
  each "${commands[@]}"
}

part_kernels() {
  local commands=("$build/bin/bench_kernels --device cuda:0 --json $out/kernels.json"
    "FERRITE_CUDNN=0 FERRITE_CUBLAS=0 $build/bin/bench_kernels --device cuda:0 \
--only 'conv|linear|matmul|bmm' --json $out/kernels_own.json")
  if has_torch; then
    commands+=("benchmarks/kernels/compare.py --build $build --json $out/kernels_torch.json ${KERNELS:-}")
  else
    echo "python3 has no PyTorch with CUDA: no comparison"
  fi
  each "${commands[@]}"
}

part_host_cost() {
  has_torch || { echo "python3 has no PyTorch with CUDA"; return 1; }
  each "benchmarks/host_cost/compare.py --build $build --device cuda --json $out/host_cost.json ${HOST_COST:-}"
}

part_training() {
  has_torch || { echo "python3 has no PyTorch with CUDA"; return 1; }
  each "benchmarks/training/compare.py --build $build --device cuda --json $out/training.json ${TRAINING:-}"
}

parts=("$@")
(($#)) || parts=("${all[@]}")
for part in "${parts[@]}"; do
  if [[ ! " ${all[*]} " == *" $part "* ]]; then
    echo "There is no part \"$part\"; there are ${all[*]}." >&2
    exit 2
  fi
done

# A part runs in a process group of its own, which the time limit ends as a whole.
failed=0
summary=()
export build out jobs CASES CMAKE_OPTIONS KERNELS HOST_COST TRAINING
export -f each has_torch
for part in "${parts[@]}"; do
  variable=LIMIT_$part
  limit=${!variable:-${limits[$part]}}
  echo "=== $part (up to $limit s), $out/$part.log"
  began=$SECONDS
  export -f "part_$part"
  timeout --kill-after=20 "$limit" bash -c "part_$part" >"$out/$part.log" 2>&1
  status=$?
  case $status in
    0) result=ok ;;
    124 | 137) result="out of time" ;;
    *) result="failed ($status)" ;;
  esac
  ((status == 0)) || { failed=1; tail -15 "$out/$part.log"; }
  summary+=("$(printf '%-10s %-12s %5d s' "$part" "$result" $((SECONDS - began)))")
done

printf '%s\n' "${summary[@]}" | tee "$out/summary.txt"
exit $failed
