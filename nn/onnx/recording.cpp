#include "ferrite/nn/onnx/recording.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "ferrite/autograd/autocast.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/nn/onnx/tape.h"

namespace ferrite::onnx {

namespace {

/// Whether the bytes of two tensors are equal.
bool same_values(const Tensor& a, const Tensor& b) {
  if (a.is_same(b)) return true;
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Tensor x = a.cpu().contiguous(), y = b.cpu().contiguous();
  return x.nbytes() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

/// Whether all elements of all the tensors are the same number.
bool one_number(const std::vector<Tensor>& tensors) {
  std::vector<char> first;
  for (const Tensor& t : tensors) {
    const Tensor x = t.cpu().contiguous();
    const std::size_t each = x.itemsize();
    const char* const bytes = static_cast<const char*>(x.data_ptr());
    for (std::size_t i = 0; i < x.nbytes(); i += each) {
      if (first.empty()) first.assign(bytes, bytes + each);
      if (std::memcmp(bytes + i, first.data(), each) != 0) return false;
    }
  }
  return !first.empty();
}

/// The size that these are with these batches; nullopt if it is no multiple of them and a constant.
std::optional<Size> size_of(const std::vector<std::int64_t>& sizes,
                            const std::vector<std::int64_t>& batches) {
  if (std::ranges::all_of(sizes, [&](std::int64_t s) { return s == sizes[0]; }))
    return Size{0, sizes[0]};
  const std::int64_t rows = batches[1] - batches[0];
  if (rows == 0 || (sizes[1] - sizes[0]) % rows != 0) return {};
  const std::int64_t each = (sizes[1] - sizes[0]) / rows;
  const Size size{each, sizes[0] - each * batches[0]};
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (size.per_row * batches[i] + size.fixed != sizes[i]) return {};
  return size;
}

/// Whether two attributes have one name, and values of one type.
bool same_kind(const tracing::Attribute& a, const tracing::Attribute& b) {
  return std::strcmp(a.name, b.name) == 0 && a.value.index() == b.value.index();
}

/// An op, with the names of its attributes where it is beside another of its name.
std::string described(const Tape::Event& event, const Tape::Event& beside) {
  std::vector<std::string> names;
  if (event.op == beside.op)
    for (const tracing::Attribute& a : event.attributes) names.emplace_back(a.name);
  const std::string list = names.empty() ? "" : fmt::format("({})", fmt::join(names, ", "));
  return fmt::format("{}{} {}", event.op, list, in_module(event.path));
}

class Comparison {
 public:
  Comparison(const std::vector<Tape>& tapes, const std::vector<std::int64_t>& batches,
             const nn::Module& model)
      : tapes_(tapes), batches_(batches) {
    for (const auto& [name, tensor] : model.named_parameters()) names_[tensor.impl()] = name;
    for (const auto& [name, tensor] : model.named_buffers()) names_[tensor.impl()] = name;
    find_open_shapes();
  }

  void check_same_program() const {
    const Tape& first = tapes_[0];
    for (std::size_t run = 1; run < tapes_.size(); ++run) {
      const Tape& other = tapes_[run];
      const std::size_t count = std::min(first.events.size(), other.events.size());
      for (std::size_t i = 0; i < count; ++i) {
        const Tape::Event &a = first.events[i], &b = other.events[i];
        FERRITE_CHECK(a.op == b.op && a.path == b.path && a.inputs == b.inputs &&
                          a.outputs == b.outputs &&
                          std::ranges::equal(a.attributes, b.attributes, same_kind),
                      ValueError, kSaveOp,
                      "the network does not compute the same for all inputs: op {} is {} for the "
                      "example, and {} for other values or another batch size; what depends on "
                      "them cannot be exported",
                      i, described(a, b), described(b, a));
      }
      FERRITE_CHECK(first.events.size() == other.events.size(), ValueError, kSaveOp,
                    "the network does not compute the same for all inputs: {} ops for the example, "
                    "and {} for other values or another batch size",
                    first.events.size(), other.events.size());
    }
  }

  Variable variable(std::size_t number, std::size_t inputs) const {
    const Tape::Value& value = tapes_[0].values[number];
    std::vector<Tensor> all;
    for (const Tape& tape : tapes_) all.push_back(tape.values[number].tensor);
    Variable out;
    out.tensor = value.tensor;
    const auto reader = [&] {
      const auto& events = tapes_[0].events;
      const auto at = static_cast<std::size_t>(value.first_use);
      return at < events.size() ? fmt::format("{} {}", events[at].op, in_module(events[at].path))
                                : std::string("the output");
    };
    for (const Tensor& t : all)
      FERRITE_CHECK(t.dim() == all[0].dim() && t.dtype() == all[0].dtype(), ValueError, kSaveOp,
                    "a tensor that {} reads is {} for the example, and {} for other inputs",
                    reader(), all[0].describe(), t.describe());
    if (!value.known && value.depends)
      fail<ValueError>(
          kSaveOp,
          "{} cannot be exported: it does not report what it makes of the network's input, a {} "
          "that {} reads",
          value.maker.empty() ? tapes_[0].suspect(static_cast<std::size_t>(value.first_use))
                              : value.maker,
          value.tensor.describe(), reader());
    out.has_open_shape = open_[number];
    if (out.has_open_shape)
      for (const std::int64_t size : value.tensor.shape()) out.shape.push_back({0, size});
    for (int d = 0; !out.has_open_shape && d < value.tensor.dim(); ++d) {
      std::vector<std::int64_t> sizes;
      for (const Tensor& t : all) sizes.push_back(t.size(d));
      const auto size = size_of(sizes, batches_);
      FERRITE_CHECK(size, ValueError, kSaveOp,
                    "a size that {} reads or makes is {} for batches of {}: only multiples of the "
                    "batch and a constant can be exported",
                    reader(), fmt::join(sizes, ", "), fmt::join(batches_, ", "));
      out.shape.push_back(*size);
    }
    if (number < inputs) {
      out.kind = Variable::Kind::input;
    } else if (!value.known) {
      FERRITE_CHECK(!changed(number), ValueError, kSaveOp,
                    "{} reads a {} that is changed in place afterwards, which cannot be exported",
                    reader(), value.tensor.describe());
      if (const auto named = names_.find(value.tensor.impl()); named != names_.end()) {
        out.kind = Variable::Kind::parameter;
        out.name = named->second;
        return out;
      }
      const bool equal =
          std::ranges::all_of(all, [&](const Tensor& t) { return same_values(t, all[0]); });
      FERRITE_CHECK(
          equal || one_number(all), ValueError, kSaveOp,
          "{} reads a {} that depends on the input in a way that is not known; {} cannot be "
          "exported",
          reader(), value.tensor.describe(),
          tapes_[0].suspect(static_cast<std::size_t>(value.first_use)));
      out.kind = equal ? Variable::Kind::constant : Variable::Kind::filled;
    }
    return out;
  }

  Operation operation(std::size_t number) const {
    const Tape::Event& event = tapes_[0].events[number];
    Operation out;
    out.op = event.op;
    out.path = event.path;
    out.inputs = event.inputs;
    out.outputs = event.outputs;
    out.batches = batches_;
    for (const Tape& tape : tapes_) out.attributes.push_back(tape.events[number].attributes);
    return out;
  }

  /// Whether its memory was written after it was recorded.
  bool changed(std::size_t number) const {
    return std::ranges::any_of(tapes_, [&](const Tape& tape) {
      return tape.values[number].version != tape.values[number].tensor.storage()->version();
    });
  }

 private:
  /// Shapes depend on values where they are those of nonzero(), or of what is made of it.
  void find_open_shapes() {
    const Tape& tape = tapes_[0];
    open_.assign(tape.values.size(), false);
    for (const Tape::Event& event : tape.events) {
      bool open = event.op == "nonzero";
      for (const int v : event.inputs)
        open = open || (v != kNone && open_[static_cast<std::size_t>(v)]);
      for (const int v : event.outputs)
        if (v != kNone && tape.values[static_cast<std::size_t>(v)].depends &&
            std::ranges::find(event.inputs, v) == event.inputs.end())
          open_[static_cast<std::size_t>(v)] = open;
    }
  }

  const std::vector<Tape>& tapes_;
  const std::vector<std::int64_t>& batches_;
  std::map<const TensorImpl*, std::string> names_;
  std::vector<bool> open_;  // by value
};

}  // namespace

// ---- Operation

const tracing::Value* Operation::values(const char* name, std::size_t run) const {
  for (const tracing::Attribute& a : attributes[run])
    if (std::strcmp(a.name, name) == 0) return &a.value;
  return nullptr;
}

const tracing::Value& Operation::value(const char* name, std::size_t run) const {
  const tracing::Value* const found = values(name, run);
  if (!found) refuse(fmt::format("it does not say its {}", name));
  return *found;
}

void Operation::refuse(const std::string& reason) const {
  fail<ValueError>(kSaveOp, "{} {} cannot be exported: {}", op, in_module(path), reason);
}

namespace {

bool same(const tracing::Value& a, const tracing::Value& b) {
  if (a.index() != b.index()) return false;
  if (const auto* x = std::get_if<Scalar>(&a)) {
    const Scalar& y = std::get<Scalar>(b);
    return x->kind() == y.kind() &&
           (x->is_floating() ? std::bit_cast<std::uint64_t>(x->to<double>()) ==
                                   std::bit_cast<std::uint64_t>(y.to<double>())
                             : x->to<std::int64_t>() == y.to<std::int64_t>());
  }
  return std::visit(
      [&](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, Scalar>)
          return true;
        else
          return x == std::get<T>(b);
      },
      a);
}

}  // namespace

template <class T>
const T& Operation::get(const char* name) const {
  const tracing::Value& first = value(name);
  for (std::size_t run = 1; run < attributes.size(); ++run)
    if (!same(first, value(name, run)))
      refuse(fmt::format("its {} depends on the values of the input or on the size of the batch",
                         name));
  return std::get<T>(first);
}
template const bool& Operation::get(const char*) const;
template const double& Operation::get(const char*) const;
template const std::string& Operation::get(const char*) const;
template const Scalar& Operation::get(const char*) const;
template const std::int64_t& Operation::get(const char*) const;
template const tracing::Sizes& Operation::get(const char*) const;

Sizes Operation::sizes(const char* name) const {
  Sizes all;
  const std::size_t count = std::get<tracing::Sizes>(value(name)).size();
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::int64_t> each;
    for (std::size_t run = 0; run < attributes.size(); ++run) {
      const auto& list = std::get<tracing::Sizes>(value(name, run));
      if (list.size() != count) refuse(fmt::format("its {} depends on the input", name));
      each.push_back(list[i]);
    }
    const auto size = size_of(each, batches);
    if (!size) refuse(fmt::format("its {} is no multiple of the batch and a constant", name));
    all.push_back(*size);
  }
  return all;
}

