#include "ferrite/data/pickle.h"

#include <bit>
#include <charconv>

#include "ferrite/data/pickle_names.h"
#include "ferrite/data/pickle_tensors.h"

namespace ferrite::data {

namespace {

// ---- The machine

class Machine : private PickleTensors {
 public:
  using PickleTensors::PickleTensors;

  Pickle run() {
    while (!step()) {
    }
    check(stack_.size() == 1 && marks_.empty(), "expected one value at the end, got {}",
          stack_.size());
    out_.root = stack_[0];
    out_.bytes = at_;
    return std::move(out_);
  }

 private:
  // -- Names

  void push_name(const std::string& module, const std::string& name) {
    if (module == "torch" || module == "torch.storage") {
      const PickleType* type = find_pickle_type(name);
      if ((type && name == type->storage) || name == "UntypedStorage")
        return push_text(Kind::name, name);
      if (type) {
        push(Kind::dtype)->dtype = type->type;
        return;
      }
    }
    std::string whole = module + " " + name;
    if (module == "torch" &&
        (name.ends_with("Storage") || name.starts_with("complex") || name.starts_with("q") ||
         name.starts_with("uint") || name.starts_with("float8")))
      fail(
          "torch.{} is an element type that Ferrite does not have; convert the tensor before it is "
          "saved",
          name);
    if (module.starts_with("__torch__"))
      fail(
          "is a TorchScript archive, which torch.jit.save() and libtorch's torch::save() write; "
          "convert it in Python: torch.save(torch.jit.load(path).state_dict(), \"weights.pth\")");
    if (!find_callable(whole))
      fail(
          "refers to {}.{}, which weights do not need; nothing of it was executed. Save the "
          "state_dict() of a module and not the module itself, and plain numbers, strings, lists "
          "and dicts beside it",
          module, name);
    push_text(Kind::name, std::move(whole));
  }

  /// A NumPy number, which checkpoints have as best accuracies.
  void push_numpy_scalar(const Object& arguments) {
    const Object& type = argument(arguments, 0, Kind::string, "a NumPy type");
    const Object& content = argument(arguments, 1, Kind::bytes, "a number's bytes");
    const std::string_view code = type.text, raw = content.text;
    const auto* p = reinterpret_cast<const std::uint8_t*>(raw.data());
    check(code.size() == 2 && raw.size() == static_cast<std::size_t>(code[1] - '0'),
          "NumPy numbers of type '{}' are not supported", code);
    if (code == "f8") {
      push(Kind::real)->real = std::bit_cast<double>(load_little<std::uint64_t>(p));
    } else if (code == "f4") {
      push(Kind::real)->real =
          static_cast<double>(std::bit_cast<float>(load_little<std::uint32_t>(p)));
    } else if (code == "b1") {
      push(Kind::boolean)->integer = *p != 0;
    } else {
      check(code[0] == 'i' || code[0] == 'u', "NumPy numbers of type '{}' are not supported", code);
      push_long({p, raw.size()});
      if (code[0] == 'u' && raw.size() < 8)
        top()->integer &= (std::int64_t{1} << 8 * raw.size()) - 1;
      check(code[0] == 'i' || top()->integer >= 0,
            "integers of 2^63 and more are not supported, got the uint64 {}",
            static_cast<std::uint64_t>(top()->integer));
    }
  }

  void push_dict(const Object& arguments) {
    std::vector<Object*> items;
    if (!arguments.items.empty()) {
      const Object& first = *arguments.items[0];
      check(first.kind == Kind::list || first.kind == Kind::dict, "expected the items of a dict");
      if (first.kind == Kind::dict) items = first.items;
      if (first.kind == Kind::list)
        for (const Object* pair : first.items) {
          check((pair->kind == Kind::list || pair->kind == Kind::tuple) && pair->items.size() == 2,
                "expected pairs of key and value");
          items.insert(items.end(), pair->items.begin(), pair->items.end());
        }
    }
    count_copied(items.size());
    push_items(Kind::dict, std::move(items));
  }

