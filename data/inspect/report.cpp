#include "ferrite/data/inspect/report.h"

#include <cmath>
#include <complex>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "ferrite/core/terminal.h"
#include "ferrite/data/inspect/printable.h"
#include "ferrite/data/inspect/statistics.h"

namespace ferrite::inspect {

namespace {

using Json = nlohmann::ordered_json;
using Kind = data::Value::Kind;

Json json_number(double value) {
  if (std::isfinite(value)) return value;
  return fmt::format("{}", value);
}

Json json_shape(const Shape& shape) {
  Json list = Json::array();
  for (const std::int64_t size : shape) list.push_back(size);
  return list;
}

Json json_value(const data::Value& value) {
  switch (value.kind()) {
    case Kind::boolean:
      return value.to_bool();
    case Kind::integer:
      return value.to_int();
    case Kind::real:
      return json_number(value.to_double());
    case Kind::string:
      return value.to_string();
    case Kind::none:
      return nullptr;
    case Kind::list:
    case Kind::tuple: {
      Json list = Json::array();
      for (const data::Value& item : value.items()) list.push_back(json_value(item));
      return list;
    }
    case Kind::dict:
      return Json::object();  // its entries are listed separately
    default:
      return value.str();
  }
}

/// Text that is not UTF-8 is repaired: JSON has no other.
std::string dumped(const Json& json) {
  return printable_json(json.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

std::string number_text(double value) { return fmt::format("{:.6g}", value); }

/// Of the dtypes that have an imaginary part, with it: "1-2j".
std::string sum_text(std::complex<double> sum, DType dtype) {
  return number_text(sum.real()) +
         (is_complex(dtype) ? fmt::format("{:+.6g}j", sum.imag()) : std::string());
}
Json json_sum(std::complex<double> sum, DType dtype) {
  if (!is_complex(dtype)) return json_number(sum.real());
  return Json::array({json_number(sum.real()), json_number(sum.imag())});
}

/// Appends members in time independent of their number: operator[] of an ordered object compares
/// the key with all others. A key that occurs again becomes "key#2", "key#3" and so on, because
/// readers of JSON keep one of several members of a name.
class Members {
 public:
  void add(const std::string& key, Json value) {
    std::string name = key;
    while (!names_.insert(name).second) name = fmt::format("{}#{}", key, 1 + ++again_[key]);
    object_.get_ref<Json::object_t&>().emplace_back(std::move(name), std::move(value));
  }
  Json take() { return std::move(object_); }

 private:
  Json object_ = Json::object();
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, int> again_;  // how often a key has occurred before
};

// ---- Comparison

struct Unequal {
  std::string name;
  Difference difference;
  Shape shape;

  /// The element's indices.
  Shape position() const {
    Shape indices = shape;
    std::int64_t rest = difference.position;
    for (int d = shape.size() - 1; d >= 0; --d) {
      indices[d] = rest % shape[d];
      rest /= shape[d];
    }
    return indices;
  }
};

struct Comparison {
  std::vector<std::string> only_in_first, only_in_second;
  std::vector<std::string> shapes, dtypes, not_compared, foreign;  // names
  std::vector<Unequal> different;
  std::size_t equal = 0;

  bool all_equal() const {
    return only_in_first.empty() && only_in_second.empty() && shapes.empty() && dtypes.empty() &&
           different.empty() && not_compared.empty() && foreign.empty();
  }
  double greatest() const {
    double most = 0;
    for (const Unequal& u : different)
      if (std::isnan(u.difference.greatest) || u.difference.greatest > most)
        most = u.difference.greatest;
    return most;
  }
};

Comparison compare(const Contents& a, const Contents& b) {
  Comparison result;
  ElementBudget budget(a.tensors);
  budget.add(b.tensors);
  for (const auto& [name, x] : a.tensors) {
    const auto found = b.tensors.find(name);
    if (found == b.tensors.end()) {
      (b.foreign.contains(name) ? result.foreign : result.only_in_first).push_back(name);
      continue;
    }
    const Tensor& y = found->second;
    if (x.dtype() != y.dtype()) result.dtypes.push_back(name);
    if (x.shape() != y.shape()) {
      result.shapes.push_back(name);
      continue;
    }
    if (!budget.take(x)) {
      result.not_compared.push_back(name);
      continue;
    }
    const Difference difference = difference_of(x, y);
    if (difference.unequal > 0)
      result.different.push_back({name, difference, x.shape()});
    else
      result.equal += x.dtype() == y.dtype();
  }
  for (const auto& [name, info] : a.foreign)
    (b.foreign.contains(name) || b.tensors.contains(name) ? result.foreign : result.only_in_first)
        .push_back(name);
  for (const auto& [name, y] : b.tensors)
    if (!a.tensors.contains(name) && !a.foreign.contains(name))
      result.only_in_second.push_back(name);
  for (const auto& [name, info] : b.foreign)
    if (!a.tensors.contains(name) && !a.foreign.contains(name))
      result.only_in_second.push_back(name);
  return result;
}

}  // namespace

namespace {

/// Of a table's names. A longer one has a line of its own, above the rest of its row: a single name
/// would otherwise widen all rows.
constexpr std::size_t kMostColumns = 100;

std::string table_of(const Contents& contents) {
  const StateDict& tensors = contents.tensors;
  constexpr auto kLeft = terminal::Align::left;
  terminal::Table table(
      {{"name", kLeft}, {"dtype", kLeft}, {"shape", kLeft}, {"sum", kLeft}, {"norm", kLeft}});
  const auto add = [&](const std::string& name, const std::string& dtype, const Shape& shape,
                       const std::string& sum, const std::string& norm) {
    std::string shown = printable(name);
    if (terminal::text_columns(shown) > kMostColumns) {
      table.add({std::move(shown)});
      shown.clear();
    }
    table.add({shown, dtype, shape.str(), sum, norm});
  };
  ElementBudget budget(tensors);
  bool all = true;
  for (const auto& [name, tensor] : tensors) {
    std::string sum = "-", norm = "-";
    if (budget.take(tensor)) {
      const Statistics s = statistics_of(tensor);
      sum = sum_text(s.sum, tensor.dtype());
      norm = number_text(s.norm);
    } else {
      all = false;
    }
    add(name, fmt::format("{}", tensor.dtype()), tensor.shape(), sum, norm);
  }
  for (const auto& [name, info] : contents.foreign)
    add(name, printable(info.foreign_dtype), info.shape, "-", "-");
  return table.str() +
         (all ? "" : "-: not computed for views with far more elements than their memory\n") +
         (contents.foreign.empty() ? ""
                                   : "-: not computed for dtypes that Ferrite does not have\n");
}

}  // namespace

std::string text_of(const Contents& contents, const std::string& path) {
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : contents.tensors) bytes += tensor.nbytes();
  for (const auto& [name, info] : contents.foreign) bytes += info.nbytes;
  const auto count = std::ssize(contents.tensors) + std::ssize(contents.foreign);
  std::string out =
      fmt::format("{}: {}, {}, {}\n", printable(path), name(contents.format),
                  terminal::counted(count, "tensor"), ferrite::detail::readable_bytes(bytes));
  if (count > 0) out += "\n" + table_of(contents);
  if (!contents.values.empty()) out += "\nvalues\n";
  for (const auto& [name, value] : contents.values)
    out += fmt::format("{} = {}\n", printable(name), printable(value.str()));
  if (!contents.metadata.empty()) out += "\nmetadata\n";
  for (const auto& [key, text] : contents.metadata)
    out += fmt::format("{} = {}\n", printable(key), printable(text));
  return out;
}

std::string json_of(const Contents& contents) {
  Json tensors = Json::array();
  Members values, metadata;
  ElementBudget budget(contents.tensors);
  for (const auto& [name, tensor] : contents.tensors) {
    Json sum, norm;
    if (budget.take(tensor)) {
      const Statistics s = statistics_of(tensor);
      sum = json_sum(s.sum, tensor.dtype());
      norm = json_number(s.norm);
    }
    tensors.push_back({{"name", name},
                       {"dtype", fmt::format("{}", tensor.dtype())},
                       {"shape", json_shape(tensor.shape())},
                       {"numel", tensor.numel()},
                       {"sum", sum},
                       {"norm", norm}});
  }
  for (const auto& [name, info] : contents.foreign) {
    std::int64_t numel = 1;
    for (const std::int64_t size : info.shape) numel *= size;
    tensors.push_back({{"name", name},
                       {"dtype", info.foreign_dtype},
                       {"shape", json_shape(info.shape)},
                       {"numel", numel},
                       {"sum", Json()},
                       {"norm", Json()}});
  }
  for (const auto& [name, value] : contents.values) values.add(name, json_value(value));
  for (const auto& [key, text] : contents.metadata) metadata.add(key, text);
  return dumped({{"format", name(contents.format)},
                 {"tensors", std::move(tensors)},
                 {"values", values.take()},
                 {"metadata", metadata.take()}});
}

std::string diff_text(const Contents& a, const Contents& b, const std::string& path_a,
                      const std::string& path_b) {
  const Comparison result = compare(a, b);
  std::string out;
  const auto add_names = [&](const std::vector<std::string>& names, const std::string& path) {
    if (names.empty()) return;
    out += fmt::format("only in {}:\n", printable(path));
    for (const std::string& name : names) out += fmt::format("  {}\n", printable(name));
  };
  add_names(result.only_in_first, path_a);
  add_names(result.only_in_second, path_b);
  if (!result.shapes.empty()) out += "of different shapes:\n";
  for (const std::string& name : result.shapes)
    out += fmt::format("  {}: {} and {}\n", printable(name), a.tensors.at(name).shape(),
                       b.tensors.at(name).shape());
  if (!result.dtypes.empty()) out += "of different dtypes:\n";
  for (const std::string& name : result.dtypes)
    out += fmt::format("  {}: {} and {}\n", printable(name), a.tensors.at(name).dtype(),
                       b.tensors.at(name).dtype());
  if (!result.different.empty()) out += "of different values:\n";
  for (const Unequal& u : result.different)
    out += fmt::format("  {}: {} of {} elements, by at most {} at {}\n", printable(u.name),
                       u.difference.unequal, a.tensors.at(u.name).numel(),
                       number_text(u.difference.greatest), u.position());
  if (!result.not_compared.empty())
    out += "not compared, with far more elements than their memory:\n";
  for (const std::string& name : result.not_compared) out += fmt::format("  {}\n", printable(name));
  if (!result.foreign.empty()) out += "not compared, of dtypes that Ferrite does not have:\n";
  for (const std::string& name : result.foreign) out += fmt::format("  {}\n", printable(name));
  out += fmt::format("{} tensor{} equal", result.equal, result.equal == 1 ? "" : "s");
  if (!result.different.empty())
    out += fmt::format(", {} differ by at most {}", result.different.size(),
                       number_text(result.greatest()));
  return out + "\n";
}

std::string diff_json(const Contents& a, const Contents& b) {
  const Comparison result = compare(a, b);
  Json shapes = Json::array(), dtypes = Json::array(), different = Json::array();
  std::vector<std::string> not_compared = result.not_compared;
  not_compared.insert(not_compared.end(), result.foreign.begin(), result.foreign.end());
  for (const std::string& name : result.shapes)
    shapes.push_back({{"name", name},
                      {"first", json_shape(a.tensors.at(name).shape())},
                      {"second", json_shape(b.tensors.at(name).shape())}});
  for (const std::string& name : result.dtypes)
    dtypes.push_back({{"name", name},
                      {"first", fmt::format("{}", a.tensors.at(name).dtype())},
                      {"second", fmt::format("{}", b.tensors.at(name).dtype())}});
  for (const Unequal& u : result.different)
    different.push_back({{"name", u.name},
                         {"greatest", json_number(u.difference.greatest)},
                         {"position", json_shape(u.position())},
                         {"unequal", u.difference.unequal},
                         {"numel", a.tensors.at(u.name).numel()}});
  return dumped({{"equal", result.all_equal()},
                 {"only_in_first", result.only_in_first},
                 {"only_in_second", result.only_in_second},
                 {"shapes", shapes},
                 {"dtypes", dtypes},
                 {"different", different},
                 {"not_compared", not_compared},
                 {"greatest", json_number(result.greatest())}});
}

}  // namespace ferrite::inspect
