#!/usr/bin/env bash
# Installs what is missing, builds Ferrite and trains LeNet:
#   bash examples/quickstart.sh [options of lenet...]
# Trains on Fashion-MNIST if a folder fashion-mnist (or torchvision's FashionMNIST) is found in
# $FERRITE_DATA, ./data-sets, ./data, ~/.cache/ferrite, /usr/local/share/ferrite or
# /usr/share/ferrite, and otherwise on digits that the program draws itself.
# `build/default/bin/lenet --help` lists the options.
set -euo pipefail
case ${1:-} in -h | --help) sed '1d;/^#/!Q;s/^# \{0,1\}//' "${BASH_SOURCE[0]}"; exit ;; esac
here=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
repository=$PWD

# Without a driver no GPU code can run, and compiling it takes most of the time. An existing build is
# used as it is.
preset=default
without=""
if [[ ! -e build/default/CMakeCache.txt ]] && ! nvidia-smi >/dev/null 2>&1; then
  if command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; then
    preset=cpu
    without=", without GPU code, because there is no NVIDIA driver"
  fi
fi
jobs=${FERRITE_JOBS:-$(nproc)}
minutes=12  # of one processor; GPU code takes twice as long again
if [[ $preset == default ]] && { command -v nvcc || [[ -x /usr/local/cuda/bin/nvcc ]]; } >/dev/null; then
  minutes=36
fi
if [[ -x build/$preset/bin/lenet ]]; then
  takes="a few seconds, because it is already built"
else
  takes="about $(((minutes + jobs - 1) / jobs)) minutes on $jobs processor(s) the first time"
fi
cat <<END
Ferrite's quickstart

  1. installs missing Debian packages, if any: about a minute
  2. builds the library and the program lenet in build/$preset$without:
     $takes
  3. trains LeNet on images of 28 x 28 pixels and prints its accuracy: about half a minute

END
begin=$SECONDS
step() { printf '\n[%d/3] %s (%dm%02ds)\n' "$1" "$2" $(((SECONDS - begin) / 60)) $(((SECONDS - begin) % 60)); }

step 1 "Packages"
bash scripts/install_packages.sh
step 2 "Building"
log=$(mktemp)
if ! bash scripts/configure.sh "$preset" >"$log" 2>&1; then
  cat "$log"
  rm -f "$log"
  exit 1
fi
sed -n '/^-- Ferrite/,/^-- *ccache/p' "$log"
rm -f "$log"
# Ninja shows one line that changes on a terminal: done, of all, percent, seconds so far.
NINJA_STATUS='[%f of %t, %p, %es] ' cmake --build --preset "$preset" --parallel "$jobs" --target lenet
lenet=$repository/build/$preset/bin/lenet
cd "$here"  # paths in the options are the caller's

given() {  # given --option arguments...: whether the caller set the option
  local option=$1 argument
  shift
  for argument; do
    [[ $argument == "$option" || $argument == "$option="* ]] && return 0
  done
  return 1
}

find_fashion_mnist() {  # prints the folder to give to --data
  local root folder file=train-images-idx3-ubyte
  for root in "${FERRITE_DATA:-}" "$PWD/data-sets" "$repository/data-sets" "$PWD/data" \
    "${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/ferrite" \
    /usr/local/share/ferrite /usr/share/ferrite; do
    [[ -n $root ]] || continue
    # MNIST's files have the same names, so only folders named after Fashion-MNIST count.
    for folder in "$root/fashion-mnist" "$root/FashionMNIST/raw" "$root/FashionMNIST"; do
      [[ -e $folder/$file || -e $folder/$file.gz ]] && echo "$root" && return
    done
  done
  return 1
}

arguments=()
if ! given --dataset "$@"; then
  if given --data "$@"; then
    arguments+=(--dataset fashion-mnist)
  elif root=$(find_fashion_mnist); then
    arguments+=(--dataset fashion-mnist --data "$root")
  else
    echo "No Fashion-MNIST found: training on synthetic digits."
    echo "To train on Fashion-MNIST, put its four files into ./data-sets/fashion-mnist, or set FERRITE_DATA."
    arguments+=(--dataset synthetic-digits)
  fi
fi

step 3 "Training"
echo "$lenet ${arguments[*]} $*"
"$lenet" "${arguments[@]}" "$@"

cat <<END

Done in $(((SECONDS - begin) / 60))m$(((SECONDS - begin) % 60))s. Next, try these commands in $repository:

  $lenet --help                      # lists the options
  $lenet --checkpoint-dir runs/lenet # saves the weights and plots the learning curve
  cmake --build --preset $preset --target examples --parallel $jobs
                                     # builds all example programs, such as:
  build/$preset/bin/mnist --epochs 3          # a training program in a hundred lines: examples/mnist/main.cpp
  build/$preset/bin/ferrite-run --standalone --nproc-per-node=2 build/$preset/bin/ddp
                                     # trains with two processes

Next, docs/tutorials/01_first_network.md explains how to write your own program. docs/tutorials/README.md lists the
tutorials on your own data, training on several GPUs, and more.
END
