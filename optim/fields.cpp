#include "ferrite/optim/fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <type_traits>
#include <utility>

namespace ferrite::optim {

namespace {

template <class T>
constexpr bool kIsVector = false;
template <class T>
constexpr bool kIsVector<std::vector<T>> = true;

template <class T>
void check_size(const T& value, const Tensor& t, const std::string& name, const char* op) {
  if constexpr (std::is_same_v<T, std::vector<double>>)
    FERRITE_CHECK(t.numel() == static_cast<std::int64_t>(value.size()), ValueError, op,
                  "{}: expected a number for each of {} groups, got {}", name, value.size(),
                  t.describe());
  else if constexpr (!kIsVector<T>)
    FERRITE_CHECK(t.numel() == 1, ValueError, op, "{}: expected one number, got {}", name,
                  t.describe());
}

std::string read_word(const Tensor& t, const Word& word, const std::string& name, const char* op) {
  FERRITE_CHECK(t.dtype() == kUInt8, ValueError, op, "{}: expected a word as uint8, got {}", name,
                t.describe());
  std::string text = ferrite::detail::word_of(t);
  FERRITE_CHECK(std::ranges::find(word.allowed, text) != word.allowed.end(), ValueError, op,
                "{}: expected one of \"{}\", got \"{}\"", name, fmt::join(word.allowed, "\", \""),
                text);
  return text;
}

template <class T>
T read(const Tensor& t) {
  if constexpr (kIsVector<T>)
    return t.to_vector<typename T::value_type>();
  else if constexpr (std::is_same_v<T, bool>)
    return t.item<double>() != 0;
  else
    return t.item<T>();
}

}  // namespace

void check_fields(const Fields& fields, const char* op) {
  for (const Field& f : fields)
    std::visit(
        [&]<class V>(const V& v) {
          if constexpr (!std::is_same_v<V, Word> && !kIsVector<std::remove_pointer_t<V>>)
            FERRITE_CHECK(f.range.contains(static_cast<double>(*v)), ValueError, op,
                          "expected {} to be {}, got {}", f.name, f.range.text, *v);
        },
        f.value);
}

void save_fields(const Fields& fields, StateDict& dict, const std::string& prefix) {
  for (const Field& f : fields)
    dict.insert(prefix + f.name, std::visit(
                                     []<class V>(const V& v) {
                                       using T = std::remove_pointer_t<V>;
                                       if constexpr (std::is_same_v<V, Word>)
                                         return ferrite::detail::letters_of(*v.value);
                                       else if constexpr (kIsVector<T>)
                                         return from_vector(*v,
                                                            {static_cast<std::int64_t>(v->size())});
                                       else if constexpr (std::is_same_v<T, bool>)
                                         return host_scalar(static_cast<double>(*v));
                                       else
                                         return host_scalar(*v);
                                     },
                                     f.value));
}

void load_fields(const Fields& fields, const StateDict& dict, const std::string& prefix,
                 const char* op, bool check_only) {
  for (const Field& f : fields) {
    const std::string name = prefix + f.name;
    const auto found = dict.find(name);
    if (found == dict.end() && f.may_be_lacking()) continue;
    FERRITE_CHECK(found != dict.end(), ValueError, op, "the dict lacks {}", name);
    const Tensor& t = found->second;
    if (const Word* const word = std::get_if<Word>(&f.value)) {
      std::string text = read_word(t, *word, name, op);
      if (!check_only) *word->value = std::move(text);
      continue;
    }
    std::visit(
        [&]<class V>(const V& v) {
          if constexpr (!std::is_same_v<V, Word>) {
            using T = std::remove_pointer_t<V>;
            check_size(*v, t, name, op);
            T loaded = read<T>(t);
            if constexpr (!kIsVector<T>)
              FERRITE_CHECK(f.range.is_any() || f.range.contains(static_cast<double>(loaded)),
                            ValueError, op, "{}: expected it to be {}, got {}", name, f.range.text,
                            loaded);
            if (!check_only) *v = std::move(loaded);
          }
        },
        f.value);
  }
}

}  // namespace ferrite::optim
