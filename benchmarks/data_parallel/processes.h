// One single-threaded process that trains on a batch, against two that share it with
// DistributedDataParallel.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ferrite/benchmarks/data_parallel/measure.h"

namespace ferrite::bench {

/// Starts this program twice with `arguments`, as ranks of a job; returns rank 0's measurements:
/// "base" and "parallel" in images per second, "ratio", "spread".
nlohmann::json run_processes(const Options& o, const std::vector<std::string>& arguments);

/// A rank.
void run_process(const Options& o);

}  // namespace ferrite::bench
