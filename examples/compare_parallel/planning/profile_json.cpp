#include <nlohmann/json.hpp>

#include "ferrite/core/error.h"
#include "ferrite/examples/compare_parallel/planning/profile.h"

namespace ferrite::planning {

namespace {

using Json = nlohmann::ordered_json;
/// What is read: an ordered object finds its members one by one.
using Read = nlohmann::json;

constexpr const char* kReadOp = "read_profile";

/// The members of a profile in the order in which they are written; also of a const one.
template <class Profile, class F>
void for_each_member(Profile& profile, const F& f) {
  f("model", profile.model);
  f("dtype", profile.dtype);
  f("device", profile.device);
  f("batch", profile.batch);
  f("input_bytes", profile.input_bytes);
  f("output_bytes", profile.output_bytes);
  f("buffer_bytes", profile.buffer_bytes);
  f("forward", profile.forward);
  f("parameters", profile.parameters);
  f("backward_tail", profile.backward_tail);
  f("optimizer", profile.optimizer);
  f("other", profile.other);
  f("step", profile.step);
}

template <class T>
Json json_of(const T& value) {
  return value;
}
Json json_of(const Duration& time) { return {{"median", time.median}, {"spread", time.spread}}; }
Json json_of(const std::vector<ModelProfile::Parameter>& parameters) {
  Json list = Json::array();
  for (const auto& parameter : parameters)
    list.push_back({{"name", parameter.name},
                    {"bytes", parameter.bytes},
                    {"backward", json_of(parameter.backward)}});
  return list;
}

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
  void read(const char* name, std::vector<ModelProfile::Parameter>& parameters) {
    if (const Read* member = find(name)) {
      FERRITE_CHECK(member->is_array(), IoError, kReadOp, "expected a list of {}, got {}", name,
                    member->type_name());
      for (const Read& item : *member) {
        auto& parameter = parameters.emplace_back();
        Reader each(item, fmt::format("parameter {}", parameters.size() - 1));
        each.read("name", parameter.name);
        each.read("bytes", parameter.bytes);
        each.read("backward", parameter.backward);
        each.finish();
      }
    }
  }
  void finish() const {
    if (asked_ == object_.size()) return;
    for (const auto& [name, value] : object_.items())
      FERRITE_CHECK((names_ + " ").find(" " + name + " ") != std::string::npos, IoError, kReadOp,
                    "{} has '{}', which is not known", where_, name);
  }

 private:
  const Read* find(const char* name) {
    const auto found = object_.find(name);
    if (found == object_.end()) return nullptr;
    ++asked_;
    names_ += fmt::format(" {}", name);
    return &*found;
  }

  const Read& object_;
  const std::string where_;
  std::size_t asked_ = 0;
  std::string names_;
};

}  // namespace

std::string to_json(const ModelProfile& profile) {
  Json json;
  for_each_member(profile,
                  [&](const char* name, const auto& value) { json[name] = json_of(value); });
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
  for_each_member(profile, [&](const char* name, auto& value) { reader.read(name, value); });
  reader.finish();
  profile.check();
  return profile;
}

}  // namespace ferrite::planning
