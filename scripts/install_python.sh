#!/usr/bin/env bash
# Installs Python packages that a test runs into a virtual environment, build/<name>:
#   scripts/install_python.sh tensorboard   # reads event files back
#   scripts/install_python.sh onnx          # checks and runs exported networks, by onnxruntime
# Does nothing if a python3 already has them. If they cannot be installed, this prints the reason and
# succeeds, and the test reports that it skips.
set -uo pipefail
case ${1:-} in -h | --help) sed '1d;/^#/!Q;s/^# \{0,1\}//' "${BASH_SOURCE[0]}"; exit ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

name=${1:-}
case $name in
  tensorboard) packages=(tensorboard) ;;
  onnx) packages=(onnx onnxruntime) ;;
  *)
    echo "usage: scripts/install_python.sh tensorboard|onnx" >&2
    exit 2
    ;;
esac
folder=build/$name
names=$(IFS=,; echo "${packages[*]}")
show="import $names; print(*(f'{m.__name__} {m.__version__}' for m in ($names,)))"

for python in "$folder/bin/python" python3; do
  if found=$("$python" -c "$show" 2>/dev/null); then
    echo "$found found in $python"
    exit 0
  fi
done

without() {
  echo "$name: not installed, its test will be skipped: $1"
  rm -rf "$folder"
  exit 0
}
command -v python3 >/dev/null || without "python3 was not found"
mkdir -p build
log=build/$name.log
python3 -m venv "$folder" >"$log" 2>&1 ||
  without "python3 -m venv failed ($log); on Debian or Ubuntu: apt-get install python3-venv"
# A test imports a small part, which Python compiles then.
timeout 300 "$folder/bin/pip" install --no-compile --quiet --disable-pip-version-check --no-input \
  --retries 1 --timeout 15 "${packages[@]}" >"$log" 2>&1 || without "pip could not install it ($log)"
found=$("$folder/bin/python" -c "$show" 2>"$log") || without "it does not start ($log)"
echo "$found installed in $folder"
