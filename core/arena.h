// Blocks cut out of large segments of memory: best fit, split, and merged with their free
// neighbours. Does the bookkeeping only and never touches the memory, so it serves any device.
#pragma once

#include <cstddef>
#include <set>
#include <vector>

namespace ferrite::detail {

class Arena;

struct Chunk {
  char* data = nullptr;
  std::size_t bytes = 0;
  Chunk* previous = nullptr;  ///< neighbours in the segment, by address
  Chunk* next = nullptr;
  Arena* arena = nullptr;
  bool in_use = false;
};

/// Not thread-safe.
class Arena {
 public:
  struct Segment {
    char* data = nullptr;
    std::size_t bytes = 0;
  };

  /// A chunk is split if at least `smallest_rest` bytes remain after the request.
  explicit Arena(std::size_t smallest_rest) : smallest_rest_(smallest_rest) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// The smallest free chunk of at least `bytes`, cut to size; ties go to the lowest address. Null
  /// if there is none.
  Chunk* take(std::size_t bytes);
  void give_back(Chunk* chunk);

  void add_segment(char* data, std::size_t bytes);
  /// Forgets the segments with no chunk in use, and returns them.
  std::vector<Segment> remove_free_segments();

  std::size_t largest_free() const { return free_.empty() ? 0 : (*free_.rbegin())->bytes; }
  std::size_t reserved() const { return reserved_; }
  bool empty() const { return reserved_ == 0; }

 private:
  struct BySize {
    bool operator()(const Chunk* a, const Chunk* b) const {
      return a->bytes != b->bytes ? a->bytes < b->bytes : a->data < b->data;
    }
  };
  void absorb_next(Chunk* chunk);

  const std::size_t smallest_rest_;
  std::set<Chunk*, BySize> free_;
  std::vector<Chunk*> firsts_;  // of each segment
  std::size_t reserved_ = 0;
};

}  // namespace ferrite::detail
