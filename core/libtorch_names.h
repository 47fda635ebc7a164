// Names of libtorch that have no counterpart here: the compiler's first error says what to write.
#pragma once

namespace ferrite {

namespace detail {
template <class...>
inline constexpr bool no_such_name = false;
}

namespace data {
template <class... Sampler, class... Args>
int make_data_loader(const Args&...) {
  static_assert(ferrite::detail::no_such_name<Args...>,
                "write data::DataLoader loader(dataset, {.batch_size = 64, .shuffle = true})");
  return 0;
}
}  // namespace data

namespace nn {
template <class... M>
struct AnyModule {
  template <class... Args>
  explicit AnyModule(const Args&...) {
    static_assert(ferrite::detail::no_such_name<Args...>,
                  "write std::shared_ptr<nn::Module>, or nn::Functional for a function");
  }
};
template <class... Args>
AnyModule(const Args&...) -> AnyModule<>;
}  // namespace nn

namespace jit {
template <class... Args>
int load(const Args&...) {
  static_assert(
      ferrite::detail::no_such_name<Args...>,
      "TorchScript files are not read: write torch.save(model.state_dict(), file) in Python and "
      "load(model, file) here");
  return 0;
}
}  // namespace jit

}  // namespace ferrite