// ---- Recording

Recording record(nn::Module& model, const Forward& forward,
                 const std::vector<std::vector<Tensor>>& variants,
                 const std::vector<std::int64_t>& batches) {
  std::vector<Tape> tapes;
  std::vector<std::vector<int>> outputs;
  for (std::size_t run = 0; run < variants.size(); ++run) {
    const NoGradGuard no_grad;
    const autograd::AutocastScope no_autocast(nullptr);
    Tape& tape = tapes.emplace_back(variants[run]);
    std::vector<Tensor> results;
    try {
      const tracing::Scope scope(tape);
      results = forward(variants[run]);
    } catch (const Error& error) {
      if (batches[run] == batches[0]) throw;
      fail<ValueError>(
          kSaveOp, "the network does not run with a batch of {}, which dynamic_batch asks for: {}",
          batches[run], error.what());
    }
    outputs.emplace_back();
    for (const Tensor& t : results) outputs.back().push_back(tape.use(t, "the output"));
    FERRITE_CHECK(tape.reader.empty(), ValueError, kSaveOp,
                  "{} cannot be exported: it reads values that depend on the network's input on "
                  "the host, and what the program does with them is not recorded",
                  tape.reader);
    FERRITE_CHECK(tape.refusal.empty(), ValueError, kSaveOp, "{}", tape.refusal);
  }
  Recording out;
  out.batches = batches;
  const Comparison comparison(tapes, batches, model);
  comparison.check_same_program();
  for (const std::vector<int>& other : outputs)
    FERRITE_CHECK(other == outputs[0], ValueError, kSaveOp,
                  "the network does not return the same tensors for all inputs");
  FERRITE_CHECK(!outputs[0].empty(), ValueError, kSaveOp, "the network returns no tensor");
  for (std::size_t i = 0; i < tapes[0].values.size(); ++i)
    out.variables.push_back(comparison.variable(i, variants[0].size()));
  for (std::size_t i = 0; i < tapes[0].events.size(); ++i)
    out.operations.push_back(comparison.operation(i));
  for (std::size_t i = 0; i < variants[0].size(); ++i) out.inputs.push_back(static_cast<int>(i));
  out.outputs = outputs[0];

  // What is computed from constants alone, masks of attention for example, is one.
  for (Operation& op : out.operations) {
    const bool fixed = std::ranges::all_of(op.inputs, [&](int v) {
      return v == kNone ||
             out.variables[static_cast<std::size_t>(v)].kind == Variable::Kind::constant;
    });
    if (!fixed) continue;
    for (const int v : op.outputs) {
      if (v == kNone) continue;
      Variable& result = out.variables[static_cast<std::size_t>(v)];
      std::vector<Tensor> all;
      for (const Tape& tape : tapes) all.push_back(tape.values[static_cast<std::size_t>(v)].tensor);
      if (result.kind == Variable::Kind::result &&
          !comparison.changed(static_cast<std::size_t>(v)) &&
          std::ranges::all_of(all, [&](const Tensor& t) { return same_values(t, all[0]); }))
        result.kind = Variable::Kind::constant;
    }
  }
  return out;
}

}  // namespace ferrite::onnx
