#include "ferrite/examples/common/profiling.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "ferrite/examples/common/folder.h"
#include "ferrite/parallel/comm/process_group.h"

namespace examples {

namespace profiler = ferrite::profiler;

namespace {

std::string of_rank(const std::string& file, int rank) {
  const std::filesystem::path path(file);
  return path.parent_path() /
         fmt::format("{}.rank{}{}", path.stem().string(), rank, path.extension().string());
}

}  // namespace

std::unique_ptr<profiler::Profile> make_profile(const std::string& file,
                                                const ferrite::nn::Module& model) {
  if (file.empty()) return nullptr;
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  make_writable_folder(folder.empty() ? "." : folder, "--profile");
  const int rank = ferrite::parallel::get_rank();
  const std::string own = ferrite::parallel::get_world_size() > 1 ? of_rank(file, rank) : file;
  profiler::ProfileOptions options;
  options.memory = options.shapes = options.modules = true;
  options.schedule = profiler::Schedule{.wait = 8, .warmup = 2, .active = 5, .repeat = 1};
  options.rank = rank;
  options.on_trace_ready = [own, rank](profiler::Profile& profile) {
    if (rank == 0) fmt::print("\n{}", profile.table({.row_limit = 25}));
    profile.write_trace(own);
    if (rank == 0)
      fmt::print("trace written to {}; open it in ui.perfetto.dev or chrome://tracing\n\n", own);
  };
  auto profile = std::make_unique<profiler::Profile>(std::move(options));
  profile->name_modules(model);
  return profile;
}

}  // namespace examples
