#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ferrite/core/error.h"
#include "ferrite/core/signals.h"
#include "ferrite/examples/compare_parallel/planning/profile.h"

namespace ferrite::planning {

namespace {

using Json = nlohmann::ordered_json;
/// What is read: an ordered object finds its members one by one.
using Read = nlohmann::json;

constexpr const char* kReadOp = "read_profile";

Json json_of(const Duration& time) { return {{"median", time.median}, {"spread", time.spread}}; }

/// For errors: a number as it is; not what may be long, or nested as deep as the stack.
std::string shown(const Read& value) {
  return value.is_number() ? value.dump() : value.type_name();
}

/// The members of an object, each of which must be asked for.
class Reader {
 public:
  Reader(const Read& object, std::string where) : object_(object), where_(std::move(where)) {
    FERRITE_CHECK(object.is_object(), IoError, kReadOp, "expected an object for {}, got {}", where_,
                  object.type_name());
  }

  void read(const char* name, std::string& value) {
    if (const Read* member = find(name)) {
      FERRITE_CHECK(member->is_string(), IoError, kReadOp, "expected a string for {} of {}, got {}",
                    name, where_, shown(*member));
      value = member->get<std::string>();
    }
  }
  void read(const char* name, std::int64_t& value) {
    if (const Read* member = find(name)) {
      FERRITE_CHECK(member->is_number_integer(), IoError, kReadOp,
                    "expected an integer for {} of {}, got {}", name, where_, shown(*member));
      value = member->get<std::int64_t>();
    }
  }
  void read(const char* name, double& value) {
    if (const Read* member = find(name)) {
      FERRITE_CHECK(member->is_number(), IoError, kReadOp, "expected a number for {} of {}, got {}",
                    name, where_, shown(*member));
      value = member->get<double>();
    }
  }
  void read(const char* name, Duration& value) {
    if (const Read* member = find(name)) {
      Reader reader(*member, fmt::format("{} of {}", name, where_));
      reader.read("median", value.median);
      reader.read("spread", value.spread);
      reader.finish();
    }
  }
  const Read* find(const char* name) {
    const auto found = object_.find(name);
    if (found == object_.end()) return nullptr;
    ++asked_;
    names_ += fmt::format(" {}", name);
    return &*found;
  }
  void finish() const {
    if (asked_ == object_.size()) return;
    for (const auto& [name, value] : object_.items())
      FERRITE_CHECK((names_ + " ").find(" " + name + " ") != std::string::npos, IoError, kReadOp,
                    "{} has '{}', which is not known", where_, name);
  }

 private:
  const Read& object_;
  const std::string where_;
  std::size_t asked_ = 0;
  std::string names_;
};

}  // namespace

std::string to_json(const ModelProfile& profile) {
  Json parameters = Json::array();
  for (const auto& parameter : profile.parameters)
    parameters.push_back({{"name", parameter.name},
                          {"bytes", parameter.bytes},
                          {"backward", json_of(parameter.backward)}});
  const Json json = {{"model", profile.model},
                     {"dtype", profile.dtype},
                     {"device", profile.device},
                     {"batch", profile.batch},
                     {"input_bytes", profile.input_bytes},
                     {"output_bytes", profile.output_bytes},
                     {"buffer_bytes", profile.buffer_bytes},
                     {"forward", json_of(profile.forward)},
                     {"parameters", parameters},
                     {"backward_tail", json_of(profile.backward_tail)},
                     {"optimizer", json_of(profile.optimizer)},
                     {"other", json_of(profile.other)},
                     {"step", json_of(profile.step)}};
  return json.dump(2) + "\n";
}

ModelProfile profile_from_json(std::string_view text) {
  Read json;
  try {
    json = Read::parse(text);
  } catch (const Read::exception& error) {
    fail<IoError>(kReadOp, "not valid JSON: {}", error.what());
  }
  ModelProfile profile;
  Reader reader(json, "the profile");
  reader.read("model", profile.model);
  reader.read("dtype", profile.dtype);
  reader.read("device", profile.device);
  reader.read("batch", profile.batch);
  reader.read("input_bytes", profile.input_bytes);
  reader.read("output_bytes", profile.output_bytes);
  reader.read("buffer_bytes", profile.buffer_bytes);
  reader.read("forward", profile.forward);
  reader.read("backward_tail", profile.backward_tail);
  reader.read("optimizer", profile.optimizer);
  reader.read("other", profile.other);
  reader.read("step", profile.step);
  if (const Read* parameters = reader.find("parameters")) {
    FERRITE_CHECK(parameters->is_array(), IoError, kReadOp, "expected a list of parameters, got {}",
                  parameters->type_name());
    for (const Read& item : *parameters) {
      auto& parameter = profile.parameters.emplace_back();
      Reader each(item, fmt::format("parameter {}", profile.parameters.size() - 1));
      each.read("name", parameter.name);
      each.read("bytes", parameter.bytes);
      each.read("backward", parameter.backward);
      each.finish();
    }
  }
  reader.finish();
  profile.check();
  return profile;
}

ModelProfile read_profile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  FERRITE_CHECK(file, IoError, kReadOp, "cannot open {}", path.string());
  std::ostringstream text;
  text << file.rdbuf();
  FERRITE_CHECK(file, IoError, kReadOp, "cannot read {}", path.string());
  return profile_from_json(text.str());
}

void write_profile(const std::filesystem::path& path, const ModelProfile& profile) {
  ignore_unless_handled(SIGXFSZ);
  std::ofstream file(path, std::ios::binary);
  file << to_json(profile);
  file.close();
  FERRITE_CHECK(file, IoError, "write_profile", "cannot write {}", path.string());
}

}  // namespace ferrite::planning
