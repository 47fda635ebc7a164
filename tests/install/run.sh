#!/usr/bin/env bash
# Installs a built Ferrite into an empty folder, then configures, builds and runs a program
# against it as a user would: tests/install/run.sh <build folder> <scratch folder> [cmake
# options...]
# The library is installed first as if nothing else had been built, then with the components hdf5 and onnx,
# then with kernel_test.
set -euo pipefail
build=$1
scratch=$2
shift 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

rm -rf "$scratch"
mkdir -p "$scratch"
scratch=$(cd "$scratch" && pwd)
build=$(cd "$build" && pwd)
install() {
  cmake --install "$1" --prefix "$scratch/prefix" >"$scratch/install.log" 2>&1 || {
    cat "$scratch/install.log"
    exit 1
  }
}

# A build folder with nothing but the library: what installs it, and the library's files.
only=$scratch/library_only
mkdir "$only"
(cd "$build" && find . -regex '\./[a-z]*_test' -prune -o -type f \( -name cmake_install.cmake \
  -o -name ferrite.pc -o -name 'ferrite-config*.cmake' -o -path '*/CMakeFiles/Export/*.cmake' \) \
  -exec cp --parents {} "$only" \; -exec sed -i "s#$build#$only#g" "$only/{}" \;)
(cd "$build" && find lib kernels \( -name 'libferrite_*' -o -name cpu_only.cpp.o \) ! -name '*kernel_test*' \
  ! -name '*emulator*' ! -name '*hdf5*' ! -name '*onnx*' -exec cp -a --parents {} "$only" \;)
install "$only"

# A component that was not built is not there, and the reason is given.
refused() {  # refused <component> <what to do> [cmake options...]
  if cmake -S "$here/consumer" -B "$scratch/refused" -DCMAKE_PREFIX_PATH="$scratch/prefix" \
    -DCOMPONENTS="$1" "${@:3}" >"$scratch/refused.log" 2>&1 \
    || ! tr -s ' \n' ' ' <"$scratch/refused.log" | grep -q "no component $1: .*$2"; then
    echo "expected find_package to say that, and why, there is no component $1:" >&2
    cat "$scratch/refused.log" >&2
    exit 1
  fi
}
refused kernel_test "build the target kernel_test" "$@"
refused hdf5 "build its target ferrite_hdf5" "$@"
refused onnx "build its target ferrite_onnx" "$@"
(cd "$build" && find lib \( -name '*hdf5*' -o -name '*onnx*' \) -exec cp -a --parents {} "$only" \;)
install "$only"

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
# The same program for the CPU alone carries no GPU code.
"$scratch/build/consumer_cpu"
if readelf --sections --wide "$scratch/build/consumer_cpu" | grep -q nv_fatbin; then
  echo "expected a program linked with ferrite::cpu_only to be without GPU code" >&2
  exit 1
fi
echo "the program: $(stat -c %s "$scratch/build/consumer") bytes," \
  "for the CPU alone $(stat -c %s "$scratch/build/consumer_cpu")"
# A program may ask for a version: another patch release of the same minor version will do, before 1.0
# no other minor version.
version=$(sed -n 's/^#define FERRITE_VERSION_M[A-Z]* //p' "$here/../../core/version.h" | paste -sd.)
minor=${version#*.}
wanted() {
  cmake -S "$here/consumer" -B "$scratch/wanted" --fresh -DCMAKE_PREFIX_PATH="$scratch/prefix" \
    -DREADME_PROGRAM="$scratch/readme.cpp" -DWANTED_VERSION="$1" "${@:2}" >"$scratch/wanted.log" 2>&1
}
wanted "$version" "$@" || { cat "$scratch/wanted.log"; exit 1; }
for other in "${version%%.*}.$((minor + 1))" "$((${version%%.*} + 1)).0"; do
  if wanted "$other" "$@" || ! grep -q "$version" "$scratch/wanted.log"; then
    echo "expected find_package to refuse version $other, and to name the one that is there:" >&2
    cat "$scratch/wanted.log" >&2
    exit 1
  fi
done
# The component hdf5, where it was built.
if compgen -G "$scratch/prefix/lib*/libferrite_hdf5.*" >/dev/null; then
  cmake -S "$here/consumer" -B "$scratch/build" -DCOMPONENTS=hdf5
  cmake --build "$scratch/build" --target consumer_hdf5
  "$scratch/build/consumer_hdf5" "$scratch/missing.h5"
else
  echo "the component hdf5: skipped, as libhdf5 was not found"
fi
# The component onnx, where it was built.
if compgen -G "$scratch/prefix/lib*/libferrite_onnx.*" >/dev/null; then
  cmake -S "$here/consumer" -B "$scratch/build" -DCOMPONENTS=onnx
  cmake --build "$scratch/build" --target consumer_onnx
  "$scratch/build/consumer_onnx" "$scratch/lenet.onnx"
else
  echo "the component onnx: skipped, as libonnx was not found"
fi
# add_subdirectory: the program must compile. All libraries were linked above.
cmake -S "$here/consumer" -B "$scratch/subdirectory" -DFERRITE_SOURCE="$here/../.." -DFERRITE_CUDA=OFF \
  -DFERRITE_TESTS=OFF -DFERRITE_EXAMPLES=OFF -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" "$@"
cmake --build "$scratch/subdirectory" --target consumer_objects
# FetchContent takes the folder from elsewhere: a program with the core library must compile, link and run, here in
# a debug build, which takes half the time. A project that fetches Ferrite without FERRITE_TESTS=OFF and the like must
# not get Ferrite's own programs.
cmake -S "$here/consumer" -B "$scratch/fetched" -DFERRITE_SOURCE="$here/../.." -DFETCH=ON -DFERRITE_CUDA=OFF \
  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" "$@"
if cmake --build "$scratch/fetched" --target help | grep -E '\b(lenet|test_core)\b'; then
  echo "expected a project that fetches Ferrite to have neither its examples nor its tests" >&2
  exit 1
fi
cmake --build "$scratch/fetched" --target consumer_core
"$scratch/fetched/consumer_core"

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

install "$build"
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
