#!/usr/bin/env bash
# Configures Ferrite with shared libraries, without building it, and checks the names by which programs and packages
# find it: tests/install/shared.sh <scratch folder> [cmake options...]
# With -DCMAKE_CUDA_COMPILER among the options it does the same with CUDA. Exits with 77 where there is no Ninja, whose
# files have the SONAMEs.
set -euo pipefail
scratch=$1
shift
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command -v ninja >/dev/null || { echo "skipped: no Ninja"; exit 77; }

version=$(sed -n 's/^#define FERRITE_VERSION_[A-Z]* //p' "$root/core/version.h" | paste -sd.)
abi=${version%%.*}
[[ $abi != 0 ]] || abi=${version%.*}  # before 1.0 a minor version may break what the one before had
rm -rf "$scratch"
mkdir -p "$scratch"

wrong=0
expect() {  # expect <what> <expected> <found>
  [[ $2 != "$3" ]] || return 0
  printf '%s: expected "%s", found "%s"\n' "$1" "$2" "$3" >&2
  wrong=1
}
of_package() { sed -n "s/^set($2 \"\(.*\)\")$/\1/p" "$scratch/$1/CPackConfig.cmake"; }

configure() {  # configure <build> <FERRITE_CUDA> [cmake options...]
  local build=$scratch/$1
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DFERRITE_TESTS=OFF \
    -DFERRITE_EXAMPLES=OFF -DFERRITE_CUDA="$2" "${@:3}" >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
  local sonames library
  sonames=$(sed -n 's/^ *SONAME = \(libferrite_.*\)$/\1/p' "$build/build.ninja")
  expect "$1: SONAMEs that do not end in .so.$abi" "" "$(grep -v "\.so\.${abi//./\\.}$" <<<"$sonames" || true)"
  for library in core kernels autograd ops nn optim parallel data metrics; do
    expect "$1: SONAME of $library" "libferrite_$library.so.$abi" "$(grep "^libferrite_$library\.so" <<<"$sonames")"
  done
}

# packages <build> <suffix of names> <runtime package that others depend on>
packages() {
  local build=$1 suffix=$2 libraries=$3 part name depends
  expect "$build: components" "runtime;tools;dev" "$(of_package "$build" CPACK_COMPONENTS_ALL)"
  for part in "RUNTIME libferrite$abi" "TOOLS ferrite" "DEV libferrite-dev"; do
    read -r part name <<<"$part"
    local variable=CPACK_DEBIAN_${part}_PACKAGE expected=$name$suffix others="" stands=""
    [[ $part != DEV ]] || expected=libferrite$suffix-dev
    [[ -z $suffix ]] || others=$name stands="$name (= $version)"
    expect "$build: $part" "$expected" "$(of_package "$build" "${variable}_NAME")"
    expect "$build: $part provides" "$stands" "$(of_package "$build" "${variable}_PROVIDES")"
    expect "$build: $part conflicts with" "$others" "$(of_package "$build" "${variable}_CONFLICTS")"
    expect "$build: $part replaces" "$others" "$(of_package "$build" "${variable}_REPLACES")"
    depends=$(of_package "$build" "${variable}_DEPENDS")
    [[ $part == RUNTIME ]] || expect "$build: $part depends on" "$libraries" "${depends%%, *}"
  done
}

configure cpu OFF "$@"
packages cpu "" "libferrite$abi (= $version) | libferrite$abi-cuda (= $version)"
[[ " $* " != *" -DCMAKE_CUDA_COMPILER="* ]] || {
  configure cuda ON "$@"
  packages cuda -cuda "libferrite$abi-cuda (= $version)"
  depends=$(of_package cuda CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS)
  expect "cuda: RUNTIME depends on" cuda-cudart- "${depends%%[0-9]*}"
}
exit $wrong
