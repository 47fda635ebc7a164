#!/usr/bin/env bash
# Installs ONNX's Python package and onnxruntime into a virtual environment, build/onnx, for the test
# that checks and runs exported networks with them. Does nothing if a python3 already has them. If they
# cannot be installed, this prints the reason and succeeds, and the test reports that it skips.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

folder=build/onnx
for python in "$folder/bin/python" python3; do
  if "$python" -c 'import onnx, onnxruntime' 2>/dev/null; then
    echo "ONNX: $("$python" -c 'import onnx, onnxruntime as o; print(onnx.__version__, "and onnxruntime", o.__version__)') of $python"
    exit 0
  fi
done

without() {
  echo "ONNX: not installed, its test will skip: $1"
  rm -rf "$folder"
  exit 0
}
command -v python3 >/dev/null || without "there is no python3"
mkdir -p build
log=build/onnx.log
python3 -m venv "$folder" >"$log" 2>&1 ||
  without "python3 -m venv failed ($log); on Debian or Ubuntu: apt-get install python3-venv"
timeout 300 "$folder/bin/pip" install --quiet --disable-pip-version-check --no-input \
  --retries 1 --timeout 15 onnx onnxruntime >"$log" 2>&1 || without "pip could not install it ($log)"
"$folder/bin/python" -c 'import onnx, onnxruntime' 2>"$log" || without "it does not start ($log)"
echo "ONNX: installed in $folder"
