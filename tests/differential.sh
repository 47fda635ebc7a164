#!/bin/bash
# Compares random ops, layers (nn.*) and optimizers (optim.*) of Ferrite with PyTorch 2
# (tests/differential/compare.py):
#
#   bash tests/differential.sh [--cases N] [--seed S] [--device cpu|emulator] [--only REGEX]
#
# On `emulator`, CUDA kernels run on the emulated device of the preset of that name. PyTorch comes
# from FERRITE_TORCH_PYTHON, a Python that has it, or from a virtual environment under build/. If
# there is none and none can be created, the script says so and passes.
set -euo pipefail
case ${1:-} in -h | --help) sed '1d;/^#/!Q;s/^# \{0,1\}//' "${BASH_SOURCE[0]}"; exit ;; esac
cd "$(dirname "$0")/.."

preset=default
device=cpu
arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --device)
      case ${2-} in
        cpu) ;;
        emulator) preset=emulator device=cuda:0 ;;
        *) echo "expected --device cpu or --device emulator, got '${2-}'" >&2 && exit 2 ;;
      esac
      shift 2 ;;
    *) arguments+=("$1") && shift ;;
  esac
done

has_torch() { "$1" -c 'import torch; assert int(torch.__version__.split(".")[0]) >= 2' 2> /dev/null; }

python=${FERRITE_TORCH_PYTHON:-python3}
if ! has_torch "$python"; then
  python=build/torch/bin/python
  if ! has_torch "$python"; then
    if ! { python3 -m venv build/torch && build/torch/bin/pip install --quiet torch numpy; } ||
       ! has_torch "$python"; then
      echo "differential tests skipped: no PyTorch 2, and it could not be installed"
      exit 0
    fi
  fi
fi

[ -e "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" --target differential
exec "$python" tests/differential/compare.py "build/$preset/bin/differential" --device "$device" \
  ${arguments[@]+"${arguments[@]}"}
