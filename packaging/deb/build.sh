#!/usr/bin/env bash
# Builds Debian packages for any x86-64 machine in build/packages:
#   packaging/deb/build.sh [--cuda] [cmake options...]
# The libraries are shared, and their kernels are compiled for x86-64 and for the levels v3 and v4, from
# which the loader chooses. --cuda makes the packages with CUDA kernels (ferrite-cuda,
# libferrite<version>-cuda, libferrite-cuda-dev), for all GPUs from Ampere on.
set -euo pipefail
case ${1:-} in -h | --help) sed '1d;/^#/!Q;s/^# \{0,1\}//' "${BASH_SOURCE[0]}"; exit ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

kind=cpu cuda=OFF options=()
if [[ ${1:-} == --cuda ]]; then
  shift
  kind=cuda cuda=ON
  options+=("-DCMAKE_CUDA_ARCHITECTURES=80;90")
fi
levels=
case $(uname -m) in
  x86_64)
    levels="x86-64-v3;x86-64-v4"
    options+=(-DFERRITE_ISA=x86-64)
    ;;
  aarch64) options+=(-DFERRITE_ISA=armv8-a) ;;
esac

bash scripts/install_packages.sh dpkg-dev file
build=build/packages/$kind
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DBUILD_SHARED_LIBS=ON \
  "-DFERRITE_ISA_LEVELS=$levels" -DFERRITE_CUDA=$cuda -DFERRITE_TESTS=OFF -DFERRITE_EXAMPLES=OFF \
  "${options[@]}" "$@"
cmake --build "$build" --parallel "${FERRITE_JOBS:-$(nproc)}"
cpack --config "$build/CPackConfig.cmake" -B build/packages
rm -rf build/packages/_CPack_Packages
for package in build/packages/*.deb; do
  printf '\n%s\n' "$package"
  dpkg-deb --field "$package" Package Version Depends | sed 's/^/  /'
done
