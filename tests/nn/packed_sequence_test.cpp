#include "ferrite/nn/packed_sequence.h"

#include <doctest/doctest.h>

#include "ferrite/nn/recurrent.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace rnn = nn::utils::rnn;

namespace {

Tensor integers(const std::vector<std::int64_t>& values) {
  return from_vector(values, {static_cast<std::int64_t>(values.size())});
}

}  // namespace

TEST_CASE("sequences are packed and padded as in PyTorch's examples") {
  const Tensor a = integers({1, 2, 3}), b = integers({4, 5}), c = integers({6});
  const rnn::PackedSequence packed = rnn::pack_sequence({a, b, c});
  check_equal(packed.data, integers({1, 4, 6, 2, 5, 3}));
  check_equal(packed.batch_sizes, integers({3, 2, 1}));
  CHECK_FALSE(packed.sorted_indices.defined());

  const Tensor seq = tensor({{1, 2, 0}, {3, 0, 0}, {4, 5, 6}});
  const rnn::PackedSequence unsorted = rnn::pack_padded_sequence(seq, {2, 1, 3}, true, false);
  const auto [data, batch_sizes, sorted, back] = unsorted;
  check_equal(data, tensor({4, 1, 3, 5, 2, 6}));
  check_equal(batch_sizes, integers({3, 2, 1}));
  check_equal(sorted, integers({2, 0, 1}));
  check_equal(back, integers({1, 2, 0}));
  const auto [padded, lengths] = rnn::pad_packed_sequence(unsorted, true);
  check_equal(padded, seq);
  check_equal(lengths, integers({2, 1, 3}));
  Tensor steps_first, l;
  std::tie(steps_first, l) = rnn::pad_packed_sequence(unsorted, false, -1, 4);
  check_equal(steps_first, tensor({{1, 3, 4}, {2, -1, 5}, {-1, -1, 6}, {-1, -1, -1}}));

  check_equal(rnn::pad_sequence({a, b, c}), integers({1, 4, 6, 2, 5, 0, 3, 0, 0}).view({3, 3}));
  check_equal(rnn::pad_sequence({b, a}, true, 9, "left"),
              integers({9, 4, 5, 1, 2, 3}).view({2, 3}));
  const std::vector<Tensor> unpacked = rnn::unpack_sequence(rnn::pack_sequence({c, a, b}, false));
  REQUIRE(unpacked.size() == 3);
  check_equal(unpacked[0], c);
  check_equal(unpacked[1], a);
  check_equal(unpacked[2], b);
  check_equal(rnn::unpad_sequence(rnn::pad_sequence({b, a}), integers({2, 3}))[0], b);
}

TEST_CASE("packed sequences give what each sequence gives alone") {
  manual_seed(3);
  const TensorOptions f64{.dtype = kFloat64};
  nn::GRU gru(3, 4, {.num_layers = 2, .bidirectional = true});
  nn::LSTM lstm(3, 4, {.num_layers = 2, .bidirectional = true});
  gru.to(kFloat64), lstm.to(kFloat64);
  for (int round = 0; round < 10; ++round) {
    CAPTURE(round);
    const std::int64_t count = 1 + round % 4;
    const Tensor h_0 = randn({4, count, 4}, f64), c_0 = randn({4, count, 4}, f64);
    std::vector<Tensor> sequences;
    for (std::int64_t n = 0; n < count; ++n)
      sequences.push_back(randn({1 + randint(5, {1}).item<std::int64_t>(), 3}, f64));
    const rnn::PackedSequence packed = rnn::pack_sequence(sequences, false);
    const auto [of_gru, h_n] = gru(packed, h_0);
    const auto [of_lstm, state] = lstm(packed, {h_0, c_0});
    const std::vector<Tensor> by_gru = rnn::unpack_sequence(of_gru),
                              by_lstm = rnn::unpack_sequence(of_lstm);
    for (std::int64_t n = 0; n < count; ++n) {
      const auto at = static_cast<std::size_t>(n);
      const Tensor h = h_0.select(1, n), c = c_0.select(1, n);
      const auto [g, g_n] = gru(sequences[at], h);
      check_close(by_gru[at], g, 1e-12, 1e-13);
      check_close(h_n.select(1, n), g_n, 1e-12, 1e-13);
      const auto [l, l_n] = lstm(sequences[at], {h, c});
      check_close(by_lstm[at], l, 1e-12, 1e-13);
      check_close(state.h.select(1, n), l_n.h, 1e-12, 1e-13);
      check_close(state.c.select(1, n), l_n.c, 1e-12, 1e-13);
    }
  }
}

