// Warp-wide operations: shuffles, votes, matches, reductions.
#pragma once

#include <bit>
#include <cstring>
#include <type_traits>

#include "ferrite/emulator/block.h"

/// Accesses of a warp's lanes to each other's variables are not races.
#define EMULATOR_NO_RACES __attribute__((no_sanitize("thread")))

namespace emulator {

/// A lane's contribution to a warp-wide operation; it is on that lane's stack while the lane waits.
struct WarpRequest {
  /// Called once, by the last lane to arrive, with the requests of the lanes in `mask`. Lanes meet
  /// if this function and the mask are equal.
  void (*execute)(WarpRequest* const* lanes, unsigned mask);
  unsigned mask;
  const void* in;
  void* out;
  int a, b;
  const char* name;
  const char* file;
  int line;
};

/// Waits for all lanes of the mask, then executes. Only __syncwarp orders memory.
void warp_collective(WarpRequest& request, bool orders_memory = false);

/// Reports undefined behaviour of the running kernel, and ends the program.
[[noreturn]] void fail(const char* file, int line, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

template <class F>
EMULATOR_NO_RACES inline void for_each_lane(unsigned mask, F&& f) {
  for (; mask; mask &= mask - 1) f(std::countr_zero(mask));
}

enum class Shuffle { index, up, down, butterfly };

/// The lane that lane `lane` reads from (PTX ISA, shfl.sync): itself if the source would be outside
/// its segment of `width` lanes.
template <Shuffle kind>
inline int shuffle_source(int lane, int b, int width) {
  const int base = lane & ~(width - 1), end = base + width;
  if (kind == Shuffle::index) return base + (b & (width - 1));
  const int source = kind == Shuffle::up ? lane - b : kind == Shuffle::down ? lane + b : lane ^ b;
  const bool outside = kind == Shuffle::up ? source < base : source >= end;
  return outside ? lane : source;
}

template <Shuffle kind, class T>
EMULATOR_NO_RACES void execute_shuffle(WarpRequest* const* lanes, unsigned mask) {
  alignas(16) unsigned char values[32][sizeof(T)];
  for_each_lane(mask, [&](int lane) {
    const WarpRequest& mine = *lanes[lane];
    const int source = shuffle_source<kind>(lane, mine.a, mine.b);
    if (!(mask >> source & 1))
      fail(mine.file, mine.line, "%s: lane %d reads lane %d, which mask %08x leaves out", mine.name,
           lane, source, mask);
    std::memcpy(values[lane], lanes[source]->in, sizeof(T));
  });
  for_each_lane(mask, [&](int lane) { std::memcpy(lanes[lane]->out, values[lane], sizeof(T)); });
}

template <Shuffle kind, class T>
EMULATOR_NO_RACES T shuffle(const char* name, unsigned mask, T value, int b, int width,
                            const char* file, int line) {
  if (width <= 0 || width > 32 || (width & (width - 1)))
    fail(file, line, "%s: width %d is not a power of two from 1 to 32", name, width);
  T result = value;
  WarpRequest request{execute_shuffle<kind, T>, mask, &value, &result, b, width, name, file, line};
  warp_collective(request);
  return result;
}

template <class F>
EMULATOR_NO_RACES void execute_vote(WarpRequest* const* lanes, unsigned mask) {
  unsigned ballot = 0;
  for_each_lane(mask, [&](int lane) { ballot |= static_cast<unsigned>(lanes[lane]->a) << lane; });
  for_each_lane(
      mask, [&](int lane) { *static_cast<unsigned*>(lanes[lane]->out) = F::result(ballot, mask); });
}

template <class F>
EMULATOR_NO_RACES unsigned vote(unsigned mask, bool predicate, const char* file, int line) {
  unsigned result = 0;
  WarpRequest request{execute_vote<F>, mask, nullptr, &result, predicate, 0, F::name, file, line};
  warp_collective(request);
  return result;
}

struct Ballot {
  static constexpr const char* name = "__ballot_sync";
  static unsigned result(unsigned ballot, unsigned) { return ballot; }
};
struct Any {
  static constexpr const char* name = "__any_sync";
  static unsigned result(unsigned ballot, unsigned) { return ballot != 0; }
};
struct All {
  static constexpr const char* name = "__all_sync";
  static unsigned result(unsigned ballot, unsigned mask) { return ballot == mask; }
};

/// Lanes with the same bits: those equal to each lane's (`any`), or all or none of them (`all`).
template <bool kAll, class T>
EMULATOR_NO_RACES void execute_match(WarpRequest* const* lanes, unsigned mask) {
  for_each_lane(mask, [&](int lane) {
    unsigned same = 0;
    for_each_lane(mask, [&](int other) {
      same |= static_cast<unsigned>(!std::memcmp(lanes[lane]->in, lanes[other]->in, sizeof(T)))
              << other;
    });
    *static_cast<unsigned*>(lanes[lane]->out) = kAll && same != mask ? 0 : same;
  });
}

template <bool kAll, class T>
EMULATOR_NO_RACES unsigned match(unsigned mask, T value, const char* file, int line) {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  unsigned result = 0;
  WarpRequest request{execute_match<kAll, T>,
                      mask,
                      &value,
                      &result,
                      0,
                      0,
                      kAll ? "__match_all_sync" : "__match_any_sync",
                      file,
                      line};
  warp_collective(request);
  return result;
}

template <class F, class T>
EMULATOR_NO_RACES void execute_reduce(WarpRequest* const* lanes, unsigned mask) {
  T total = *static_cast<const T*>(lanes[std::countr_zero(mask)]->in);
  for_each_lane(mask & (mask - 1),
                [&](int lane) { total = F{}(total, *static_cast<const T*>(lanes[lane]->in)); });
  for_each_lane(mask, [&](int lane) { *static_cast<T*>(lanes[lane]->out) = total; });
}

template <class F, class T>
EMULATOR_NO_RACES T reduce(unsigned mask, T value, const char* file, int line) {
  T result = value;
  WarpRequest request{execute_reduce<F, T>, mask, &value, &result, 0, 0,
                      "__reduce_sync",      file, line};
  warp_collective(request);
  return result;
}

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
struct And {
  template <class T>
  T operator()(T a, T b) const {
    return a & b;
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return a | b;
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) const {
    return a ^ b;
  }
};

EMULATOR_NO_RACES inline void execute_nothing(WarpRequest* const*, unsigned) {}

}  // namespace emulator

inline void __syncwarp(unsigned mask = 0xffffffffu, EMULATOR_SITE) {
  emulator::WarpRequest request{
      emulator::execute_nothing, mask, nullptr, nullptr, 0, 0, "__syncwarp", file, line};
  emulator::warp_collective(request, true);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, EMULATOR_SITE) {
  return emulator::shuffle<emulator::Shuffle::index>("__shfl_sync", mask, value, source, width,
                                                     file, line);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATOR_SITE) {
  return emulator::shuffle<emulator::Shuffle::up>("__shfl_up_sync", mask, value,
                                                  static_cast<int>(delta), width, file, line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATOR_SITE) {
  return emulator::shuffle<emulator::Shuffle::down>("__shfl_down_sync", mask, value,
                                                    static_cast<int>(delta), width, file, line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, EMULATOR_SITE) {
  return emulator::shuffle<emulator::Shuffle::butterfly>("__shfl_xor_sync", mask, value, lane_mask,
                                                         width, file, line);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, EMULATOR_SITE) {
  return emulator::vote<emulator::Ballot>(mask, predicate != 0, file, line);
}
inline int __any_sync(unsigned mask, int predicate, EMULATOR_SITE) {
  return static_cast<int>(emulator::vote<emulator::Any>(mask, predicate != 0, file, line));
}
inline int __all_sync(unsigned mask, int predicate, EMULATOR_SITE) {
  return static_cast<int>(emulator::vote<emulator::All>(mask, predicate != 0, file, line));
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, EMULATOR_SITE) {
  return emulator::match<false>(mask, value, file, line);
}
template <class T>
unsigned __match_all_sync(unsigned mask, T value, int* predicate, EMULATOR_SITE) {
  const unsigned result = emulator::match<true>(mask, value, file, line);
  *predicate = result != 0;
  return result;
}

#define EMULATOR_REDUCE(name, Operation, T)                                \
  inline T __reduce_##name##_sync(unsigned mask, T value, EMULATOR_SITE) { \
    return emulator::reduce<emulator::Operation>(mask, value, file, line); \
  }
EMULATOR_REDUCE(add, Add, int)
EMULATOR_REDUCE(add, Add, unsigned)
EMULATOR_REDUCE(min, Min, int)
EMULATOR_REDUCE(min, Min, unsigned)
EMULATOR_REDUCE(max, Max, int)
EMULATOR_REDUCE(max, Max, unsigned)
EMULATOR_REDUCE(and, And, unsigned)
EMULATOR_REDUCE(or, Or, unsigned)
EMULATOR_REDUCE(xor, Xor, unsigned)
#undef EMULATOR_REDUCE
