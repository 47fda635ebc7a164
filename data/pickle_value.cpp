#include <bit>
#include <unordered_map>
#include <unordered_set>

#include "ferrite/data/pickle.h"
#include "ferrite/data/pickle_names.h"

namespace ferrite::data {

namespace {

using Object = PickledObject;
using Kind = Object::Kind;

constexpr int kDeepestValue = 500;

/// Turns objects, which may occur several times, into values.
class Converter {
 public:
  Converter(const Pickle& pickle, const Where& where, const std::vector<Tensor>& tensors,
            Inexact inexact)
      : where_(where), tensors_(tensors), inexact_(inexact), most_(64 * pickle.bytes) {}

  Value convert(const Object& object, int depth = 0) {
    where_.check(depth < kDeepestValue, 0, "expected values nested at most {} deep", kDeepestValue);
    const auto found = done_.find(&object);
    if (found == done_.end()) return convert_new(object, depth);
    where_.check(found->second.complete, 0, "a value contains itself");
    return count(found->second.size), found->second.value;
  }

 private:
  struct Done {
    Value value;
    std::size_t size = 1;  // written out
    bool complete = false;
  };

  void count(std::size_t values) {
    written_ += values;
    where_.check(written_ <= most_, 0,
                 "values refer to each other so often that they would be more than {} written out",
                 most_);
  }

  void check_exact(const Object& object) const {
    const char* const type = object.kind == Kind::dtype  ? "torch.dtype"
                             : object.kind == Kind::name ? "type"
                                                         : object.was;
    where_.check(!type, 0, "holds a value of Python's type {}, which becomes {} here", type,
                 object.kind == Kind::list    ? "a list"
                 : object.kind == Kind::tuple ? "a tuple"
                 : object.kind == Kind::bytes ? "bytes"
                                              : "text");
  }

  Value convert_new(const Object& object, int depth) {
    const std::size_t before = written_;
    count(1 + object.text.size() / 2);
    if (inexact_ == Inexact::refuse) check_exact(object);
    switch (object.kind) {
      case Kind::none:
        return {};
      case Kind::boolean:
        return object.integer != 0;
      case Kind::integer:
        return object.integer;
      case Kind::real:
        return object.real;
      case Kind::dtype:
        return name(object.dtype);
      case Kind::name:
        return object.text;
      case Kind::storage:
        where_.fail(0, "a storage without a tensor is not supported; save tensors");
      default:
        break;
    }
    done_[&object];
    Value value = shared_value(object, depth);
    done_[&object] = {value, written_ - before, true};
    return value;
  }

  /// A value that is kept for the other places where the object occurs.
  Value shared_value(const Object& object, int depth) {
    switch (object.kind) {
      case Kind::string:
        return object.text;
      case Kind::bytes:
        return Value::bytes(object.text);
      case Kind::tensor:
        return tensors_[static_cast<std::size_t>(object.integer)];
      case Kind::dict:
        return dict_of(object, depth);
      default:
        return list_of(object, depth);
    }
  }

  Value list_of(const Object& object, int depth) {
    Value::List items;
    items.reserve(object.items.size());
    for (const Object* item : object.items) items.push_back(convert(*item, depth + 1));
    return object.kind == Kind::tuple ? Value::tuple(std::move(items))
                                      : Value::list(std::move(items));
  }

  /// As in Python, a later entry replaces an earlier one under the same key.
  Value dict_of(const Object& object, int depth) {
    Value::Dict entries;
    std::unordered_map<std::string, std::size_t> index;
    for (std::size_t i = 0; i < object.items.size(); i += 2) {
      const Object& key = *object.items[i];
      where_.check(key.kind <= Kind::bytes || key.kind == Kind::tuple || key.kind == Kind::dtype, 0,
                   "a key of a dict is neither text nor a number");
      Value k = convert(key, depth + 1), value = convert(*object.items[i + 1], depth + 1);
      if (key.kind == Kind::string) {
        const auto [found, added] = index.emplace(key.text, entries.size());
        if (!added) {
          entries[found->second].second = std::move(value);
          continue;
        }
      }
      entries.emplace_back(std::move(k), std::move(value));
    }
    try {
      return Value::dict(std::move(entries));
    } catch (const ValueError& error) {
      where_.fail(0, "{}", error.what());
    }
  }

  const Where& where_;
  const std::vector<Tensor>& tensors_;
  Inexact inexact_;
  std::size_t written_ = 0, most_;
  std::unordered_map<const Object*, Done> done_;
};

// ---- Writing

class Pickler {
 public:
  explicit Pickler(const std::function<TensorInStorage(const Tensor&)>& place) : place_(place) {}

  std::string run(const Value& value) {
    out_ = "\x80\x02";
    write(value);
    return std::move(out_) + ".";
  }

