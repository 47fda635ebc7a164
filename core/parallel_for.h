// Fork-join loops over one pool of threads, the only one in the process.
//
// A loop is cut into chunks by its length and grain alone, never by the number of threads, and any
// thread takes the next free chunk. The result therefore has the same bits for every thread count,
// and when another process takes a core, the loop slows down in proportion instead of waiting for a
// fixed share of the work.
#pragma once

#include <cstdint>
#include <type_traits>

namespace ferrite {

/// Number of computing threads, including the caller. Default: FERRITE_NUM_THREADS, else
/// OMP_NUM_THREADS, else the processors this process may run on.
int num_threads();
/// Throws ValueError below 1 or above 1024. Waits for running loops of other threads.
void set_num_threads(int count);
/// How many threads the CPU's kernels use.
inline int get_num_threads() { return num_threads(); }

namespace detail {
using ChunkFn = void (*)(void* body, std::int64_t begin, std::int64_t end);
void run_chunks(std::int64_t n, std::int64_t grain, ChunkFn fn, void* body);
}  // namespace detail

/// Calls body(begin, end) for [0, grain), [grain, 2 grain), ... up to n, several at a time. Returns
/// when all are done; the first exception is rethrown here, and chunks not yet started are dropped.
/// A nested loop runs in its own thread alone, unless the outer loop is a single chunk.
template <class Body>
void parallel_for(std::int64_t n, std::int64_t grain, Body&& body) {
  if (n <= 0) return;
  if (n <= grain) {
    body(std::int64_t{0}, n);
    return;
  }
  using B = std::remove_reference_t<Body>;
  detail::run_chunks(
      n, grain < 1 ? 1 : grain,
      [](void* b, std::int64_t begin, std::int64_t end) { (*static_cast<B*>(b))(begin, end); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace ferrite
