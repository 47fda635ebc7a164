#include "ferrite/core/arena.h"

#include <utility>

namespace ferrite::detail {

Arena::~Arena() {
  for (Chunk* chunk : firsts_)
    while (chunk) delete std::exchange(chunk, chunk->next);
}

Chunk* Arena::take(std::size_t bytes) {
  Chunk key;
  key.bytes = bytes;
  const auto found = free_.lower_bound(&key);
  if (found == free_.end()) return nullptr;
  Chunk* chunk = *found;
  free_.erase(found);
  if (chunk->bytes - bytes >= smallest_rest_) {
    auto* rest = new Chunk{.data = chunk->data + bytes,
                           .bytes = chunk->bytes - bytes,
                           .previous = chunk,
                           .next = chunk->next,
                           .arena = this};
    if (chunk->next) chunk->next->previous = rest;
    chunk->next = rest;
    chunk->bytes = bytes;
    free_.insert(rest);
  }
  chunk->in_use = true;
  return chunk;
}

void Arena::absorb_next(Chunk* chunk) {
  Chunk* gone = chunk->next;
  chunk->bytes += gone->bytes;
  chunk->next = gone->next;
  if (chunk->next) chunk->next->previous = chunk;
  delete gone;
}

void Arena::give_back(Chunk* chunk) {
  chunk->in_use = false;
  if (chunk->next && !chunk->next->in_use) {
    free_.erase(chunk->next);
    absorb_next(chunk);
  }
  if (Chunk* before = chunk->previous; before && !before->in_use) {
    free_.erase(before);
    absorb_next(before);
    chunk = before;
  }
  free_.insert(chunk);
}

void Arena::add_segment(char* data, std::size_t bytes) {
  firsts_.push_back(new Chunk{.data = data, .bytes = bytes, .arena = this});
  free_.insert(firsts_.back());
  reserved_ += bytes;
}

std::vector<Arena::Segment> Arena::remove_free_segments() {
  std::vector<Segment> removed;
  std::erase_if(firsts_, [&](Chunk* chunk) {
    if (chunk->in_use || chunk->next) return false;
    removed.push_back({chunk->data, chunk->bytes});
    reserved_ -= chunk->bytes;
    free_.erase(chunk);
    delete chunk;
    return true;
  });
  return removed;
}

}  // namespace ferrite::detail
