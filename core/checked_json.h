// JSON from outside, checked while it is read. Not by the parser's callback, for which nlohmann's
// library looks through an object after each object in it: time quadratic in their number.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace ferrite::detail {

/// Calls `nest(depth)` for each object and array, the outermost of depth 1, and `number(key,
/// value)` for each number, with the key read last. What they throw ends the reading.
template <class Nest, class Number>
class JsonChecks final : public nlohmann::json_sax<nlohmann::json> {
  using json = nlohmann::json;

 public:
  JsonChecks(Nest nest, Number number) : nest_(std::move(nest)), number_(std::move(number)) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool number_integer(number_integer_t v) override { return see(v); }
  bool number_unsigned(number_unsigned_t v) override { return see(v); }
  bool number_float(number_float_t v, const string_t&) override { return see(v); }
  bool start_object(std::size_t) override { return begin(); }
  bool start_array(std::size_t) override { return begin(); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(string_t& name) override {
    key_ = name;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }

 private:
  bool see(const json& value) {
    number_(key_, value);
    return true;
  }
  bool begin() {
    nest_(++depth_);
    return true;
  }
  bool end() {
    --depth_;
    return true;
  }

  Nest nest_;
  Number number_;
  std::string key_;
  int depth_ = 0;
};

/// The text as JSON, after the checks. A json::exception if it is none.
template <class Nest, class Number>
nlohmann::json checked_json(std::string_view text, Nest nest, Number number) {
  JsonChecks<Nest, Number> checks(std::move(nest), std::move(number));
  nlohmann::json::sax_parse(text, &checks);
  return nlohmann::json::parse(text);
}

}  // namespace ferrite::detail
