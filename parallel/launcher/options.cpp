#include "ferrite/parallel/launcher/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "ferrite/core/cuda.h"
#include "ferrite/core/error.h"
#include "ferrite/core/terminal.h"
#include "ferrite/parallel/launcher/host.h"

namespace ferrite::launcher {
namespace {

template <class T>
T number(std::string_view option, std::string_view text, T low, T high, std::string_view what) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  FERRITE_CHECK(
      error == std::errc() && end == text.data() + text.size() && value >= low && value <= high,
      ValueError, kOp, "{} expects {}, got '{}'", option, what, text);
  return value;
}

int whole(std::string_view option, std::string_view text, int low) {
  return number<int>(option, text, low, 1'000'000,
                     fmt::format("a whole number of {} or more", low));
}

int port(std::string_view option, std::string_view text) {
  return number<int>(option, text, 0, 65535, "a port from 0 (any that is free) to 65535");
}

double seconds(std::string_view option, std::string_view text, double low) {
  // A year: larger values are mistakes, and overflow the clocks.
  return number<double>(option, text, low, 3.2e7, fmt::format("seconds, {} or more", low));
}

Streams streams(std::string_view option, std::string_view text) {
  return static_cast<Streams>(number<int>(
      option, text, 0, 3, "0 (none), 1 (stdout), 2 (stderr), 3 (both) or RANK:N,RANK:N"));
}

int processes(std::string_view option, std::string_view text) {
  if (text == "cpu") return usable_processors();
  const int gpus = text == "gpu" || text == "auto" ? cuda::device_count() : 0;
  if (text == "auto") return gpus > 0 ? gpus : usable_processors();
  if (text == "gpu") {
    FERRITE_CHECK(gpus > 0, ValueError, kOp, "{}=gpu, but there is no GPU: {}", option,
                  cuda::why_unavailable());
    return gpus;
  }
  return number<int>(option, text, 1, 65536, "a whole number of 1 or more, cpu, gpu or auto");
}

int nodes(std::string_view option, std::string_view text) {
  const auto range = terminal::text_split(text, ':');
  FERRITE_CHECK(
      range.size() == 1 || (range.size() == 2 && range[0] == range[1]), ValueError, kOp,
      "{} expects the number of nodes, got '{}': the number of nodes cannot change during a job",
      option, text);
  return whole(option, range[0], 1);
}

/// An option given on the command line, or in the environment.
struct Given {
  std::string_view option, text;
};

struct Option {
  const char* name;
  const char* value;  ///< placeholder of its value in the help; "" for a flag
  const char* help;
  void (*set)(Options&, Given);
  const char* topic = "";  ///< heading in the help of the options from here on
};

std::vector<int> ranks(Given g) {
  std::vector<int> out;
  for (const std::string_view rank : terminal::text_split(g.text, ','))
    out.push_back(whole(g.option, rank, 0));
  return out;
}

void check_backend(Given g) {
  FERRITE_CHECK(g.text == "c10d" || g.text == "static", ValueError, kOp,
                "{} expects c10d or static, got '{}'", g.option, g.text);
}

// clang-format off
constexpr Option kOptions[] = {
    {"--nproc-per-node", "N", "number of workers on this node, or cpu, gpu or auto (default 1)",
     [](Options& o, Given g) { o.nproc_per_node = processes(g.option, g.text); }, "Workers and nodes"},
    {"--nnodes", "N", "number of nodes of the job (default 1)",
     [](Options& o, Given g) { o.nnodes = nodes(g.option, g.text); }},
    {"--node-rank", "R", "rank of this node, from 0",
     [](Options& o, Given g) { o.node_rank = whole(g.option, g.text, 0); }},
    {"--master-addr", "HOST", "address of node 0 (default 127.0.0.1 for one node)",
     [](Options& o, Given g) { o.master_addr = g.text; }},
    {"--master-port", "PORT",
     "port of node 0's agent (default any free port for one node, otherwise 29500)",
     [](Options& o, Given g) { o.master_port = port(g.option, g.text); }},
    {"--standalone", "", "run on one node, on any free port",
     [](Options& o, Given) { o.standalone = true; }},
    {"--rdzv-endpoint", "HOST[:PORT]",
     "the same as --master-addr and --master-port; without --node-rank, the agent that can listen there "
     "is node 0, and the others are numbered in the order of their arrival",
     [](Options& o, Given g) { o.rdzv_endpoint = g.text; }},
    {"--rdzv-backend", "NAME", "c10d or static, accepted for compatibility with torchrun; both do the same",
     [](Options&, Given g) { check_backend(g); }},
    {"--rdzv-id", "TEXT", "name of the job, the same on all nodes (default none)",
     [](Options& o, Given g) { o.run_id = g.text; }},
    {"--rdzv-timeout", "S", "seconds to wait for all nodes (default 600)",
     [](Options& o, Given g) { o.rdzv_timeout = seconds(g.option, g.text, 0.1); }},
    {"--max-restarts", "K", "maximum number of restarts of the workers after failures (default 0)",
     [](Options& o, Given g) { o.max_restarts = whole(g.option, g.text, 0); }, "Failures"},
    {"--restart-backoff", "S",
     "seconds to wait before the first restart, doubled with each restart (default 1)",
     [](Options& o, Given g) { o.restart_backoff = seconds(g.option, g.text, 0); }},
    {"--restart-backoff-max", "S", "longest wait before a restart, in seconds (default 60)",
     [](Options& o, Given g) { o.restart_backoff_max = seconds(g.option, g.text, 0); }},
    {"--restart-reset", "S",
     "after workers ran for this many seconds, all restarts are available again (default 3600)",
     [](Options& o, Given g) { o.restart_reset = seconds(g.option, g.text, 0); }},
    {"--heartbeat-timeout", "S",
     "ranks of process groups, and nodes, that are silent for more seconds count as hung (default 60; "
     "0: never)",
     [](Options& o, Given g) { o.heartbeat_timeout = seconds(g.option, g.text, 0); }},
    {"--monitor-interval", "S", "seconds between checks of heartbeats and of other nodes (default 0.1)",
     [](Options& o, Given g) { o.monitor_interval = seconds(g.option, g.text, 0.001); }},
    {"--grace-period", "S", "seconds between a signal to the workers and killing them (default 30)",
     [](Options& o, Given g) { o.grace_period = seconds(g.option, g.text, 0); }},
    {"--log-dir", "DIR", "save the workers' output as DIR/restart_<k>/rank_<r>.out and .err",
     [](Options& o, Given g) { o.log_dir = g.text; }, "Output of the workers"},
    {"--tee", "N",
     "or -t: streams that go to the console and to files: 0 (none), 1 (stdout), 2 (stderr), 3 (both), "
     "or by local rank as 0:3,1:2 (default with --log-dir: 3)",
     [](Options& o, Given g) { o.tee = StreamChoice::parse(g.option, g.text); }},
    {"--redirects", "N", "or -r: streams that go only to files, with the values of --tee (default 0)",
     [](Options& o, Given g) { o.redirects = StreamChoice::parse(g.option, g.text); }},
    {"--local-ranks-filter", "R,R", "local ranks that the console shows (default all)",
     [](Options& o, Given g) { o.local_ranks_filter = ranks(g); }},
    {"--no-prefix", "", "do not prefix lines on the console with '[rank 0] '",
     [](Options& o, Given) { o.prefix = false; }},
    {"--no-python", "", "accepted for compatibility with torchrun; programs are always started directly",
     [](Options&, Given) {}, "Other options"},
    {"--help", "", "print this help", [](Options& o, Given) { o.help = true; }},
    {"--version", "", "print the version of Ferrite", [](Options& o, Given) { o.version = true; }},
};
// clang-format on

const Option& find(std::string_view given) {
  std::string name(given);
  std::replace(name.begin(), name.end(), '_', '-');
  if (name == "-t") name = "--tee";
  if (name == "-r") name = "--redirects";
  if (name == "-h") name = "--help";
  for (const Option& option : kOptions)
    if (name == option.name) return option;
  fail<ValueError>(
      kOp,
      "there is no option {} (ferrite-run --help lists them; the program's own options "
      "come after its name)",
      given);
}

/// torchrun's PET_NNODES and the like, for options that are not `given`: others may have values
/// there that mean nothing here.
void from_environment(Options& options, const std::vector<const Option*>& given) {
  for (const Option& option : kOptions) {
    if (std::ranges::find(given, &option) != given.end()) continue;
    std::string name = "PET";
    for (const char* c = option.name + 1; *c; ++c)
      name += *c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(*c)));
    const char* text = std::getenv(name.c_str());
    const std::string_view option_name = option.name;
    if (!text || option_name == "--help" || option_name == "--version") continue;
    if (*option.value || (*text && std::string_view(text) != "0"))
      option.set(options, {name, text});
  }
}

