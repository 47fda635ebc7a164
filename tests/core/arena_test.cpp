#include "ferrite/core/arena.h"

#include <algorithm>
#include <map>
#include <random>

#include "ferrite/tests/core/test_util.h"

using ferrite::detail::Arena;
using ferrite::detail::Chunk;

namespace {

/// Never accessed: an arena only does bookkeeping.
char* at(std::size_t offset) { return reinterpret_cast<char*>(std::size_t{1} << 20) + offset; }

}  // namespace

TEST_CASE("the smallest chunk that fits is taken, and cut to size") {
  Arena arena(16);
  CHECK(arena.take(1) == nullptr);
  arena.add_segment(at(0), 1000);
  arena.add_segment(at(5000), 100);
  CHECK(arena.largest_free() == 1000);
  Chunk* a = arena.take(60);
  CHECK(a->data == at(5000));
  CHECK(a->bytes == 60);
  Chunk* b = arena.take(40);  // all that is left of the small segment
  CHECK(b->data == at(5060));
  Chunk* c = arena.take(990);  // a rest of 10 is too small to be split off
  CHECK(c->data == at(0));
  CHECK(c->bytes == 1000);
  CHECK(arena.take(1) == nullptr);
  CHECK(arena.largest_free() == 0);
  CHECK(arena.reserved() == 1100);
  for (Chunk* chunk : {a, b, c}) arena.give_back(chunk);
}

TEST_CASE("neighbours merge in whichever order they come back") {
  std::vector<int> order = {0, 1, 2, 3};
  do {
    Arena arena(1);
    arena.add_segment(at(0), 400);
    std::vector<Chunk*> chunks;
    for (int i = 0; i < 4; ++i) chunks.push_back(arena.take(100));
    CHECK(arena.remove_free_segments().empty());
    for (int i : order) arena.give_back(chunks[static_cast<std::size_t>(i)]);
    CHECK(arena.largest_free() == 400);
    const auto removed = arena.remove_free_segments();
    REQUIRE(removed.size() == 1);
    CHECK(removed[0].data == at(0));
    CHECK(removed[0].bytes == 400);
    CHECK(arena.empty());
    CHECK(arena.take(1) == nullptr);
  } while (std::ranges::next_permutation(order).found);
}

TEST_CASE("segments do not merge with one another, and leave one by one") {
  Arena arena(1);
  arena.add_segment(at(0), 100);
  arena.add_segment(at(100), 100);
  CHECK(arena.take(150) == nullptr);
  Chunk* a = arena.take(100);
  CHECK(a->data == at(0));  // the lower address on ties
  auto removed = arena.remove_free_segments();
  REQUIRE(removed.size() == 1);
  CHECK(removed[0].data == at(100));
  CHECK(arena.reserved() == 100);
  arena.give_back(a);
  CHECK(arena.remove_free_segments().size() == 1);
}

TEST_CASE("random requests never overlap, and everything comes back") {
  for (unsigned seed = 0; seed < 5; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Arena arena(64);
    std::map<char*, Chunk*> live;
    std::size_t segments = 0;
    for (int step = 0; step < 5000; ++step) {
      if (!live.empty() && random() % 2) {
        const auto chosen = std::next(live.begin(), static_cast<long>(random() % live.size()));
        arena.give_back(chosen->second);
        live.erase(chosen);
        continue;
      }
      const std::size_t bytes = 64 * (1 + random() % 40);
      Chunk* chunk = arena.take(bytes);
      if (!chunk) {
        arena.add_segment(at(segments++ * 10000), 6400);
        chunk = arena.take(bytes);
      }
      REQUIRE(chunk);
      REQUIRE(chunk->bytes >= bytes);
      const auto [place, fresh] = live.emplace(chunk->data, chunk);
      REQUIRE(fresh);
      if (place != live.begin()) {
        const Chunk* before = std::prev(place)->second;
        REQUIRE(before->data + before->bytes <= chunk->data);
      }
      if (const auto next = std::next(place); next != live.end())
        REQUIRE(chunk->data + chunk->bytes <= next->first);
    }
    for (const auto& [data, chunk] : live) arena.give_back(chunk);
    CHECK(arena.remove_free_segments().size() == segments);
    CHECK(arena.empty());
  }
}