  void reduce() {
    Object* const arguments = pop();
    Object* const function = pop();
    check(arguments->kind == Kind::tuple, "expected the arguments of a call");
    call(*function, *arguments);
  }
  void call(const Object& function, const Object& arguments) {
    const PickleCallable* callable =
        function.kind == Kind::name ? find_callable(function.text) : nullptr;
    check(callable, "expected the name of a function or class to call");
    using Callable = PickleCallable;
    switch (*callable) {
      case Callable::dict:
      case Callable::counter:
        return push_dict(arguments);
      case Callable::default_dict:
        return push_items(Kind::dict, {});
      case Callable::set: {
        std::vector<Object*> items;
        if (!arguments.items.empty()) items = argument(arguments, 0, Kind::list, "a list").items;
        count_copied(items.size());
        push_items(Kind::list, std::move(items));
        return mark("set");
      }
      case Callable::rebuild_tensor:
      case Callable::rebuild_tensor_v2:
        return rebuild_tensor(arguments, {}, 6);
      case Callable::rebuild_tensor_v3:
        return rebuild_tensor(arguments, 6, 7);
      case Callable::rebuild_parameter:
        argument(arguments, 0, Kind::tensor, "a tensor");
        return push(arguments.items[0]);
      case Callable::rebuild_from_type: {
        const Object& inner = argument(arguments, 0, Kind::name, "a function");
        check(inner.text.starts_with("torch._utils "), "expected a function that makes a tensor");
        return call(inner, argument(arguments, 2, Kind::tuple, "its arguments"));
      }
      case Callable::bytearray: {
        std::string content;
        if (const Object* bytes = at(arguments, 0, Kind::bytes)) {
          count_copied(bytes->text.size());
          content = bytes->text;
        } else if (!arguments.items.empty()) {
          content = latin1(copied_text(arguments, "a text"));
        }
        push_text(Kind::bytes, std::move(content));
        return mark("bytearray");
      }
      case Callable::complex: {
        std::vector<Object*> parts = arguments.items;
        check(parts.size() == 2 && at(arguments, 0, Kind::real) && at(arguments, 1, Kind::real),
              "expected the two parts of a complex number");
        push_items(Kind::tuple, std::move(parts));
        return mark("complex");
      }
      case Callable::size:
        return push(const_cast<Object*>(&argument(arguments, 0, Kind::tuple, "a tuple of sizes")));
      case Callable::device: {
        std::string device = copied_text(arguments, "a device");
        if (const Object* index = at(arguments, 1, Kind::integer))
          device += fmt::format(":{}", index->integer);
        push_text(Kind::string, std::move(device));
        return mark("torch.device");
      }
      case Callable::encode:
        return push_text(Kind::bytes, latin1(copied_text(arguments, "a text")));
      case Callable::numpy_dtype:
        return push_text(Kind::string, copied_text(arguments, "a type's name"));
      case Callable::numpy_scalar:
        return push_numpy_scalar(arguments);
      case Callable::passive:
        fail("'{}' cannot be called here", function.text);
    }
  }

  const std::string& copied_text(const Object& arguments, std::string_view what) {
    const std::string& text = argument(arguments, 0, Kind::string, what).text;
    count_copied(text.size());
    return text;
  }

  /// Bytes from their characters U+0000 to U+00FF.
  std::string latin1(const std::string& utf8) const {
    std::string out;
    for (std::size_t i = 0; i < utf8.size(); ++i) {
      const auto c = static_cast<std::uint8_t>(utf8[i]);
      if (c < 0x80) {
        out += static_cast<char>(c);
        continue;
      }
      check((c == 0xc2 || c == 0xc3) && i + 1 < utf8.size(), "expected text of Latin-1");
      out += static_cast<char>((c & 3) << 6 | (static_cast<std::uint8_t>(utf8[++i]) & 0x3f));
    }
    return out;
  }

  /// Attributes of dicts and NumPy types are dropped; nothing else has any.
  void build() {
    pop();
    const Kind kind = top()->kind;
    check(kind == Kind::dict || kind == Kind::string || kind == Kind::tensor,
          "expected no attributes for this object");
  }

