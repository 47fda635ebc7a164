#include "ferrite/kernels/random.h"

#include "ferrite/kernels/cpu/random.h"
#include "ferrite/kernels/cuda/random.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

void uniform(const Stream& stream, const View& out, PhiloxState state, double low, double high) {
  launch(
      stream, "uniform", [=] { cpu::uniform(out, state, low, high); },
      [&] { cuda::uniform(stream, out, state, low, high); });
}
void normal(const Stream& stream, const View& out, PhiloxState state, double mean, double std) {
  launch(
      stream, "normal", [=] { cpu::normal(out, state, mean, std); },
      [&] { cuda::normal(stream, out, state, mean, std); });
}
void random_integers(const Stream& stream, const View& out, PhiloxState state, std::int64_t low,
                     std::int64_t high) {
  launch(
      stream, "randint", [=] { cpu::random_integers(out, state, low, high); },
      [&] { cuda::random_integers(stream, out, state, low, high); });
}
void bernoulli(const Stream& stream, const View& out, PhiloxState state, double p) {
  launch(
      stream, "bernoulli", [=] { cpu::bernoulli(out, state, p); },
      [&] { cuda::bernoulli(stream, out, state, p); });
}
void bernoulli(const Stream& stream, const View& out, PhiloxState state, const View& p) {
  launch(
      stream, "bernoulli", [=] { cpu::bernoulli(out, state, p); },
      [&] { cuda::bernoulli(stream, out, state, p); });
}
void permutation(const Stream& stream, const View& out, PhiloxState state) {
  launch(
      stream, "randperm", [=] { cpu::permutation(out, state); },
      [&] { cuda::permutation(stream, out, state); });
}

}  // namespace ferrite::kernels