TEST_CASE("packed sequences: hooks, other dtypes, autocast") {
  manual_seed(3);
  nn::LSTM lstm(3, 4, {.num_layers = 2, .dropout = 0.5});
  const rnn::PackedSequence packed =
      rnn::pack_sequence({randn({5, 3}), randn({2, 3})}).to(kFloat64);
  CHECK(packed.data.dtype() == kFloat64);
  CHECK(packed.batch_sizes.dtype() == kInt64);
  lstm.to(kFloat64);
  lstm.register_forward_hook([](nn::Module&, std::span<const Tensor>, std::span<Tensor> outputs) {
    REQUIRE(outputs.size() == 4);  // data, batch_sizes, h and c
    outputs[0] = outputs[0] * 0 + 7;
  });
  const Tensor data = lstm(packed).output.data;
  check_equal(data, full({7, 4}, 7, {.dtype = kFloat64}));

  nn::GRU gru(3, 4);
  const AutocastGuard guard({.dtype = kBFloat16});
  const rnn::PackedSequence again = packed.to(kFloat32);
  const auto [output, h_n] = gru(again);
  check_close(output.data.to(kFloat32).narrow(0, 0, 2),
              gru(again.data.narrow(0, 0, 2)[None]).output[0].to(kFloat32), 0.02, 0.02);
  output.data.sum().backward();
  for (const Tensor& p : gru.parameters()) CHECK(p.grad().dtype() == kFloat32);
}

TEST_CASE("packed sequences reject what does not fit") {
  const Tensor x = ones({4, 3, 2});
  CHECK_THROWS_WITH_AS(rnn::pack_padded_sequence(x, {5, 3, 1}),
                       "[pack_padded_sequence] expected lengths from 1 to 4, the number of steps, "
                       "got 5",
                       ValueError);
  CHECK_THROWS_AS(rnn::pack_padded_sequence(x, {3, 1, 0}), ValueError);
  CHECK_THROWS_WITH_AS(rnn::pack_padded_sequence(x, {2, 3, 1}),
                       "[pack_padded_sequence] expected lengths that do not increase, got 3 "
                       "after 2: pass enforce_sorted = false",
                       ValueError);
  CHECK_THROWS_AS(rnn::pack_padded_sequence(x, {3, 1}), ShapeError);
  CHECK_THROWS_AS(rnn::pack_padded_sequence(x, {3, 1, 1}, true), ShapeError);
  CHECK_THROWS_AS(rnn::pack_padded_sequence(x, tensor({3.0, 2.0, 1.0})), DTypeError);
  CHECK_THROWS_AS(rnn::pack_padded_sequence(ones({4}), {1}), ShapeError);
  CHECK_THROWS_AS(rnn::pack_padded_sequence(ones({4, 0, 2}), std::vector<std::int64_t>()),
                  ValueError);
  CHECK_THROWS_AS(rnn::pack_sequence({ones({2, 3}), ones({0, 3})}), ShapeError);
  CHECK_THROWS_AS(rnn::pack_sequence(std::vector<Tensor>()), ValueError);
  CHECK_THROWS_AS(rnn::pad_sequence(std::vector<Tensor>()), ValueError);
  CHECK_THROWS_AS(rnn::pad_sequence({ones({2})}, false, 0, "middle"), ValueError);
  CHECK_THROWS_AS(rnn::pad_sequence({ones({2, 3}), ones({2, 4})}), ShapeError);

  const rnn::PackedSequence packed = rnn::pack_padded_sequence(x, {3, 2, 2});
  CHECK_THROWS_AS(rnn::pad_packed_sequence(packed, false, 0, 2), ValueError);
  nn::LSTM lstm(2, 4);
  CHECK_THROWS_WITH_AS(nn::LSTM(3, 4)(packed),
                       "[LSTM] expected packed inputs of size 3, got float32[7, 2] on cpu",
                       ShapeError);
  CHECK_THROWS_AS(lstm(packed, {ones({1, 2, 4}), ones({1, 3, 4})}), ShapeError);
  rnn::PackedSequence broken = packed;
  broken.batch_sizes = integers({3, 3});
  CHECK_THROWS_AS(lstm(broken), ValueError);
  broken.batch_sizes = integers({3, 1, 3});
  CHECK_THROWS_AS(lstm(broken), ValueError);
  broken = packed;
  broken.sorted_indices = integers({0, 1});
  CHECK_THROWS_AS(lstm(broken), ShapeError);
  broken.sorted_indices = integers({0, 1, 3});
  CHECK_THROWS_AS(rnn::pad_packed_sequence(broken), ValueError);
  CHECK_THROWS_AS(lstm(rnn::PackedSequence()), ShapeError);
}
