#!/usr/bin/env bash
# Builds the programs that scripts/gpu_check.sh runs on a machine with a Hopper GPU, and packs them, so that
# no time on that machine is spent on building:
#   scripts/pack_gpu_check.sh [--build FOLDER] [--to FOLDER]
# The archive, programs.tar.xz in build/gpu_carry, holds stripped programs and libraries, and CTest's lists.
# Copy that folder along with the tree: gpu_check.sh unpacks it. Together with the tree's files it must not
# exceed 64 MiB. The programs run on processors with AVX2 (x86-64-v3) and on Linux with a C library no older
# than that of this machine. --build packs an existing build instead of configuring and building build/gpu.
set -euo pipefail
case ${1:-} in -h | --help) sed '1d;/^#/!Q;s/^# \{0,1\}//' "${BASH_SOURCE[0]}"; exit ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build='' to=build/gpu_carry most_mib=64
while (($#)); do
  case $1 in
    --build) build=${2:?--build takes a folder} ;;
    --to) to=${2:?--to takes a folder} ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift 2
done

if [[ -z $build ]]; then
  build=build/gpu
  generator=()
  if command -v ninja >/dev/null; then generator=(-G Ninja); fi
  # nvcc takes options from this variable, and a build that is only to compile fast has some there.
  unset CUDAFLAGS
  cmake -S . -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
    -DFERRITE_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90-real -DCMAKE_CUDA_FLAGS=-no-compress \
    -DFERRITE_ISA=x86-64-v3 -DFERRITE_BENCHMARKS=ON -DFERRITE_GLOO=OFF -DFERRITE_HDF5=OFF -DFERRITE_ONNX=OFF
  targets=(cuda_tests)
  for program in kernels training host_cost ledger; do
    [[ ! -d benchmarks/$program ]] || targets+=("bench_$program")
  done
  cmake --build "$build" --parallel "${JOBS:-$(nproc)}" --target "${targets[@]}"
fi
build=$(cd "$build" && pwd)

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir "$stage/bin" "$stage/lib"
pwd >"$stage/root"

is_elf() { [[ -f $1 && $(head -c 4 "$1") == $'\x7fELF' ]]; }
for file in "$build"/bin/* "$build"/lib/*.so*; do
  is_elf "$file" || continue
  folder=lib
  [[ $file != "$build"/bin/* ]] || folder=bin
  strip --strip-unneeded -o "$stage/$folder/$(basename "$file")" "$file"
done
if [[ -z $(ls "$stage/bin") ]]; then
  echo "There are no programs in $build/bin." >&2
  exit 1
fi
# Libraries that a host need not have; those of the C and C++ run time are older here than there.
for file in "$stage"/bin/* "$stage"/lib/*; do
  { LD_LIBRARY_PATH=$build/lib ldd "$file" 2>/dev/null || true; } | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }'
done | sort -u | while read -r name path; do
  case $name in
    libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so* | libresolv.so* | libstdc++.so* | libgcc_s.so*) ;;
    *) [[ -e $stage/lib/$name ]] || strip --strip-unneeded -o "$stage/lib/$name" "$(readlink -f "$path")" ;;
  esac
done
# The lists' paths are replaced by those of the place where they are unpacked.
(cd "$build" && find . -name CTestTestfile.cmake -print0 | tar -cf - --null -T -) | tar -xf - -C "$stage"
find "$stage" -name CTestTestfile.cmake -exec sed -i "s|$build|$PWD/build/gpu|g" {} +

mkdir -p "$to"
tar -cf - -C "$stage" . | xz -T0 -9 >"$to/programs.tar.xz"
packed=$(($(stat -c %s "$to/programs.tar.xz") / 1024))
tree=$(git ls-files -z | xargs -0 du -ck --apparent-size | tail -1 | cut -f1)
echo "$to/programs.tar.xz: $((packed / 1024)) MiB; with the tree $(((packed + tree) / 1024)) MiB"
if ((packed + tree > most_mib * 1024)); then
  echo "The limit is $most_mib MiB; the largest files, in KiB before packing:" >&2
  (cd "$stage" && du -ak bin lib | sort -rn | sed -n 2,12p) >&2
  exit 1
fi
