#include "ferrite/parallel/launcher/node_messages.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "ferrite/core/checked_json.h"
#include "ferrite/core/error.h"

namespace ferrite::launcher {
namespace {

using nlohmann::json;

/// Output of programs need not be UTF-8.
std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// Members that are no whole numbers.
bool is_duration(const std::string& key) { return key == "at" || key == "after" || key == "wait"; }

bool fits_int(const json& number) {
  return number.is_number_unsigned()
             ? std::in_range<int>(number.get<std::uint64_t>())
             : number.is_number_integer() && std::in_range<int>(number.get<std::int64_t>());
}

/// json::get() converts any number into an int: 2e56 would be undefined, 2^32 + 1 would be 1.
json parse(const std::string& text) {
  const auto nest = [](int) {};
  const auto number = [](const std::string& key, const json& value) {
    FERRITE_CHECK(is_duration(key) || fits_int(value), DistributedError, "ferrite-run",
                  "another agent says {} in '{}': expected an integer of 32 bits", value.dump(),
                  key.substr(0, 100));
  };
  return ferrite::detail::checked_json(text, nest, number);
}

template <class T>
T read(const std::string& text) {
  try {
    return parse(text).get<T>();
  } catch (const json::exception& error) {
    fail<DistributedError>("ferrite-run", "another agent says what cannot be read ({}): {}",
                           error.what(), text.substr(0, 200));
  }
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankReport, rank, local_rank, node, host, pid, code, what, at,
                                   after, tail, note, final)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeEntry, host, workers, next, restarts_used)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Plan, number, restarts_used, max_restarts, first_ranks,
                                   world_size, master_addr, master_port)

static void to_json(json& out, const Verdict& v) {
  out = {{"kind", static_cast<int>(v.kind)},
         {"first", v.first ? json(*v.first) : json()},
         {"wait", v.wait},
         {"restarts_used", v.restarts_used},
         {"code", v.code}};
}
static void from_json(const json& in, Verdict& v) {
  const int kind = in.at("kind").get<int>();
  FERRITE_CHECK(kind >= 0 && kind <= static_cast<int>(Verdict::Kind::stop), DistributedError,
                "ferrite-run", "another agent gives a verdict of kind {}: expected 0 to {}", kind,
                static_cast<int>(Verdict::Kind::stop));
  v.kind = static_cast<Verdict::Kind>(kind);
  if (!in.at("first").is_null()) v.first = in.at("first").get<RankReport>();
  in.at("wait").get_to(v.wait);
  in.at("restarts_used").get_to(v.restarts_used);
  in.at("code").get_to(v.code);
}

std::string to_json(const NodeEntry& entry) { return dump(entry); }
std::string to_json(const Plan& plan) { return dump(plan); }
std::string to_json(const RankReport& report) { return dump(report); }
std::string to_json(const Verdict& verdict) { return dump(verdict); }

NodeEntry node_entry_of(const std::string& text) { return read<NodeEntry>(text); }
Plan plan_of(const std::string& text) { return read<Plan>(text); }
RankReport report_of(const std::string& text) { return read<RankReport>(text); }
Verdict verdict_of(const std::string& text) { return read<Verdict>(text); }

}  // namespace ferrite::launcher
