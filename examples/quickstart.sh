#!/usr/bin/env bash
# Installs what is missing, builds Ferrite and trains LeNet:
#   bash examples/quickstart.sh [options of lenet...]
# Trains on Fashion-MNIST if a folder fashion-mnist (or torchvision's FashionMNIST) is found in
# $FERRITE_DATA, ./data-sets, ./data, ~/.cache/ferrite, /usr/local/share/ferrite or
# /usr/share/ferrite, and otherwise on digits that the program draws itself.
# `build/default/bin/lenet --help` lists the options.
set -euo pipefail
here=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
repository=$PWD

bash scripts/install_packages.sh
bash scripts/configure.sh default
cmake --build --preset default --parallel "${FERRITE_JOBS:-$(nproc)}" --target lenet
lenet=$repository/build/default/bin/lenet
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
    echo "To train on it, put its four files into ./data-sets/fashion-mnist, or set FERRITE_DATA."
    arguments+=(--dataset synthetic-digits)
  fi
fi

echo "$lenet ${arguments[*]} $*"
exec "$lenet" "${arguments[@]}" "$@"
