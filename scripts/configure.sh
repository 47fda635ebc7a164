#!/usr/bin/env bash
# Configures build/<preset>: scripts/configure.sh [preset] [cmake options...]
# Uses Ninja if it is installed, else Make; a folder that is already configured keeps its
# generator.
set -euo pipefail
case ${1:-} in -h | --help) sed '1d;/^#/!Q;s/^# \{0,1\}//' "${BASH_SOURCE[0]}"; exit ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-default}
shift || true

programs=(cmake)
[[ -n ${CXX:-} ]] || programs+=(c++)
for program in "${programs[@]}"; do
  if ! command -v "$program" >/dev/null; then
    echo "Building Ferrite requires $program, which is not on the PATH." >&2
    echo "On Debian or Ubuntu: apt-get install g++ cmake" >&2
    exit 1
  fi
done

options=()
cache=build/$preset/CMakeCache.txt
if [[ -e $cache ]]; then
  home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$cache")
  generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$cache")
  if [[ $(readlink -f "$home") != "$(pwd -P)" ]]; then
    echo "build/$preset was configured for $home: configuring it again." >&2
    options+=(--fresh)
  elif [[ -n $generator ]]; then
    options+=(-G "$generator")
  fi
fi
if [[ ${options[0]:-} != -G ]] && ! command -v ninja >/dev/null; then
  options+=(-G "Unix Makefiles")
fi

cmake --preset "$preset" "${options[@]}" "$@"