void check(const Options& o) {
  FERRITE_CHECK(!o.command.empty(), ValueError, kOp,
                "expected a program to start: ferrite-run [OPTIONS] program [its arguments]");
  FERRITE_CHECK(!o.standalone || o.nnodes == 1, ValueError, kOp,
                "--standalone is for one node, but --nnodes={}", o.nnodes);
  FERRITE_CHECK(!o.standalone || o.rdzv_endpoint.empty(), ValueError, kOp,
                "--standalone and --rdzv-endpoint exclude each other");
  FERRITE_CHECK(o.rdzv_endpoint.empty() || (o.master_addr.empty() && !o.master_port), ValueError,
                kOp, "--rdzv-endpoint and --master-addr or --master-port exclude each other");
  FERRITE_CHECK(o.node() < o.nnodes, ValueError, kOp,
                "--node-rank={} with --nnodes={}: nodes are numbered from 0", o.node(), o.nnodes);
  FERRITE_CHECK(o.nnodes == 1 || o.node_rank || !o.rdzv_endpoint.empty(), ValueError, kOp,
                "--nnodes={} needs --node-rank, this node's number from 0, or --rdzv-endpoint",
                o.nnodes);
  FERRITE_CHECK(o.nnodes == 1 || !o.master_addr.empty() || !o.rdzv_endpoint.empty(), ValueError,
                kOp, "--nnodes={} needs --master-addr, where node 0 is, or --rdzv-endpoint",
                o.nnodes);
  FERRITE_CHECK(o.nnodes == 1 || o.master_port != 0, ValueError, kOp,
                "--nnodes={} needs a --master-port that other nodes know, not 0", o.nnodes);
  FERRITE_CHECK(o.nnodes == 1 || !o.rdzv_endpoint.ends_with(":0"), ValueError, kOp,
                "--nnodes={} needs an --rdzv-endpoint with a port that other nodes know, not 0",
                o.nnodes);
  FERRITE_CHECK(o.restart_backoff <= o.restart_backoff_max, ValueError, kOp,
                "--restart-backoff={} is above --restart-backoff-max={}", o.restart_backoff,
                o.restart_backoff_max);
}

}  // namespace

