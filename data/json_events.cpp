#include "ferrite/data/json_events.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ferrite::data {

/// The handler that nlohmann's parser calls.
struct JsonEvents::Sax {
  using Kind = JsonValue::Kind;
  using Number = nlohmann::json;

  JsonEvents& events;

  bool null() { return value({.kind = Kind::other}); }
  bool boolean(bool) { return value({.kind = Kind::other}); }
  bool number_integer(Number::number_integer_t) { return value({.kind = Kind::other}); }
  bool number_unsigned(Number::number_unsigned_t count) {
    return value({.kind = Kind::count, .count = count});
  }
  bool number_float(Number::number_float_t, const std::string&) {
    return value({.kind = Kind::other});
  }
  bool string(std::string& text) { return value({.kind = Kind::text, .text = &text}); }
  bool binary(Number::binary_t&) { return value({.kind = Kind::other}); }
  bool start_object(std::size_t) { return open({.kind = Kind::object}); }
  bool start_array(std::size_t) { return open({.kind = Kind::list}); }
  bool key(std::string& name) {
    events.names_[events.depth_ - 1].push_back(std::move(name));
    return true;
  }
  bool end_object() {
    std::vector<std::string>& names = events.names_[events.depth_ - 1];
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice != names.end())
      events.check(false, "expected each name once in the {}, got '{}' twice", events.what_,
                   *twice);
    return end_array();
  }
  bool end_array() {
    --events.depth_;
    events.end();
    return true;
  }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::json::exception& error) {
    constexpr std::size_t kMostText = 300;  // the message quotes the last word, which may be long
    events.where_.fail(events.offset_ + at, "the {} is not valid JSON: {}", events.what_,
                       std::string_view(error.what()).substr(0, kMostText));
  }

 private:
  bool value(const JsonValue& value) {
    events.value(value);
    return true;
  }
  bool open(const JsonValue& value) {
    events.check(events.depth_ < kMaxDepth, "the {} is nested deeper than it should be",
                 events.what_);
    events.value(value);
    events.names_[events.depth_++].clear();
    return true;
  }
};

void JsonEvents::read(std::string_view text) {
  Sax sax{*this};
  nlohmann::json::sax_parse(text.begin(), text.end(), &sax);
}

std::string json_text(std::string_view text) { return nlohmann::json(text).dump(); }

}  // namespace ferrite::data
