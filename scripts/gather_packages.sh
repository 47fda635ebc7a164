#!/usr/bin/env bash
# Gathers Ferrite's build dependencies into one folder that can be copied to a machine without
# root or network, such as a GPU host:
#   scripts/gather_packages.sh [--no-tools] [folder]
# The folder is third_party/gathered, which git ignores and CMake finds. Headers and libraries come
# from Debian's or Ubuntu's packages (no root is needed), CMake and Ninja, four fifths of the whole,
# from PyPI, unless --no-tools says that the machine has them. Not gathered: Gloo, which is large and optional, and NVIDIA's
# libraries, which a GPU host has, at least as Python packages (docs/gpu_host.md).
set -euo pipefail
case ${1:-} in -h | --help) sed '1d;/^#/!Q;s/^# \{0,1\}//' "${BASH_SOURCE[0]}"; exit ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."

with_tools=1
if [[ ${1:-} == --no-tools ]]; then
  with_tools=0
  shift
fi
folder=${1:-third_party/gathered}
most_mib=64
packages=(
  libeigen3-dev gemmi-dev libfmt-dev nlohmann-json3-dev libcli11-dev doctest-dev
  zlib1g-dev libdeflate-dev libpng-dev libjpeg62-turbo-dev libssl-dev libbenchmark-dev
)

for program in apt-get apt-cache dpkg-deb; do
  command -v "$program" >/dev/null || {
    echo "$program was not found: run this script on Debian or Ubuntu and copy $folder to the host." >&2
    exit 1
  }
done
if ! apt-cache show libfmt-dev >/dev/null 2>&1; then
  echo "apt has no package lists. As root, run: apt-get update" >&2
  exit 1
fi
# Ubuntu has another name for libjpeg's development package.
apt-cache show libjpeg62-turbo-dev >/dev/null 2>&1 ||
  packages=("${packages[@]/libjpeg62-turbo-dev/libjpeg-turbo8-dev}")
# The package files of fmt and benchmark name their shared libraries.
mapfile -t shared < <(apt-cache depends libfmt-dev libbenchmark-dev |
  sed -n 's/^ *Depends: \(lib\(fmt\|benchmark\)[^ ]*\)$/\1/p' | sort -u)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/deb" "$scratch/tree"
echo "Downloading ${packages[*]} ${shared[*]}"
(cd "$scratch/deb" && apt-get -q -o APT::Sandbox::User=root download "${packages[@]}" "${shared[@]}" \
  >"$scratch/download.log" 2>&1) || {
  cat "$scratch/download.log" >&2
  exit 1
}
for package in "$scratch"/deb/*.deb; do dpkg-deb -x "$package" "$scratch/tree"; done

# Replaces links by their targets, so that the folder may be copied in any way; links to libraries
# of packages that are not gathered are removed, and the static libraries beside them are used.
root=$scratch/tree/usr
rm -rf "$root/share/doc" "$root/share/man" "${root:?}/bin" "$root"/include/eigen3/unsupported
find "$root" -type l | while read -r link; do
  target=$(readlink -e "$link") || target=
  rm "$link"
  [[ $target != "$scratch"/* ]] || cp -r "$target" "$link"
done

# Only the system's compiler searches the architecture-specific include folders by default.
for own in "$root"/include/*-linux-gnu*; do
  [[ ! -d $own ]] || { cp -r "$own/." "$root/include/" && rm -r "$own"; }
done

# CMake 3.25 or later, which older distributions do not have, and Ninja.
mkdir "$scratch/pip"
if ((!with_tools)); then
  echo "CMake and Ninja are not included."
elif python3 -m pip download -q --no-deps -d "$scratch/pip" 'cmake==3.27.*' ninja 2>"$scratch/pip.log"; then
  for wheel in "$scratch"/pip/*.whl; do
    python3 -m zipfile -e "$wheel" "$scratch/wheels"
  done
  mkdir -p "$root/tools"
  for part in cmake/data/bin/cmake cmake/data/bin/ctest ninja/data/bin/ninja bin/ninja; do
    found=$(find "$scratch/wheels" -path "*/$part" -type f | head -1)
    [[ -z $found ]] || install -D -m 755 "$found" "$root/tools/bin/$(basename "$part")"
  done
  for scripts in "$scratch"/wheels/*.data/scripts; do
    [[ ! -f $scripts/ninja ]] || install -D -m 755 "$scripts/ninja" "$root/tools/bin/ninja"
  done
  share=$(find "$scratch/wheels" -path '*/cmake/data/share/cmake-*' -prune -type d | head -1)
  if [[ -n $share ]]; then
    mkdir -p "$root/tools/share/$(basename "$share")"
    cp -r "$share/Modules" "$share/Templates" "$root/tools/share/$(basename "$share")/"
  fi
else
  echo "CMake and Ninja could not be downloaded from PyPI and are not included: the host needs CMake 3.25 or later." >&2
  tail -1 "$scratch/pip.log" >&2
fi

rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
cp -r "$root" "$folder"
mib=$(($(du -sk --apparent-size "$folder" | cut -f1) / 1024))
echo "$folder: $mib MiB"
if ((mib >= most_mib)); then
  echo "The limit is $most_mib MiB." >&2
  exit 1
fi
