// The version of Ferrite (torch.__version__). This file is its one source: CMake, the packages and
// find_package read it here.
#pragma once

/// From 1.0 on, a new major version may break source and ABI.
#define FERRITE_VERSION_MAJOR 0
/// A new minor version adds features; before 1.0 it may also break source and ABI.
#define FERRITE_VERSION_MINOR 1
/// A new patch version only fixes defects.
#define FERRITE_VERSION_PATCH 0

#define FERRITE_DETAIL_TEXT(number) #number
#define FERRITE_DETAIL_VERSION(major, minor, patch) \
  FERRITE_DETAIL_TEXT(major) "." FERRITE_DETAIL_TEXT(minor) "." FERRITE_DETAIL_TEXT(patch)
/// "0.1.0", a literal.
#define FERRITE_VERSION \
  FERRITE_DETAIL_VERSION(FERRITE_VERSION_MAJOR, FERRITE_VERSION_MINOR, FERRITE_VERSION_PATCH)

namespace ferrite {

/// The version of the headers that a program was compiled with: "0.1.0".
inline constexpr const char* kVersion = FERRITE_VERSION;

/// The version of the library that runs. It differs from kVersion where a shared library of
/// another patch release was installed after the program was compiled.
const char* version();

}  // namespace ferrite
