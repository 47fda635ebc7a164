// Vector clocks over streams: the operations of other streams that precede an operation. Kept only
// in builds with the race detector.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace emulator {

#ifdef FERRITE_EMULATOR_RACE
inline constexpr bool kRaces = true;
#else
inline constexpr bool kRaces = false;
#endif

class Clock {
 public:
  /// The number of the last operation of `stream` that is known to be complete, 0 for none.
  std::uint64_t operator[](std::uint64_t stream) const {
    for (const auto& [id, number] : entries_)
      if (id == stream) return number;
    return 0;
  }
  void reach(std::uint64_t stream, std::uint64_t number) {
    for (auto& [id, known] : entries_)
      if (id == stream) {
        if (known < number) known = number;
        return;
      }
    entries_.emplace_back(stream, number);
  }
  void join(const Clock& other) {
    for (const auto& [id, number] : other.entries_) reach(id, number);
  }
  /// Whether joining `other` would change nothing.
  bool covers(const Clock& other) const {
    for (const auto& [id, number] : other.entries_)
      if ((*this)[id] < number) return false;
    return true;
  }

 private:
  std::vector<std::pair<std::uint64_t, std::uint64_t>> entries_;
};

using ClockPtr = std::shared_ptr<const Clock>;

/// The position of an operation in a launch of a graph.
struct GraphPlace {
  std::uint64_t launch = 0;  // 0: in none
  std::size_t node = 0;
  std::shared_ptr<const std::vector<bool>> ancestors;  // the nodes that come before it
};

/// An operation for the race detector: its position, and the operations that precede it.
struct WorkId {
  std::uint64_t stream = 0, number = 0;
  ClockPtr clock;
  GraphPlace graph;

  bool comes_after(const WorkId& other) const {
    if (graph.launch && graph.launch == other.graph.launch)
      return (*graph.ancestors)[other.graph.node];
    return stream == other.stream || (clock && (*clock)[other.stream] >= other.number);
  }
};

}  // namespace emulator