  bool step();
  bool step_text(std::uint8_t opcode);
};

/// Executes one instruction; true at the end.
bool Machine::step() {
  begin_ = at_;
  const std::uint8_t opcode = take(1)[0];
  switch (opcode) {
    case 0x80: {  // PROTO
      const auto version = number<std::uint8_t>();
      check(version <= 5, "pickle protocol {}; 0 to 5 are supported", version);
      return false;
    }
    case 0x95:  // FRAME
      return take(8), false;
    case '.':
      return true;
    case '(':
      return marks_.push_back(stack_.size()), false;
    case '0':
      if (stack_.size() > bottom()) return pop(), false;
      [[fallthrough]];
    case '1':
      return pop_mark(), false;
    case '2':
      return push(top()), false;
    case 'N':
      return push(Kind::none), false;
    case 0x88:
    case 0x89:
      return push(Kind::boolean)->integer = opcode == 0x88, false;
    case 'J':
      return push_integer(static_cast<std::int32_t>(number<std::uint32_t>())), false;
    case 'K':
      return push_integer(number<std::uint8_t>()), false;
    case 'M':
      return push_integer(number<std::uint16_t>()), false;
    case 0x8a: {
      const auto count = number<std::uint8_t>();
      return push_long(take(count)), false;
    }
    case 0x8b: {
      const auto count = number<std::uint32_t>();
      return push_long(take(count)), false;
    }
    case 'G': {
      const Bytes b = take(8);
      const std::uint64_t bits =
          std::uint64_t{load_big32(b.data())} << 32 | load_big32(b.data() + 4);
      return push(Kind::real)->real = std::bit_cast<double>(bits), false;
    }
    case ']':
      return push(Kind::list), false;
    case 0x8f:  // EMPTY_SET
      return push(Kind::list), mark("set"), false;
    case '}':
      return push(Kind::dict), false;
    case ')':
      return push(Kind::tuple), false;
    case 'a': {
      Object* item = pop();
      return extend(Kind::list, {item}), false;
    }
    case 'e':
    case 0x90: {  // APPENDS, ADDITEMS
      const auto items = pop_mark();
      return extend(Kind::list, items), false;
    }
    case 's': {
      Object* value = pop();
      Object* key = pop();
      return extend(Kind::dict, {key, value}), false;
    }
    case 'u': {
      const auto items = pop_mark();
      return extend(Kind::dict, items), false;
    }
    case 't':
      return push_items(Kind::tuple, pop_mark()), false;
    case 'l':
      return push_items(Kind::list, pop_mark()), false;
    case 0x91:  // FROZENSET
      return push_items(Kind::list, pop_mark()), mark("set"), false;
    case 'd':
      return push_items(Kind::dict, pop_mark()), false;
    case 0x85:
    case 0x86:
    case 0x87:
      return push_tuple(opcode - 0x84u), false;
    case 'q':
      return put(number<std::uint8_t>()), false;
    case 'r':
      return put(number<std::uint32_t>()), false;
    case 0x94:
      return put(memo_.size()), false;
    case 'h':
      return get(number<std::uint8_t>()), false;
    case 'j':
      return get(number<std::uint32_t>()), false;
    case 'R':
    case 0x81:  // NEWOBJ
      return reduce(), false;
    case 'b':
      return build(), false;
    case 'Q':
      return push_storage(*pop()), false;
    case 0x93: {  // STACK_GLOBAL
      const Object* name = pop();
      const Object* module = pop();
      check(name->kind == Kind::string && module->kind == Kind::string,
            "expected the name of a function or class");
      return push_name(module->text, name->text), false;
    }
    default:
      return step_text(opcode);
  }
}

/// The instructions of strings, and those of the old textual protocol.
bool Machine::step_text(std::uint8_t opcode) {
  const auto integer_of = [this](std::string_view digits) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    check(error == std::errc() && end == digits.data() + digits.size(),
          "expected an integer of 64 bits, got '{}'", digits.substr(0, 40));
    return value;
  };
  switch (opcode) {
    case 'X':
      return push_text(Kind::string, text(number<std::uint32_t>())), false;
    case 0x8c:
      return push_text(Kind::string, text(number<std::uint8_t>())), false;
    case 0x8d:
      return push_text(Kind::string, text(number<std::uint64_t>())), false;
    case 'T':  // of Python 2
      return push_text(Kind::string, text(number<std::uint32_t>())), false;
    case 'U':
      return push_text(Kind::string, text(number<std::uint8_t>())), false;
    case 'B':
      return push_text(Kind::bytes, text(number<std::uint32_t>())), false;
    case 'C':
      return push_text(Kind::bytes, text(number<std::uint8_t>())), false;
    case 0x8e:
      return push_text(Kind::bytes, text(number<std::uint64_t>())), false;
    case 0x96:  // BYTEARRAY8
      return push_text(Kind::bytes, text(number<std::uint64_t>())), mark("bytearray"), false;
    case 'V': {  // a line, with escapes that weights do not have
      std::string value = line();
      check(value.find('\\') == std::string::npos, "escapes in texts are not supported");
      return push_text(Kind::string, std::move(value)), false;
    }
    case 'c': {
      const std::string module = line(), name = line();
      return push_name(module, name), false;
    }
    case 'I': {
      const std::string digits = line();
      if (digits == "00" || digits == "01")
        return push(Kind::boolean)->integer = digits == "01", false;
      return push_integer(integer_of(digits)), false;
    }
    case 'L': {
      std::string digits = line();
      if (digits.ends_with('L')) digits.pop_back();
      return push_integer(integer_of(digits)), false;
    }
    case 'F': {
      const std::string digits = line();
      double value = 0;
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), value);
      check(error == std::errc() && end == digits.data() + digits.size(),
            "expected a number, got '{}'", digits.substr(0, 40));
      return push(Kind::real)->real = value, false;
    }
    case 'p':
      return put(static_cast<std::uint64_t>(integer_of(line()))), false;
    case 'g':
      return get(static_cast<std::uint64_t>(integer_of(line()))), false;
    default:
      fail("pickle instruction 0x{:02x} is not one that weights need", opcode);
  }
}

}  // namespace

Pickle parse_pickle(Bytes bytes, const Where& where, std::uint64_t offset) {
  return Machine(bytes, where, offset).run();
}

}  // namespace ferrite::data