 private:
  void write(const Value& value) {
    switch (value.kind()) {
      case Value::Kind::none:
        out_ += 'N';
        return;
      case Value::Kind::boolean:
        out_ += value.to_bool() ? '\x88' : '\x89';
        return;
      case Value::Kind::integer:
        return write_integer(value.to_int());
      case Value::Kind::real:
        return write_real(value.to_double());
      case Value::Kind::string:
        return write_text(value.to_string());
      case Value::Kind::bytes:
        return write_bytes(value.to_string());
      case Value::Kind::tensor:
        return write_tensor(value.to_tensor());
      case Value::Kind::list:
        out_ += "](";
        for (const Value& item : value.items()) write(item);
        out_ += 'e';
        return;
      case Value::Kind::tuple:
        out_ += '(';
        for (const Value& item : value.items()) write(item);
        out_ += 't';
        return;
      case Value::Kind::dict:
        return value.is_counter() ? write_counter(value.entries()) : write_dict(value.entries());
    }
  }

  void write_integer(std::int64_t value) {
    if (value == static_cast<std::int32_t>(value)) {
      out_ += 'J';
      return append_little(out_, static_cast<std::uint32_t>(value));
    }
    out_ += "\x8a\x08";
    append_little(out_, static_cast<std::uint64_t>(value));
  }
  void write_real(double value) {
    out_ += 'G';
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (int shift = 56; shift >= 0; shift -= 8) out_ += static_cast<char>(bits >> shift & 0xff);
  }
  void write_text(const std::string& text) {
    FERRITE_CHECK(text.size() < 0xffffffff, ValueError, "save_pth",
                  "a text of {} bytes is too long", text.size());
    out_ += 'X';
    append_little(out_, static_cast<std::uint32_t>(text.size()));
    out_ += text;
  }
  /// Protocol 2 has no bytes: Python writes a call of codecs.encode().
  void write_bytes(const std::string& bytes) {
    std::string text;
    for (const char c : bytes) {
      const auto u = static_cast<std::uint8_t>(c);
      if (u < 0x80) {
        text += c;
      } else {
        text += static_cast<char>(0xc0 | u >> 6);
        text += static_cast<char>(0x80 | (u & 0x3f));
      }
    }
    write_name("_codecs", "encode");
    out_ += '(';
    write_text(text);
    write_text("latin1");
    out_ += "tR";
  }
  void write_name(std::string_view module, std::string_view name) {
    out_ += fmt::format("c{}\n{}\n", module, name);
  }
  void write_dict(const Value::Dict& entries) {
    bool is_state_dict = true;
    for (const auto& [key, value] : entries)
      is_state_dict &= key.kind() == Value::Kind::string && value.is_tensor();
    if (is_state_dict && !entries.empty()) {
      write_name("collections", "OrderedDict");
      out_ += ")R(";
    } else {
      out_ += "}(";
    }
    for (const auto& [key, value] : entries) write(key), write(value);
    out_ += 'u';
  }
  void write_counter(const Value::Dict& entries) {
    write_name("collections", "Counter");
    out_ += "}(";
    for (const auto& [key, value] : entries) write(key), write(value);
    out_ += "u\x85R";
  }
  void write_sizes(const Shape& sizes) {
    out_ += '(';
    for (const std::int64_t size : sizes) write_integer(size);
    out_ += 't';
  }
  void write_tensor(const Tensor& tensor) {
    const TensorInStorage in = place_(tensor);
    write_name("torch._utils", "_rebuild_tensor_v2");
    out_ += "((";
    write_text("storage");
    write_name("torch", find_pickle_type(in.storage.dtype)->storage);
    write_text(in.storage.key);
    write_text(in.storage.location);
    write_integer(static_cast<std::int64_t>(in.storage.numel));
    out_ += "tQ";
    write_integer(in.offset);
    write_sizes(tensor.shape());
    write_sizes(in.strides);
    out_ += '\x89';  // requires_grad
    write_name("collections", "OrderedDict");
    out_ += ")RtR";
  }

  const std::function<TensorInStorage(const Tensor&)>& place_;
  std::string out_;
};

}  // namespace

Value to_value(const Pickle& pickle, const Where& where, const std::vector<Tensor>& tensors,
               Inexact inexact) {
  where.check(pickle.tensors.size() == tensors.size(), 0,
              "expected no tensors in what precedes the value of the file, got {}",
              pickle.tensors.size());
  return Converter(pickle, where, tensors, inexact).convert(*pickle.root);
}

std::string to_pickle(const Value& value,
                      const std::function<TensorInStorage(const Tensor&)>& place) {
  return Pickler(place).run(value);
}

}  // namespace ferrite::data
