// Modules as ops: of inputs, and of the parameters and buffers that take the places of their own.
#pragma once

#include "ferrite/nn/functional_call.h"
#include "ferrite/tests/differential/options.h"

namespace ferrite::differential {

// ---- What a call returns, as tensors; those that are undefined are left out

inline void append(Tensors& out, const Tensor& t) {
  if (t.defined()) out.push_back(t);
}
template <class A, class B>
void append(Tensors& out, const std::pair<A, B>& results) {
  append(out, results.first), append(out, results.second);
}
inline void append(Tensors& out, const nn::ASMoutput& result) {
  append(out, result.output), append(out, result.loss);
}
template <class T>
requires requires(const T& results) { results.fields(); }
void append(Tensors& out, const T& results) {
  std::apply([&](const auto&... parts) { (append(out, parts), ...); }, results.fields());
}

/// A module of one to four tensors.
template <class M>
struct Call {
  template <class... Inputs>
  static void with(Tensors& out, M& m, const StateDict& state, const Tensors& x,
                   const Inputs&... inputs) {
    if constexpr (requires { m(inputs...); })
      if (x.size() == sizeof...(inputs)) append(out, nn::functional_call(m, state, inputs...));
    if constexpr (sizeof...(inputs) < 4)
      if (x.size() > sizeof...(inputs)) with(out, m, state, x, inputs..., x[sizeof...(inputs)]);
  }
  Tensors operator()(M& m, const StateDict& state, const Tensors& x, const Json&) const {
    Tensors out;
    with(out, m, state, x, x.at(0));
    return out;
  }
};

/// The input of that number; undefined for null.
inline Tensor input_at(const Tensors& in, const Json& at) {
  return at.is_null() ? Tensor() : in.at(at.get<std::size_t>());
}
/// The input of that name, a mask for instance; undefined if there is none.
inline Tensor named_input(const Tensors& in, const Json& args, const char* name) {
  const auto at = args["named"].find(name);
  return at == args["named"].end() ? Tensor() : input_at(in, *at);
}

/// An op that makes the module from args["options"], with the inputs args["state"] as its
/// parameters and buffers, and calls it with the inputs args["inputs"], of which some may be null.
/// It returns what the call does, and then the parameters and buffers, which it may have changed.
template <class M, class F = Call<M>>
Op module_op(M (*make)(Json&), F call = {}) {
  return [make, call](const Tensors& in, const Json& args) {
    Json options = args["options"];
    const bool inplace = options.value("inplace", false);
    M module = make(options);
    check_all_taken(options);
    module.train(args["training"].get<bool>());
    StateDict state;
    for (const auto& [name, at] : args["state"].items()) state.insert(name, input_at(in, at));
    const std::size_t own = module.state_dict().size();
    FERRITE_CHECK(own == state.size(), ValueError, "differential",
                  "expected {} parameters and buffers, got {}", state.size(), own);
    Tensors inputs;
    for (const Json& at : args["inputs"]) inputs.push_back(input_at(in, at));
    if (inplace) inputs[0] = inputs[0].clone();
    Tensors out;
    if constexpr (requires { call(module, state, inputs, args, in); })
      out = call(module, state, inputs, args, in);
    else
      out = call(module, state, inputs, args);
    for (const Json& at : args["state"]) out.push_back(input_at(in, at).detach());
    return out;
  };
}

/// Adds nn::Class, made by the expression of its options `a`.
#define FERRITE_MODULE(table, Class, ...) \
  table["nn." #Class] =                   \
      module_op<nn::Class>([]([[maybe_unused]] Json& a) { return nn::Class(__VA_ARGS__); })
/// Adds Class1d, Class2d and Class3d, in N dimensions.
#define FERRITE_MODULES(table, Class, ...)         \
  {                                                \
    [[maybe_unused]] constexpr int N = 1;          \
    FERRITE_MODULE(table, Class##1d, __VA_ARGS__); \
  }                                                \
  {                                                \
    [[maybe_unused]] constexpr int N = 2;          \
    FERRITE_MODULE(table, Class##2d, __VA_ARGS__); \
  }                                                \
  {                                                \
    [[maybe_unused]] constexpr int N = 3;          \
    FERRITE_MODULE(table, Class##3d, __VA_ARGS__); \
  }

}  // namespace ferrite::differential
