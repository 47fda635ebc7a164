#!/usr/bin/env bash
# Installs a built Ferrite into an empty folder, then configures, builds and runs a program
# against it as a user would: tests/install/run.sh <build folder> <scratch folder> [cmake
# options...]
set -euo pipefail
build=$1
scratch=$2
shift 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

rm -rf "$scratch"
mkdir -p "$scratch"
scratch=$(cd "$scratch" && pwd)
cmake --install "$build" --prefix "$scratch/prefix" >"$scratch/install.log" || {
  cat "$scratch/install.log"
  exit 1
}

# The README's program, its first C++ block, must compile and link; and it must be short.
awk '/^```cpp$/ { inside = 1; next } /^```$/ && inside { exit } inside' \
  "$here/../../README.md" >"$scratch/readme.cpp"
lines=$(wc -l <"$scratch/readme.cpp")
if ((lines < 10 || lines > 25)); then
  echo "expected a program of 10 to 25 lines in README.md, found $lines" >&2
  exit 1
fi

# Compiled for any x86-64, warnings as errors: using the libraries must not require any of their
# flags.
cmake -S "$here/consumer" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$scratch/prefix" \
  -DREADME_PROGRAM="$scratch/readme.cpp" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" "$@"
cmake --build "$scratch/build"
"$scratch/build/consumer"
# With add_subdirectory it must compile; linking was tested above.
cmake -S "$here/consumer" -B "$scratch/subdirectory" -DFERRITE_SOURCE="$here/../.." -DFERRITE_CUDA=OFF \
  -DFERRITE_TESTS=OFF -DFERRITE_EXAMPLES=OFF -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" "$@"
cmake --build "$scratch/subdirectory" --target consumer_objects

# With FERRITE_ISA_LEVELS the loader chooses among kernels of several levels: the program runs
# with each level that this machine supports.
loader=/lib64/ld-linux-x86-64.so.2
for folder in "$scratch"/prefix/lib*/glibc-hwcaps/*/; do
  [[ -d $folder ]] || continue
  level=$(basename "$folder")
  if ! "$loader" --help | grep "^  $level (supported" >/dev/null; then
    echo "$level: skipped, as this machine does not have it"
    continue
  fi
  with=("$loader" --glibc-hwcaps-mask "$level")
  if ! "${with[@]}" --list "$scratch/build/consumer" | grep "glibc-hwcaps/$level/libferrite_kernels"; then
    echo "the loader does not take the kernels of $level" >&2
    exit 1
  fi
  "${with[@]}" "$scratch/build/consumer"
done

# The example of a user-defined kernel as a separate project, with its test.
cmake -S "$here/../../examples/custom_kernel" -B "$scratch/kernel" \
  -DCMAKE_PREFIX_PATH="$scratch/prefix" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" "$@"
cmake --build "$scratch/kernel"
"$scratch/kernel/custom_kernel_test"

# Kernels of a stranger, which run on the emulator: right ones pass, and its race detector finds what is
# planted in the others.
if [[ -e $(echo "$scratch"/prefix/lib*/libferrite_emulator_race.a) ]]; then
  cmake -S "$here/foreign_kernel" -B "$scratch/foreign" -DCMAKE_PREFIX_PATH="$scratch/prefix" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" "$@"
  cmake --build "$scratch/foreign"
  "$scratch/foreign/test_reverse"
  "$scratch/foreign/test_reverse_race"
  status=0
  "$scratch/foreign/test_reverse_race" race 2>"$scratch/race.log" || status=$?
  if [[ $status != 66 ]] || ! grep -q "RACE in reverse_kernel" "$scratch/race.log"; then
    echo "expected the emulator to report a race and exit with 66, got $status:" >&2
    cat "$scratch/race.log" >&2
    exit 1
  fi
else
  echo "kernels on the emulator: skipped, as without the CUDA toolkit's headers there is none"
fi

# Without the data set the README's program has to say what is missing, and where to get it.
if message=$(cd "$scratch" && ./build/readme 2>&1); then
  echo "the README's program found a data set in an empty folder" >&2
  exit 1
fi
if [[ $message != *fashion-mnist* ]]; then
  printf 'the README program failed otherwise than expected:\n%s\n' "$message" >&2
  exit 1
fi
