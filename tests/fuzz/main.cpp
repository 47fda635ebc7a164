// The program of all fuzz targets. The name under which it is run selects the target; --seeds
// FOLDER writes the target's seeds, --list prints the names.
#include <fmt/format.h>
#include <sanitizer/allocator_interface.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>

#include "ferrite/core/error.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/tests/fuzz/fuzz.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace ferrite::fuzz {

std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}

namespace {

const Target* chosen = nullptr;

std::atomic<std::int64_t> held{0}, most_held{0};

void on_malloc(const volatile void*, std::size_t size) {
  const std::int64_t now = held += static_cast<std::int64_t>(size);
  for (std::int64_t most = most_held; now > most && !most_held.compare_exchange_weak(most, now);) {
  }
}
void on_free(const volatile void* data) {
  if (data)
    held -= static_cast<std::int64_t>(__sanitizer_get_allocated_size(const_cast<void*>(data)));
}

double processor_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Cost {
  double seconds;
  double bytes;
};

/// For bytes at the very end of their memory.
Cost run(data::Bytes bytes) {
  const std::int64_t before = held;
  most_held = before;
  const double start = processor_seconds();
  try {
    chosen->run(bytes);
  } catch (const Error&) {
  }
  return {processor_seconds() - start, static_cast<double>(most_held - before)};
}

void check_cost(data::Bytes bytes) {
  const auto size = static_cast<double>(bytes.size());
  const Cost allowed{chosen->seconds + 1e-6 * chosen->microseconds_per_byte * size,
                     static_cast<double>(chosen->memory) + chosen->memory_per_byte * size};
  Cost cost = run(bytes);
  // Once more: the machine may have been busy.
  if (cost.seconds > allowed.seconds) cost.seconds = std::min(cost.seconds, run(bytes).seconds);
  if (cost.seconds <= allowed.seconds && cost.bytes <= allowed.bytes) return;
  fmt::print(stderr,
             "{} of {} bytes took {:.2f} s of the processor and {:.1f} MB; expected at most {:.2f} "
             "s and {:.1f} MB\n",
             chosen->name, bytes.size(), cost.seconds, cost.bytes * 1e-6, allowed.seconds,
             allowed.bytes * 1e-6);
  std::abort();
}

/// Repeats a part of the text many times, with a counter in it: this reveals the cost of many
/// names, chunks or messages.
void repeat_part(std::string& text, std::size_t max_size, std::minstd_rand& random) {
  if (text.empty()) return;
  const auto below = [&](std::size_t n) { return std::size_t{random()} % n; };
  const std::size_t begin = below(text.size());
  const std::size_t length = 1 + below(std::min<std::size_t>(text.size() - begin, 120));
  const std::string part = text.substr(begin, length);
  const std::size_t at = below(length + 1);
  const bool counts = below(2) == 0;
  const std::size_t limit = std::min<std::size_t>(max_size, text.size() + (1 << (10 + below(12))));
  std::string many;
  for (std::size_t i = 0; text.size() + many.size() + length + 8 < limit; ++i)
    many += counts ? fmt::format("{}{}{}", part.substr(0, at), i, part.substr(at)) : part;
  text.insert(begin, many);
}

/// Small ones are mutated; large ones are run unchanged, because mutating them takes too long.
int write_seeds(const std::filesystem::path& folder) {
  constexpr std::size_t kSmall = 16384;
  for (const char* size : {"small", "large"}) std::filesystem::create_directories(folder / size);
  int number = 0;
  for (const std::string& seed : chosen->seeds()) {
    const auto path = folder / (seed.size() <= kSmall ? "small" : "large");
    std::ofstream(path / fmt::format("seed-{:02}", number++), std::ios::binary) << seed;
  }
  return 0;
}

}  // namespace
}  // namespace ferrite::fuzz

using namespace ferrite;

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string name = std::filesystem::path((*argv)[0]).filename();
  const std::string_view option = *argc > 1 ? (*argv)[1] : "";
  if (option == "--list") {
    for (const fuzz::Target& target : fuzz::targets()) fmt::print("{}\n", target.name);
    std::exit(0);
  }
  const auto found = std::ranges::find(fuzz::targets(), name, &fuzz::Target::name);
  if (found == fuzz::targets().end()) {
    fmt::print(stderr, "expected to be called by the name of a target (--list), not '{}'\n", name);
    std::exit(2);
  }
  fuzz::chosen = &*found;
  if (option == "--seeds" && *argc == 3) std::exit(fuzz::write_seeds((*argv)[2]));
  set_num_threads(1);
  __sanitizer_install_malloc_and_free_hooks(fuzz::on_malloc, fuzz::on_free);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::check_cost({data, size});
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  std::minstd_rand random(seed);
  if (random() % 500 == 0) {
    std::string text(reinterpret_cast<const char*>(data), size);
    fuzz::repeat_part(text, max_size, random);
    size = std::min(text.size(), max_size);
    std::memcpy(data, text.data(), size);
  } else {
    size = LLVMFuzzerMutate(data, size, max_size);
  }
  if (fuzz::chosen->repair && random() % 4 != 0) {
    std::string text(reinterpret_cast<const char*>(data), size);
    fuzz::chosen->repair(text);
    size = std::min(text.size(), max_size);
    std::memcpy(data, text.data(), size);
  }
  return size;
}
