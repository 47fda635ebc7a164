#!/usr/bin/env bash
# Installs a built Ferrite into an empty folder, then configures, builds and runs a program against
# it as a user would:  tests/install/run.sh <build folder> <scratch folder> [cmake options...]
set -euo pipefail
build=$1
scratch=$2
shift 2
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/consumer

rm -rf "$scratch"
mkdir -p "$scratch"
cmake --install "$build" --prefix "$scratch/prefix" >"$scratch/install.log" || {
  cat "$scratch/install.log"
  exit 1
}
# Compiled for any x86-64, warnings as errors: no flag of the libraries' may be needed to use them.
cmake -S "$source" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$scratch/prefix" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" "$@"
cmake --build "$scratch/build"
"$scratch/build/consumer"
