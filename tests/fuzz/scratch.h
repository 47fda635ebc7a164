// Files in memory, for readers that take a path.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "ferrite/tests/fuzz/fuzz.h"

namespace ferrite::fuzz {

/// A folder in memory, removed with the process.
inline const std::filesystem::path& scratch_folder() {
  static const struct Scratch {
    Scratch() {
      const char* base = std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
      std::string name = std::string(base) + "/ferrite-fuzz-XXXXXX";
      if (!mkdtemp(name.data())) std::abort();
      path = name;
    }
    ~Scratch() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::filesystem::path path;
  } scratch;
  return scratch.path;
}

inline void write_file(const std::filesystem::path& path, data::Bytes bytes) {
  std::ofstream(path, std::ios::binary) << text_of(bytes);
}

/// The bytes written by `write(path)`.
template <class Write>
std::string written(Write&& write) {
  const std::filesystem::path path = scratch_folder() / "written";
  write(path);
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace ferrite::fuzz