StreamChoice StreamChoice::parse(std::string_view option, std::string_view text) {
  StreamChoice choice;
  if (text.find(':') == std::string_view::npos) {
    choice.everywhere_ = streams(option, text);
    return choice;
  }
  for (const std::string_view part : terminal::text_split(text, ',')) {
    const auto pair = terminal::text_split(part, ':');
    FERRITE_CHECK(pair.size() == 2, ValueError, kOp, "{} expects RANK:N,RANK:N, got '{}'", option,
                  text);
    choice.by_rank_.emplace_back(whole(option, pair[0], 0), streams(option, pair[1]));
  }
  return choice;
}

StreamChoice StreamChoice::all(Streams streams) {
  StreamChoice choice;
  choice.everywhere_ = streams;
  return choice;
}

Streams StreamChoice::of(int local_rank) const {
  for (const auto& [rank, streams] : by_rank_)
    if (rank == local_rank) return streams;
  return everywhere_;
}

bool StreamChoice::any() const {
  return everywhere_ != Streams::none ||
         std::ranges::any_of(by_rank_, [](const auto& r) { return r.second != Streams::none; });
}

Endpoint parse_endpoint(std::string_view option, std::string_view text) {
  Endpoint endpoint;
  std::string_view rest;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    FERRITE_CHECK(end != std::string_view::npos, ValueError, kOp,
                  "{} expects HOST or HOST:PORT, got '{}'", option, text);
    endpoint.host = text.substr(1, end - 1);
    rest = text.substr(end + 1);
  } else {
    const std::size_t colon = text.find(':');
    endpoint.host = text.substr(0, colon);
    if (colon != std::string_view::npos) rest = text.substr(colon);
  }
  FERRITE_CHECK(!endpoint.host.empty() && (rest.empty() || rest.starts_with(':')), ValueError, kOp,
                "{} expects HOST or HOST:PORT, got '{}'", option, text);
  if (!rest.empty()) endpoint.port = port(option, rest.substr(1));
  return endpoint;
}

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  std::vector<const Option*> given;
  std::size_t i = 0;
  for (; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      ++i;
      break;
    }
    if (argument.size() < 2 || argument[0] != '-') break;
    const std::size_t equals = argument.starts_with("--") ? argument.find('=') : std::string::npos;
    const std::string name = argument.substr(0, equals);
    // "-t3" is the same as "-t 3".
    const bool glued = !argument.starts_with("--") && argument.size() > 2;
    const Option& option = find(glued ? std::string_view(argument).substr(0, 2) : name);
    given.push_back(&option);
    if (!*option.value) {
      FERRITE_CHECK(equals == std::string::npos && !glued, ValueError, kOp,
                    "{} takes no value, got '{}'", option.name, argument);
      option.set(options, {option.name, ""});
      if (options.help || options.version) return options;
      continue;
    }
    std::string value;
    if (glued) {
      value = argument.substr(2);
    } else if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else {
      FERRITE_CHECK(i + 1 < arguments.size(), ValueError, kOp, "{} expects a value ({})",
                    option.name, option.help);
      value = arguments[++i];
    }
    FERRITE_CHECK(!value.empty(), ValueError, kOp, "{} expects a value, got an empty one",
                  option.name);
    option.set(options, {option.name, value});
  }
  from_environment(options, given);
  options.command.assign(arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
  if (!options.rdzv_endpoint.empty()) parse_endpoint("--rdzv-endpoint", options.rdzv_endpoint);
  check(options);
  return options;
}

