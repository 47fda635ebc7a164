#!/usr/bin/env bash
# Installs the Debian packages that Ferrite needs to build, and only the missing ones.
#   scripts/install_packages.sh [extra packages...]
# Prints what it will install first; does not call apt if nothing is missing.
set -euo pipefail
case ${1:-} in -h | --help) sed '1d;/^#/!Q;s/^# \{0,1\}//' "${BASH_SOURCE[0]}"; exit ;; esac

packages=(
  g++ cmake make ninja-build ccache mold
  libeigen3-dev gemmi-dev libfmt-dev nlohmann-json3-dev zlib1g-dev libdeflate-dev libpng-dev
  libjpeg62-turbo-dev libssl-dev
  libgloo-dev libhdf5-dev libonnx-dev libprotobuf-dev
  libcli11-dev doctest-dev
)

installed() {
  [[ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "This system has no apt. Install these packages, or their equivalents on this system:" >&2
  echo "  ${packages[*]} $*" >&2
  echo "Continuing without them; CMake reports the ones that it requires." >&2
  exit 0
fi

missing=()
for package in "${packages[@]}" "$@"; do
  # Ubuntu has another name for libjpeg's development package; any package with jpeglib.h will do.
  if [[ $package == libjpeg62-turbo-dev ]] && installed libjpeg-turbo8-dev; then continue; fi
  installed "$package" || missing+=("$package")
done

if ((${#missing[@]} == 0)); then
  echo "All packages are installed."
  exit 0
fi

sudo=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "Missing packages: ${missing[*]}" >&2
    echo "There is no sudo, and this user is not root. As root, run: apt-get install ${missing[*]}" >&2
    echo "Continuing without them; CMake reports the ones that it requires." >&2
    exit 0
  fi
  sudo=(sudo)
fi

failed() {
  echo "Could not install: ${missing[*]}" >&2
  echo "See the output of apt-get above. Once these packages are installed, no network is needed." >&2
  exit 1
}

echo "Packages to install with ${sudo[*]:+sudo }apt-get: ${missing[*]}"
"${sudo[@]}" apt-get update -q || failed
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -q -y --no-install-recommends "${missing[@]}" || failed
