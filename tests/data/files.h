// Helpers for tests of file formats: temporary folders, reading and writing bytes, and fuzz loops.
#pragma once

#include <doctest/doctest.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/core/allocator.h"
#include "ferrite/core/error.h"
#include "ferrite/core/generator.h"
#include "ferrite/data/file.h"
#include "ferrite/tests/data/gzip.h"
#include "ferrite/tests/support/message.h"
#include "ferrite/tests/support/sanitizers.h"

namespace ferrite::test {

/// As many names as fit into a file's header of a few megabytes: a reader that takes quadratic time
/// exceeds the time limit of a test. ThreadSanitizer, which takes 20 times as long, looks for
/// races, and gets fewer.
inline int many_names() { return has_thread_sanitizer() ? 25'000 : 250'000; }

/// A temporary folder, removed with the object.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "ferrite-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  /// The number of files in it.
  std::size_t count() const {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_)) ++n;
    return n;
  }

 private:
  std::filesystem::path path_;
};

inline data::Bytes bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

inline void write_file(const std::filesystem::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary) << content;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::string from_hex(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return out;
}

inline std::string big32(std::uint32_t v) {
  return {static_cast<char>(v >> 24), static_cast<char>(v >> 16), static_cast<char>(v >> 8),
          static_cast<char>(v)};
}

/// Runs `parse` on `input`. It may be rejected, but only by a ferrite::Error and without allocating
/// more memory than `input` can hold even when it is compressed, with one pixel of three colours
/// per byte. Returns whether it was accepted. The copy has exactly the length of the input, so that
/// the address sanitizer detects reads past its end.
template <class Parse>
bool survives(std::string_view input, Parse&& parse) {
  const std::vector<std::uint8_t> exact(input.begin(), input.end());
  const Device host;
  reset_peak_memory_stats(host);
  const std::size_t before = memory_allocated(host);
  bool accepted = true;
  try {
    parse(data::Bytes(exact));
  } catch (const Error&) {
    accepted = false;
  }
  CHECK(max_memory_allocated(host) - before <= 3 * 1032 * input.size() + 65536);
  return accepted;
}

/// Every proper prefix of `valid` must be rejected.
template <class Parse>
void fuzz_truncations(std::string_view valid, Parse&& parse) {
  REQUIRE(survives(valid, parse));
  for (std::size_t n = 0; n < valid.size(); ++n) {
    CAPTURE(n);
    CHECK_FALSE(survives(valid.substr(0, n), parse));
  }
}

/// Random changes of one to four bytes must end in a value or an error.
template <class Parse>
void fuzz_flips(std::string_view valid, int rounds, Parse&& parse) {
  Generator random(7);
  for (int i = 0; i < rounds; ++i) {
    std::string changed(valid);
    const std::uint64_t flips = 1 + random.next_below(4);
    for (std::uint64_t k = 0; k < flips; ++k) {
      const std::size_t at = random.next_below(changed.size());
      // Extreme values find more overflows than uniform ones.
      constexpr std::uint8_t kExtreme[] = {0x00, 0xff, 0x7f, 0x80, 0x01};
      changed[at] = static_cast<char>(random.next_below(2) ? kExtreme[random.next_below(5)]
                                                           : random.next_below(256));
    }
    survives(changed, parse);
  }
}

}  // namespace ferrite::test
