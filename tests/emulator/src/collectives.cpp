// Points where threads of a block wait for each other.
#include <cstring>

#include "ferrite/tests/emulator/src/block_state.h"
#include "ferrite/tests/emulator/src/race.h"
#include "ferrite/tests/emulator/src/report.h"
#include "ferrite/tests/emulator/src/scheduler.h"

namespace emulator {

void release_barrier() {
  for (int w = 0; w < block.warps; ++w) {
    block.set_ready(w, block.at_barrier[w]);
    block.at_barrier[w] = 0;
  }
  block.arrived = 0;
  ++block.phase;
  race_barrier();
}

int block_barrier(Vote vote, bool predicate, const char* file, int line) {
  BlockThread* const self = block.current;
  if (!self || !running_here()) fatal(file, line, "__syncthreads outside of a kernel");
  if (block.arrived == 0) {
    block.barrier_file = file;
    block.barrier_line = line;
    block.count = 0;
  } else if (block.barrier_line != line ||
             (block.barrier_file != file && std::strcmp(block.barrier_file, file) != 0)) {
    fatal(file, line,
          "divergent barrier: thread %d arrives at this __syncthreads while others of its block "
          "wait in the one at %s:%d",
          self->rank, block.barrier_file, block.barrier_line);
  }
  ++counts.barriers;
  block.idle_yields = 0;
  block.count += predicate;
  int* const results = block.votes[block.phase & 1];
  const int arrived = ++block.arrived;
  results[static_cast<int>(Vote::none)] = 0;
  results[static_cast<int>(Vote::count)] = block.count;
  results[static_cast<int>(Vote::all)] = block.count == arrived;
  results[static_cast<int>(Vote::any)] = block.count != 0;
  if (arrived == block.live) {
    release_barrier();
  } else {
    self->file = file;
    self->line = line;
    block.at_barrier[self->warp()] |= 1u << self->lane();
    block_here();
  }
  return results[static_cast<int>(vote)];
}

namespace {

void check_mask(const WarpRequest& r, const BlockThread& self) {
  const int w = self.warp(), lane = self.lane();
  const unsigned others = r.mask & ~(1u << lane);
  if (!(r.mask >> lane & 1))
    fatal(r.file, r.line, "%s: lane %d is not in its own mask %08x", r.name, lane, r.mask);
  if (const unsigned none = others & ~block.exists[w])
    fatal(r.file, r.line, "%s: mask %08x names lanes %08x, which the block of %d threads has not",
          r.name, r.mask, none, block.size);
  if (const unsigned gone = others & block.returned[w])
    fatal(r.file, r.line, "%s: mask %08x names lanes %08x, which have returned", r.name, r.mask,
          gone);
}

}  // namespace

void warp_collective(WarpRequest& request, bool orders_memory) {
  BlockThread* const self = block.current;
  if (!self || !running_here())
    fatal(request.file, request.line, "%s outside of a kernel", request.name);
  ++counts.collectives;
  block.idle_yields = 0;
  check_mask(request, *self);
  const int w = self->warp(), lane = self->lane();
  const unsigned others = request.mask & ~(1u << lane);
  BlockThread* const warp = &block.threads[w * 32];
  WarpRequest* lanes[32];
  bool complete = (block.waiting[w] & others) == others;
  // A lane that waits in another operation, or with another mask, has not reached this one yet.
  for (unsigned m = complete ? others : 0; m; m &= m - 1) {
    const int other = std::countr_zero(m);
    WarpRequest* const theirs = warp[other].request;
    complete = complete && theirs->execute == request.execute && theirs->mask == request.mask;
    lanes[other] = theirs;
  }
  if (!complete) {
    self->file = request.file;
    self->line = request.line;
    self->request = &request;
    block.waiting[w] |= 1u << lane;
    block_here();
    return;
  }
  lanes[lane] = &request;
  request.execute(lanes, request.mask);
  block.waiting[w] &= ~others;
  block.set_ready(w, others);
  if (orders_memory) race_warp_barrier(w);
}

void thread_fence() { race_fence(); }

unsigned thread_rank() { return static_cast<unsigned>(block.current->rank); }
unsigned live_lanes() {
  const int w = block.current->warp();
  return block.exists[w] & ~block.returned[w];
}

}  // namespace emulator
