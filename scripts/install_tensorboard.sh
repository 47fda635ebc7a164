#!/usr/bin/env bash
# Installs TensorBoard's Python package into a virtual environment, build/tensorboard, for the
# test that reads event files back with it. Does nothing if a python3 already has it. If it cannot
# be installed, this prints the reason and succeeds, and the test reports that it skips.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

folder=build/tensorboard
for python in "$folder/bin/python" python3; do
  if "$python" -c 'import tensorboard' 2>/dev/null; then
    echo "TensorBoard: $("$python" -c 'import tensorboard as t; print(t.__version__)') of $python"
    exit 0
  fi
done

without() {
  echo "TensorBoard: not installed, its test will skip: $1"
  rm -rf "$folder"
  exit 0
}
command -v python3 >/dev/null || without "there is no python3"
mkdir -p build
log=build/tensorboard.log
python3 -m venv "$folder" >"$log" 2>&1 ||
  without "python3 -m venv failed ($log); on Debian or Ubuntu: apt-get install python3-venv"
timeout 300 "$folder/bin/pip" install --quiet --disable-pip-version-check --no-input \
  --retries 1 --timeout 15 tensorboard >"$log" 2>&1 || without "pip could not install it ($log)"
"$folder/bin/python" -c 'import tensorboard' 2>"$log" || without "it does not start ($log)"
echo "TensorBoard: installed in $folder"
