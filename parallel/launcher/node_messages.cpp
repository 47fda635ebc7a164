#include "ferrite/parallel/launcher/node_messages.h"

#include <nlohmann/json.hpp>

#include "ferrite/core/error.h"

namespace ferrite::launcher {
namespace {

using nlohmann::json;

/// Output of programs need not be UTF-8.
std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json json_of(const RankReport& r) {
  return {{"rank", r.rank},   {"local_rank", r.local_rank},
          {"node", r.node},   {"host", r.host},
          {"pid", r.pid},     {"code", r.code},
          {"what", r.what},   {"at", r.at},
          {"after", r.after}, {"tail", r.tail},
          {"note", r.note},   {"final", r.final}};
}

RankReport report_from(const json& j) {
  return {.rank = j.at("rank"),
          .local_rank = j.at("local_rank"),
          .node = j.at("node"),
          .host = j.at("host"),
          .pid = j.at("pid"),
          .code = j.at("code"),
          .what = j.at("what"),
          .at = j.at("at"),
          .after = j.at("after"),
          .tail = j.at("tail"),
          .note = j.at("note"),
          .final = j.at("final")};
}

template <class F>
auto read(const std::string& text, F from) {
  try {
    return from(json::parse(text));
  } catch (const json::exception& error) {
    fail<DistributedError>("ferrite-run", "another agent says what cannot be read ({}): {}",
                           error.what(), text.substr(0, 200));
  }
}

}  // namespace

std::string to_json(const NodeEntry& e) {
  return dump({{"host", e.host},
               {"workers", e.workers},
               {"next", e.next},
               {"restarts_used", e.restarts_used}});
}
std::string to_json(const Plan& p) {
  return dump({{"number", p.number},
               {"restarts_used", p.restarts_used},
               {"max_restarts", p.max_restarts},
               {"first_ranks", p.first_ranks},
               {"world_size", p.world_size},
               {"master_addr", p.master_addr},
               {"master_port", p.master_port}});
}
std::string to_json(const RankReport& report) { return dump(json_of(report)); }
std::string to_json(const Verdict& v) {
  return dump({{"kind", static_cast<int>(v.kind)},
               {"first", v.first ? json_of(*v.first) : json()},
               {"wait", v.wait},
               {"restarts_used", v.restarts_used},
               {"code", v.code}});
}

NodeEntry node_entry_of(const std::string& text) {
  return read(text, [](const json& j) {
    return NodeEntry{j.at("host"), j.at("workers"), j.at("next"), j.at("restarts_used")};
  });
}
Plan plan_of(const std::string& text) {
  return read(text, [](const json& j) {
    return Plan{.number = j.at("number"),
                .restarts_used = j.at("restarts_used"),
                .max_restarts = j.at("max_restarts"),
                .first_ranks = j.at("first_ranks"),
                .world_size = j.at("world_size"),
                .master_addr = j.at("master_addr"),
                .master_port = j.at("master_port")};
  });
}
RankReport report_of(const std::string& text) { return read(text, report_from); }
Verdict verdict_of(const std::string& text) {
  return read(text, [](const json& j) {
    Verdict v{.kind = static_cast<Verdict::Kind>(j.at("kind").get<int>()),
              .wait = j.at("wait"),
              .restarts_used = j.at("restarts_used"),
              .code = j.at("code")};
    if (!j.at("first").is_null()) v.first = report_from(j.at("first"));
    return v;
  });
}

}  // namespace ferrite::launcher
