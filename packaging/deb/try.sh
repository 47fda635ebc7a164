#!/usr/bin/env bash
# Installs packages on this system, which should be one to throw away (a container, a chroot), and builds
# and runs a program with them, as root:  packaging/deb/try.sh <folder of .deb files>
set -euo pipefail
case ${1:-} in -h | --help) sed '1d;/^#/!Q;s/^# \{0,1\}//' "${BASH_SOURCE[0]}"; exit ;; esac
packages=$(cd "$1" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
  "$packages"/*.deb g++ cmake make pkg-config
ferrite-run --help >"$work/help"
ferrite-inspect --help >>"$work/help"

program=$root/tests/install/consumer/main.cpp
read -ra flags <<<"$(pkg-config --cflags --libs ferrite)"
g++ -std=c++20 -O2 "$program" -o "$work/by_pkg_config" "${flags[@]}"
"$work/by_pkg_config"

cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(train LANGUAGES CXX)
find_package(ferrite $(pkg-config --modversion ferrite) REQUIRED)
add_executable(train $program)
target_link_libraries(train PRIVATE ferrite::ferrite)
END
cmake -S "$work" -B "$work/build" -DCMAKE_BUILD_TYPE=Release
cmake --build "$work/build"
"$work/build/train"
if ldd "$work/build/train" | grep libferrite_kernels; then
  echo "The loader has chosen these kernels for this machine."
fi