std::string help_text() {
  terminal::Help help(
      "ferrite-run [OPTIONS] program [its arguments]",
      "Starts one process of the program per worker, with RANK, LOCAL_RANK, WORLD_SIZE, "
      "MASTER_ADDR "
      "and similar variables in its environment, watches the workers, and restarts them if one "
      "fails. "
      "Options may be written with - or _, and take their values as --name=VALUE or --name VALUE.");
  for (const Option& option : kOptions) {
    if (*option.topic) help.topic(option.topic);
    const std::string name = option.name == std::string_view("--help") ? "-h, --help" : option.name;
    help.option(*option.value ? name + " " + option.value : name, option.help);
  }
  help.add(
      "Examples:\n"
      "  ferrite-run --standalone --nproc-per-node=2 train --epochs 3\n"
      "  ferrite-run --standalone --nproc-per-node=gpu --max-restarts=3 --log-dir=logs train\n"
      "  ferrite-run --nnodes=2 --nproc-per-node=8 --rdzv-endpoint=10.1.1.5:29500 train    # on "
      "both nodes");
  help.add(
      "The exit status is 0 if all workers exit with 0, otherwise the status of the first worker "
      "that "
      "failed, or 128 + N if signal N ended it. See docs/launcher.md for more.");
  return help.str();
}

}  // namespace ferrite::launcher
