#!/usr/bin/env bash
# Makes Debian packages of a built Ferrite, unpacks them, and builds a program with what they have, by
# pkg-config and by find_package: tests/install/deb.sh <build folder> <scratch folder> [cmake options...]
# Exits with 77 where there are no Debian tools.
set -euo pipefail
build=$(cd "$1" && pwd)
scratch=$2
shift 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

for program in dpkg-deb dpkg-shlibdeps pkg-config cpack file; do
  if ! command -v "$program" >/dev/null; then
    echo "skipped: $program, which makes or reads packages, is not installed"
    exit 77
  fi
done
rm -rf "$scratch"
mkdir -p "$scratch/root"
scratch=$(cd "$scratch" && pwd)

# Uncompressed, which takes a second instead of a minute.
cpack --config "$build/CPackConfig.cmake" -B "$scratch/packages" -D CPACK_DEBIAN_COMPRESSION_TYPE=none \
  >"$scratch/cpack.log" 2>&1 || {
  cat "$scratch/cpack.log"
  exit 1
}
version=$(sed -n 's/^#define FERRITE_VERSION_[A-Z]* //p' "$here/../../core/version.h" | paste -sd.)
names=()
for package in "$scratch"/packages/*.deb; do
  dpkg-deb --field "$package" Package Version Depends
  name=$(dpkg-deb --field "$package" Package)
  names+=("$name")
  if [[ $(dpkg-deb --field "$package" Version) != "$version" ]]; then
    echo "expected version $version" >&2
    exit 1
  fi
  dpkg-deb --contents "$package" >"$scratch/$name.list"
  if ! grep -q "/usr/share/doc/$name/copyright$" "$scratch/$name.list"; then
    echo "$name has no copyright file" >&2
    exit 1
  fi
  dpkg-deb --extract "$package" "$scratch/root"
done

# What is for running is not in what is for building, and the other way round.
expect() {  # expect <regular expression of packages> <regular expression of files>
  local found
  found=$(cd "$scratch" && grep -lE "$2" ./*.list | sed 's/^\.\///; s/\.list$//' | paste -sd' ')
  if ! [[ $found =~ ^$1$ ]]; then
    echo "expected files $2 in a package $1, found them in: ${found:-none of ${names[*]}}" >&2
    exit 1
  fi
}
expect 'ferrite(-cuda)?' '/usr/bin/ferrite-run$'
expect 'ferrite(-cuda)?' '/usr/bin/ferrite-inspect$'
expect 'libferrite(-cuda)?-dev' '/usr/include/ferrite/ferrite\.h$'
expect 'libferrite(-cuda)?-dev' '/cmake/ferrite/ferrite-config\.cmake$'
expect 'libferrite(-cuda)?-dev' '/pkgconfig/ferrite\.pc$'
expect 'libferrite(-cuda)?-dev' '/libferrite_core\.(a|so)( |$)'
shared=$(compgen -G "$scratch/root/usr/lib*/libferrite_core.so" || compgen -G "$scratch/root/usr/lib/*/libferrite_core.so" || true)
if [[ $shared ]]; then
  soname=$(readelf --dynamic "$shared" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
  if [[ $soname != "libferrite_core.so.${version%.*}" ]]; then
    echo "the SONAME is $soname" >&2
    exit 1
  fi
  expect 'libferrite[0-9.]+(-cuda)?' "/$soname( |\$)"
  export LD_LIBRARY_PATH=${shared%/*}
fi
"$scratch/root/usr/bin/ferrite-inspect" --help >/dev/null

# A program without CMake.
pc=$(find "$scratch/root/usr" -name ferrite.pc)
export PKG_CONFIG_PATH=${pc%/*}
if [[ $(pkg-config --modversion ferrite) != "$version" ]]; then
  echo "pkg-config knows another version" >&2
  exit 1
fi
read -ra flags <<<"$(pkg-config --cflags --libs ferrite)"
compiler=c++
for option; do [[ $option != -DCMAKE_CXX_COMPILER=* ]] || compiler=${option#*=}; done
echo "$compiler -std=c++20 main.cpp ${flags[*]}"
"$compiler" -std=c++20 -Wall -Wextra -Werror "$here/consumer/main.cpp" -o "$scratch/consumer" "${flags[@]}"
"$scratch/consumer"

# And with it.
awk '/^```cpp$/ { inside = 1; next } /^```$/ && inside { exit } inside' \
  "$here/../../README.md" >"$scratch/readme.cpp"
cmake -S "$here/consumer" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$scratch/root/usr" \
  -DREADME_PROGRAM="$scratch/readme.cpp" -DWANTED_VERSION="$version" "$@"
cmake --build "$scratch/build" --target consumer
"$scratch/build/consumer"
