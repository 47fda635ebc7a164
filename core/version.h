// The version of the library (torch.__version__), for programs and for #if. CMake reads it here.
#pragma once

#define FERRITE_VERSION_MAJOR 0
#define FERRITE_VERSION_MINOR 1
#define FERRITE_VERSION_PATCH 0

#define FERRITE_DETAIL_TEXT(number) #number
#define FERRITE_DETAIL_VERSION(major, minor, patch) \
  FERRITE_DETAIL_TEXT(major) "." FERRITE_DETAIL_TEXT(minor) "." FERRITE_DETAIL_TEXT(patch)
#define FERRITE_VERSION \
  FERRITE_DETAIL_VERSION(FERRITE_VERSION_MAJOR, FERRITE_VERSION_MINOR, FERRITE_VERSION_PATCH)

namespace ferrite {
/// "0.1.0"
inline constexpr const char* kVersion = FERRITE_VERSION;
}  // namespace ferrite
