// The profiler sees every op of the table, and its backward.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/profiler/profile.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/ops/op_run.h"
#include "ferrite/tests/ops/op_table.h"

using namespace ferrite;
using namespace ferrite::test;
using profiler::HostEvent;
using profiler::Kind;
using profiler::Profile;
using profiler::Recording;

namespace {

const HostEvent* first(const Recording& r, Kind kind, std::string_view name) {
  const auto found = std::ranges::find_if(
      r.host, [&](const HostEvent& e) { return e.kind == kind && e.name == name; });
  return found != r.host.end() ? &*found : nullptr;
}

/// Whether one is in the other, itself or further down.
bool is_within(const Recording& r, const HostEvent* inner, const HostEvent* outer) {
  while (inner && inner != outer)
    inner = inner->parent < 0 ? nullptr : &r.host[static_cast<std::size_t>(inner->parent)];
  return inner == outer;
}

}  // namespace

TEST_CASE("every op of the table is an event, with the shapes of its inputs") {
  std::size_t ops = 0;
  for (const Op& op : op_table()) {
    CAPTURE(op.name);
    const std::vector<Tensor> inputs = make_inputs(op, kFloat32, Device());
    const NoGradGuard off;
    Profile profile({.shapes = true});
    const std::vector<Tensor> outputs = op.call(inputs);
    profile.stop();
    const Recording& r = profile.recording();
    const bool any = std::ranges::any_of(r.host, [](auto& e) { return e.kind == Kind::op; });
    // What gives its input back has done nothing; memory alone is no op.
    if (!any && !inputs.empty() && outputs[0].defined() && outputs[0].is_same(inputs[0])) continue;
    if (!any && (op.name.starts_with("empty") || op.name == "tensor")) continue;
    CHECK_MESSAGE(any, op.name, " is not seen");
    // Most have the op's name; some are a method or a form of another.
    ops += first(r, Kind::op, op.name) != nullptr;
    for (const HostEvent& e : r.host) {
      REQUIRE(e.self_time <= e.time);
      if (e.kind == Kind::op) REQUIRE(e.inputs >= 0);
    }
  }
  CHECK(ops > op_table().size() * 3 / 4);
  MESSAGE(ops << " of " << op_table().size() << " under their own names");
}

TEST_CASE("the backward of an op is named and numbered after it") {
  const Tensor a = ones({3, 4}).set_requires_grad(), b = ones({4, 2}).set_requires_grad();
  Profile profile;
  const Tensor product = matmul(a, b);
  const Tensor loss = sum(mul(product, product));
  loss.backward();
  profile.stop();
  const Recording& r = profile.recording();
  for (const char* name : {"matmul", "mul", "sum"}) {
    CAPTURE(name);
    const HostEvent *op = first(r, Kind::op, name), *back = first(r, Kind::backward, name);
    REQUIRE(op);
    REQUIRE(back);
    CHECK(back->sequence >= 0);
    // The node may have been made by an op within, as mm by matmul.
    const auto maker = std::ranges::find_if(r.host, [&](const HostEvent& e) {
      return e.kind == Kind::op && e.sequence == back->sequence;
    });
    REQUIRE(maker != r.host.end());
    CHECK(is_within(r, &*maker, op));
    CHECK(back->begin >= op->begin + op->time);
  }
  const HostEvent* grad = first(r, Kind::backward, "accumulate_grad");
  REQUIRE(grad);
  CHECK(grad->sequence == -1);
}

TEST_CASE("backward in threads of devices is recorded there") {
  const Tensor a = ones({8}, {.device = "cpu:1"}).set_requires_grad();
  Profile profile({.memory = true});
  const Tensor b = mul(a, 2).to("cpu:2");
  sum(mul(b, b)).backward();
  profile.stop();
  const Recording& r = profile.recording();
  CHECK(r.threads.size() >= 2);
  std::set<std::uint32_t> threads;
  for (const HostEvent& e : r.host)
    if (e.kind == Kind::backward && e.sequence >= 0) threads.insert(e.thread);
  CHECK(threads.size() == 2);
  std::map<std::string, std::int64_t> time;
  for (const profiler::DeviceEvent& e : r.device) {
    REQUIRE(e.time >= 0);
    REQUIRE(e.host >= 0);
    time[e.device.str()] += e.time;
  }
  CHECK(time.size() == 2);
  CHECK(r.peak_memory("cpu:1") > 0);
  CHECK(r.peak_memory("cpu:2") > 0);
  CHECK(r.unfinished == 0);
}
