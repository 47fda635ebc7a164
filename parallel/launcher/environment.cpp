#include "ferrite/parallel/launcher/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

namespace ferrite::launcher {

std::vector<std::string> worker_environment(const Options& options, const Round& round,
                                            int local_rank) {
  std::map<std::string, std::string> set;
  const auto put = [&](const char* name, const auto& value) {
    set[name] = fmt::format("{}", value);
  };
  const int rank = round.first_rank + local_rank;
  put("RANK", rank);
  put("LOCAL_RANK", local_rank);
  put("WORLD_SIZE", round.world_size);
  put("LOCAL_WORLD_SIZE", options.nproc_per_node);
  put("GROUP_RANK", round.node);
  put("NODE_RANK", round.node);
  put("GROUP_WORLD_SIZE", round.nnodes);
  put("ROLE_RANK", rank);
  put("ROLE_WORLD_SIZE", round.world_size);
  put("ROLE_NAME", "default");
  put("MASTER_ADDR", round.master_addr);
  put("MASTER_PORT", round.master_port);
  put("TORCHELASTIC_RESTART_COUNT", round.number);
  put("TORCHELASTIC_MAX_RESTARTS", options.max_restarts);
  put("TORCHELASTIC_RUN_ID", options.run_id);
  // Nothing listens on MASTER_PORT: a torch program serves its store there itself.
  put("TORCHELASTIC_USE_AGENT_STORE", "False");
  put("FERRITE_RESTART_COUNT", round.number);
  put("FERRITE_MAX_RESTARTS", options.max_restarts);
  put("FERRITE_RUN_ID", options.run_id);
  put("FERRITE_TOKEN", round.token);
  if (!round.store.empty()) put("FERRITE_STORE", round.store);
  if (options.nproc_per_node > 1 && !std::getenv("OMP_NUM_THREADS")) {
    put("OMP_NUM_THREADS", 1);
    if (!std::getenv("FERRITE_NUM_THREADS")) put("FERRITE_NUM_THREADS", 1);
  }

  std::vector<std::string> out;
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view text = *variable;
    // PET_...: options of this launcher, which a nested launcher must not use.
    if (!set.contains(std::string(text.substr(0, text.find('=')))) && !text.starts_with("PET_"))
      out.emplace_back(text);
  }
  for (const auto& [name, value] : set) out.push_back(name + "=" + value);
  return out;
}

}  // namespace ferrite::launcher
