// Two training passes of ranks that share batches, against a single process with whole batches.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <functional>
#include <memory>
#include <vector>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/nn/module.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/parallel/comm/local/local_group.h"
#include "ferrite/parallel/ddp/sync_batch_norm.h"
#include "ferrite/tests/support/close.h"

namespace ferrite::test {

struct PartsOfBatch {
  std::function<std::unique_ptr<nn::Module>()> make;
  std::vector<std::int64_t> cuts;  ///< of the batch: rank r has the samples from [r] to [r + 1]
  MemoryFormat format = kContiguous;
  DType dtype = kFloat64;
  double tolerance = 1e-12;
  Shape sample = {2, 6, 6};
  std::vector<Device> devices = {};  ///< of the ranks; empty: the host
};

namespace passes {

/// Outputs and input gradients of two passes, and the state after them; on the host.
struct Passes {
  std::vector<Tensor> outputs, input_gradients, gradients, buffers;
};

inline Passes two_passes(nn::Module& model, const PartsOfBatch& c, const std::vector<Tensor>& x,
                         const std::vector<Tensor>& dy, std::int64_t begin, std::int64_t end,
                         const Device& device) {
  Passes result;
  const auto home = [](const Tensor& t) { return t.detach().to(Device()); };
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Tensor part = x[i].narrow(0, begin, end - begin).clone().contiguous(c.format).to(device);
    part.set_requires_grad();
    const Tensor y = model(part);
    y.backward(dy[i].narrow(0, begin, end - begin).to(device));
    result.outputs.push_back(home(y));
    result.input_gradients.push_back(home(part.grad()));
  }
  for (const Tensor& p : model.parameters()) result.gradients.push_back(home(p.grad()));
  for (const Tensor& b : model.buffers()) result.buffers.push_back(home(b));
  return result;
}

}  // namespace passes

inline void check_parts(const PartsOfBatch& c) {
  const std::int64_t n = c.cuts.back();
  const int ranks = static_cast<int>(c.cuts.size()) - 1;
  const std::string what = fmt::format("{} ranks, {}", ranks, c.dtype);
  CAPTURE(what);
  Generator random(3);
  const auto noise = [&](Shape shape) {
    return randn(shape, {.dtype = kFloat64}, &random).to(c.dtype);
  };
  Shape batch{n};
  for (const std::int64_t s : c.sample) batch.push_back(s);
  const std::unique_ptr<nn::Module> whole = c.make();
  whole->to(c.dtype);
  const StateDict start = [&] {
    StateDict copy;
    for (const auto& [name, t] : whole->state_dict()) copy.insert(name, t.clone());
    return copy;
  }();
  const std::vector<Tensor> x{noise(batch) + 1.0, noise(batch) * 2.0};
  const Shape logits = no_grad([&] {
    const std::unique_ptr<nn::Module> other = c.make();
    other->to(c.dtype);
    return (*other)(x[0]).shape();
  });
  const std::vector<Tensor> dy{noise(logits), noise(logits)};
  const passes::Passes expected = passes::two_passes(*whole, c, x, dy, 0, n, Device());

  std::vector<passes::Passes> parts(static_cast<std::size_t>(ranks));
  parallel::run_ranks(ranks,
                      [&](parallel::ProcessGroup& group) {
                        const auto r = static_cast<std::size_t>(group.rank());
                        const Device device = c.devices.empty() ? Device() : c.devices[r];
                        const std::unique_ptr<nn::Module> model = c.make();
                        model->to(c.dtype);
                        model->load_state_dict(start);
                        model->to(device);
                        parallel::convert_sync_batchnorm(*model);
                        parts[r] =
                            passes::two_passes(*model, c, x, dy, c.cuts[r], c.cuts[r + 1], device);
                      },
                      {.timeout = std::chrono::seconds(60)});

  const double t = c.tolerance, sums = 20 * c.tolerance;
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::vector<Tensor> outputs, gradients;
    for (const passes::Passes& p : parts) {
      outputs.push_back(p.outputs[i]);
      gradients.push_back(p.input_gradients[i]);
    }
    check_close(cat(outputs, 0), expected.outputs[i], t, 10 * t);
    check_close(cat(gradients, 0), expected.input_gradients[i], sums, sums);
  }
  for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
    Tensor total = parts[0].gradients[i];
    for (std::size_t r = 1; r < parts.size(); ++r) total = total + parts[r].gradients[i];
    check_close(total, expected.gradients[i], sums, sums);
  }
  for (const passes::Passes& p : parts)
    for (std::size_t i = 0; i < expected.buffers.size(); ++i) {
      check_close(p.buffers[i], expected.buffers[i], t, t);
      check_close(p.buffers[i], parts[0].buffers[i], 0, 0);
    }
}

}  // namespace ferrite::test
