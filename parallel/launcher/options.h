// ferrite-run's command line: torchrun's options, plus Ferrite's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ferrite::launcher {

/// The tag of error messages.
inline constexpr const char* kOp = "ferrite-run";

/// Streams of a worker, as torchrun counts them in --tee and --redirects.
enum class Streams : std::uint8_t { none = 0, out = 1, err = 2, both = 3 };
inline bool has(Streams set, Streams one) {
  return (static_cast<int>(set) & static_cast<int>(one)) != 0;
}

/// "3", or by local rank "0:1,1:2": unnamed ranks have none.
class StreamChoice {
 public:
  StreamChoice() = default;
  /// ValueError, naming `option`.
  static StreamChoice parse(std::string_view option, std::string_view text);
  static StreamChoice all(Streams streams);

  Streams of(int local_rank) const;
  /// Whether any rank has any stream.
  bool any() const;

 private:
  Streams everywhere_ = Streams::none;
  std::vector<std::pair<int, Streams>> by_rank_;
};

/// Times are in seconds.
struct Options {
  int nproc_per_node = 1;
  int nnodes = 1;
  std::optional<int> node_rank = {};
  std::string master_addr;  ///< empty: not given
  std::optional<int> master_port = {};
  bool standalone = false;
  std::string rdzv_endpoint;  ///< host or host:port; empty: not given
  std::string run_id = "none";
  double rdzv_timeout = 600;  ///< maximum wait for all nodes

  int max_restarts = 0;
  double restart_backoff = 1, restart_backoff_max = 60;
  double restart_reset = 3600;    ///< a start that lives this long resets the restart count
  double heartbeat_timeout = 60;  ///< 0: no check
  double monitor_interval = 0.1;
  double grace_period = 30;  ///< from a signal to SIGKILL

  std::string log_dir;
  StreamChoice tee, redirects;
  std::optional<std::vector<int>> local_ranks_filter = {};
  bool prefix = true;

  bool help = false, version = false;
  std::vector<std::string> command;  ///< the program and its arguments

  int node() const { return node_rank.value_or(0); }
};

/// Parses argv without the program's own name; ValueError describes the error. Options that are not
/// given are taken from PET_<OPTION> in the environment, as in torchrun. With --help or --version
/// the rest is ignored.
Options parse_options(const std::vector<std::string>& arguments);
/// The output of --help.
std::string help_text();

/// Host and port of "host", "host:port", "[v6 address]:port"; ValueError names `option`.
struct Endpoint {
  std::string host;
  std::optional<int> port = {};
};
Endpoint parse_endpoint(std::string_view option, std::string_view text);

}  // namespace ferrite::launcher
