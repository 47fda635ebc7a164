// oneDNN's convolutions of float32 tensors, on the threads of our pool: oneDNN's own stay out of
// the way, and the bits do not depend on how many there are. Forward and by the input a primitive
// is that of a single image, so that the bits do not depend on the batch either, by the size of
// which oneDNN chooses kernels and how they block. By the weights the batch is cut into chunks by
// size.
#include <dlfcn.h>

#include <array>
#include <dnnl.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/cpu/conv/engines.h"
#include "ferrite/kernels/cpu/pack.h"

namespace ferrite::kernels::cpu::onednn {

namespace {

using dnnl::memory;

/// While it lives, OpenMP regions of the calling thread have one thread.
class OneOmpThread {
 public:
  OneOmpThread() : before_(functions().get ? functions().get() : 0) {
    if (before_) functions().set(1);
  }
  ~OneOmpThread() {
    if (before_) functions().set(before_);
  }
  OneOmpThread(const OneOmpThread&) = delete;
  OneOmpThread& operator=(const OneOmpThread&) = delete;

 private:
  struct Functions {
    int (*get)();
    void (*set)(int);
  };
  /// oneDNN may be built on OpenMP or not.
  static const Functions& functions() {
    static const Functions found = [] {
      const Functions f{
          reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads")),
          reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))};
      return f.get && f.set ? f : Functions{};
    }();
    return found;
  }

  int before_;
};

dnnl::engine& engine() {
  static dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}
dnnl::stream& stream() {
  thread_local dnnl::stream instance(engine());
  return instance;
}

enum class Kind : std::int64_t { forward, data, weights };

/// Everything a primitive depends on; the batch is an image, or that of a chunk.
struct Problem {
  Kind kind;
  std::int64_t batch, in, height, width, out, out_height, out_width, kernel_height, kernel_width;
  ConvParams params;
  bool input_last, output_last, bias;
  bool relu = false;

  auto key() const {
    return std::array{static_cast<std::int64_t>(kind),
                      batch,
                      in,
                      height,
                      width,
                      out,
                      out_height,
                      out_width,
                      kernel_height,
                      kernel_width,
                      params.stride[0],
                      params.stride[1],
                      params.padding[0],
                      params.padding[1],
                      params.dilation[0],
                      params.dilation[1],
                      params.groups,
                      std::int64_t{input_last},
                      std::int64_t{output_last},
                      std::int64_t{bias},
                      std::int64_t{relu}};
  }
  std::int64_t input_size() const { return in * height * width; }
  std::int64_t output_size() const { return out * out_height * out_width; }
};

struct Primitive {
  dnnl::primitive run;
  memory::desc input, weights, output, bias, scratchpad;
};

/// The layout of a view's images, however far apart they are: 1 channels-last, 0 contiguous, -1
/// neither.
int layout_of(const View& v) {
  std::int64_t plain = 1, last = 1;
  bool is_plain = true, is_last = true;
  for (const int d : {3, 2, 1}) {
    is_plain = is_plain && (v.sizes[d] == 1 || v.strides[d] == plain);
    plain *= v.sizes[d];
  }
  for (const int d : {1, 3, 2}) {
    is_last = is_last && (v.sizes[d] == 1 || v.strides[d] == last);
    last *= v.sizes[d];
  }
  return is_plain ? 0 : is_last ? 1 : -1;
}

memory::desc image_desc(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w, bool last) {
  return {{n, c, h, w},
          memory::data_type::f32,
          last ? memory::format_tag::nhwc : memory::format_tag::nchw};
}

/// A weight of any strides.
memory::desc weight_desc(const View& w, std::int64_t groups) {
  const auto s = w.strides;
  if (groups == 1)
    return {{w.sizes[0], w.sizes[1], w.sizes[2], w.sizes[3]},
            memory::data_type::f32,
            memory::dims{s[0], s[1], s[2], s[3]}};
  const std::int64_t outs = w.sizes[0] / groups;
  return {{groups, outs, w.sizes[1], w.sizes[2], w.sizes[3]},
          memory::data_type::f32,
          memory::dims{outs * s[0], s[0], s[1], s[2], s[3]}};
}

/// Null where oneDNN has nothing but its reference loops.
std::unique_ptr<Primitive> make(const Problem& p) {
  const ConvParams& c = p.params;
  const auto after = [&](int i, std::int64_t in, std::int64_t kernel, std::int64_t out) {
    return std::max<std::int64_t>(
        0, (out - 1) * c.stride[i] + c.dilation[i] * (kernel - 1) + 1 - in - c.padding[i]);
  };
  const memory::desc input = image_desc(p.batch, p.in, p.height, p.width, p.input_last);
  const memory::desc output = image_desc(p.batch, p.out, p.out_height, p.out_width, p.output_last);
  memory::dims kernel{p.out, p.in / c.groups, p.kernel_height, p.kernel_width};
  if (c.groups > 1) {
    kernel[0] /= c.groups;
    kernel.insert(kernel.begin(), c.groups);
  }
  const memory::desc weights(kernel, memory::data_type::f32, memory::format_tag::any);
  const memory::desc bias =
      p.bias ? memory::desc({p.out}, memory::data_type::f32, memory::format_tag::a)
             : memory::desc();
  const memory::dims stride{c.stride[0], c.stride[1]};
  const memory::dims dilation{c.dilation[0] - 1, c.dilation[1] - 1};
  const memory::dims before{c.padding[0], c.padding[1]};
  const memory::dims behind{after(0, p.height, p.kernel_height, p.out_height),
                            after(1, p.width, p.kernel_width, p.out_width)};
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (p.relu) {
    dnnl::post_ops after_sum;
    after_sum.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    attr.set_post_ops(after_sum);
  }
  constexpr auto direct = dnnl::algorithm::convolution_direct;
  const auto usable = [](const auto& desc) {
    return std::string_view(desc.impl_info_str()).find("ref") == std::string_view::npos;
  };
  try {
    using Forward = dnnl::convolution_forward;
    const Forward::primitive_desc forward(
        Forward::desc(p.kind == Kind::forward ? dnnl::prop_kind::forward_inference
                                              : dnnl::prop_kind::forward_training,
                      direct, input, weights, bias, output, stride, dilation, before, behind),
        attr, engine());
    if (p.kind == Kind::forward) {
      if (!usable(forward)) return nullptr;
      return std::make_unique<Primitive>(Primitive{Forward(forward), input, forward.weights_desc(),
                                                   output, bias, forward.scratchpad_desc()});
    }
    if (p.kind == Kind::data) {
      using Data = dnnl::convolution_backward_data;
      const Data::primitive_desc data(
          Data::desc(direct, input, weights, output, stride, dilation, before, behind), attr,
          engine(), forward);
      if (!usable(data)) return nullptr;
      return std::make_unique<Primitive>(
          Primitive{Data(data), input, data.weights_desc(), output, bias, data.scratchpad_desc()});
    }
    using Weights = dnnl::convolution_backward_weights;
    const Weights::primitive_desc by_weights(
        Weights::desc(direct, input, weights, bias, output, stride, dilation, before, behind), attr,
        engine(), forward);
    if (!usable(by_weights)) return nullptr;
    return std::make_unique<Primitive>(Primitive{Weights(by_weights), input,
                                                 by_weights.diff_weights_desc(), output, bias,
                                                 by_weights.scratchpad_desc()});
  } catch (const dnnl::error&) {  // not implemented
    return nullptr;
  }
}

/// The primitive for a problem, made once. Never destroyed: they outlive every thread's work.
const Primitive* find(const Problem& p) {
  static auto& mutex = *new std::mutex;
  static auto& made = *new std::map<decltype(p.key()), std::unique_ptr<Primitive>>;
  const auto key = p.key();
  std::lock_guard lock(mutex);
  const auto at = made.find(key);
  if (at != made.end()) return at->second.get();
  const OneOmpThread guard;
  return made.emplace(key, make(p)).first->second.get();
}

/// How a batch is cut: `grain` images a chunk, the last one possibly fewer.
struct Chunks {
  std::int64_t grain, count;
  Chunks(std::int64_t images, std::int64_t most)
      : grain((images + most - 1) / most), count((images - 1) / grain + 1) {}
};

memory at(const memory::desc& desc, const void* data) {
  return memory(desc, engine(), const_cast<void*>(data));
}

void reorder(const memory& from, const memory& to) {
  const OneOmpThread guard;
  dnnl::reorder(from, to).execute(stream(), const_cast<memory&>(from), const_cast<memory&>(to));
}

/// The primitives of a problem's chunks: whole ones, and the last.
struct Primitives {
  const Primitive *whole, *last;
  Primitives(Problem p, std::int64_t images, const Chunks& chunks) {
    p.batch = chunks.grain;
    whole = find(p);
    p.batch = images - (chunks.count - 1) * chunks.grain;
    last = whole ? find(p) : nullptr;
  }
  explicit operator bool() const { return whole && last && whole->weights == last->weights; }
  const Primitive& of(std::int64_t chunk, const Chunks& chunks) const {
    return chunk == chunks.count - 1 ? *last : *whole;
  }
};

/// Runs the primitive of one image for `images` of them, after set(arguments, image).
template <class Set>
void run_images(const Primitive& p, std::int64_t images, Set set) {
  constexpr std::int64_t kChunks = 16;
  parallel_for(images, (images + kChunks - 1) / kChunks, [&](std::int64_t begin, std::int64_t end) {
    const OneOmpThread guard;
    const Scratch<char> scratchpad(static_cast<std::int64_t>(p.scratchpad.get_size()));
    std::unordered_map<int, memory> arguments{
        {DNNL_ARG_SCRATCHPAD, at(p.scratchpad, scratchpad.data())}};
    for (std::int64_t image = begin; image < end; ++image) {
      set(arguments, image);
      p.run.execute(stream(), arguments);
    }
  });
}

/// Runs `execute(primitive, chunk, first image, arguments)` for every chunk.
template <class Execute>
void run_chunks(const Primitives& primitives, const Chunks& chunks, Execute execute) {
  parallel_for(chunks.count, 1, [&](std::int64_t chunk, std::int64_t) {
    const OneOmpThread guard;
    const Primitive& p = primitives.of(chunk, chunks);
    const Scratch<char> scratchpad(static_cast<std::int64_t>(p.scratchpad.get_size()));
    std::unordered_map<int, memory> arguments{
        {DNNL_ARG_SCRATCHPAD, at(p.scratchpad, scratchpad.data())}};
    execute(p, chunk, chunk * chunks.grain, arguments);
    p.run.execute(stream(), arguments);
  });
}

std::optional<Problem> problem(Kind kind, const View& input, const View& weight, const View& output,
                               bool bias, const ConvParams& params) {
  const int in = layout_of(input), out = layout_of(output);
  if (input.dtype != kFloat32 || in < 0 || out < 0 || input.numel == 0 || output.numel == 0)
    return {};
  return Problem{kind,
                 1,
                 input.sizes[1],
                 input.sizes[2],
                 input.sizes[3],
                 output.sizes[1],
                 output.sizes[2],
                 output.sizes[3],
                 weight.sizes[2],
                 weight.sizes[3],
                 params,
                 in == 1,
                 out == 1,
                 bias};
}

bool contiguous(const View& bias) { return !bias.data || bias.numel == 1 || bias.strides[0] == 1; }

/// The weights as the primitive wants them.
Scratch<char> reordered(const Primitive& p, const View& weight, std::int64_t groups) {
  Scratch<char> memory(static_cast<std::int64_t>(p.weights.get_size()));
  reorder(at(weight_desc(weight, groups), weight.data), at(p.weights, memory.data()));
  return memory;
}

}  // namespace

bool available() { return true; }

bool conv2d(const View& out, const View& input, const View& weight, const View& bias,
            const ConvParams& params) {
  auto p = problem(Kind::forward, input, weight, out, bias.data != nullptr, params);
  if (!p || !contiguous(bias)) return false;
  p->relu = params.activation == Activation::relu;
  const Primitive* const c = find(*p);
  if (!c) return false;
  const Scratch<char> weights = reordered(*c, weight, params.groups);
  run_images(*c, input.sizes[0], [&](auto& arguments, std::int64_t image) {
    arguments[DNNL_ARG_SRC] = at(c->input, input.as<float>() + image * input.strides[0]);
    arguments[DNNL_ARG_WEIGHTS] = at(c->weights, weights.data());
    if (bias.data) arguments[DNNL_ARG_BIAS] = at(c->bias, bias.data);
    arguments[DNNL_ARG_DST] = at(c->output, out.as<float>() + image * out.strides[0]);
  });
  return true;
}

bool conv2d_data(const View& grad_input, const View& grad, const View& weight, const View& bias,
                 const ConvParams& params) {
  const auto p = problem(Kind::data, grad_input, weight, grad, false, params);
  if (!p || bias.data) return false;
  const Primitive* const c = find(*p);
  if (!c) return false;
  const Scratch<char> weights = reordered(*c, weight, params.groups);
  run_images(*c, grad.sizes[0], [&](auto& arguments, std::int64_t image) {
    arguments[DNNL_ARG_DIFF_SRC] =
        at(c->input, grad_input.as<float>() + image * grad_input.strides[0]);
    arguments[DNNL_ARG_WEIGHTS] = at(c->weights, weights.data());
    arguments[DNNL_ARG_DIFF_DST] = at(c->output, grad.as<float>() + image * grad.strides[0]);
  });
  return true;
}

bool conv2d_weight(const View& grad_weight, const View& grad_bias, const View& input,
                   const View& grad, const ConvParams& params) {
  const auto p =
      problem(Kind::weights, input, grad_weight, grad, grad_bias.data != nullptr, params);
  const auto dense = [](const View& v, std::int64_t image) {
    return v.sizes[0] == 1 || v.strides[0] == image;
  };
  if (!p || !contiguous(grad_bias) || !dense(input, p->input_size()) ||
      !dense(grad, p->output_size()))
    return false;
  // A sum for every chunk, as long as those stay small.
  constexpr std::int64_t kBytes = 8 << 20, kMostChunks = 16;
  const Chunks chunks(input.sizes[0],
                      std::clamp<std::int64_t>(kBytes / 4 / grad_weight.numel, 1, kMostChunks));
  const Primitives primitives(*p, input.sizes[0], chunks);
  if (!primitives) return false;
  const std::int64_t size =
      static_cast<std::int64_t>(primitives.whole->weights.get_size() / sizeof(float));
  const Scratch<float> sums(chunks.count * size), bias_sums(chunks.count * p->out);
  run_chunks(primitives, chunks,
             [&](const Primitive& c, std::int64_t chunk, std::int64_t image, auto& arguments) {
               arguments[DNNL_ARG_SRC] = at(c.input, input.as<float>() + image * p->input_size());
               arguments[DNNL_ARG_DIFF_DST] =
                   at(c.output, grad.as<float>() + image * p->output_size());
               arguments[DNNL_ARG_DIFF_WEIGHTS] = at(c.weights, sums.data() + chunk * size);
               if (p->bias)
                 arguments[DNNL_ARG_DIFF_BIAS] = at(c.bias, bias_sums.data() + chunk * p->out);
             });
  parallel_for(size, 32768, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = 1; k < chunks.count; ++k)
      add_run(sums.data() + begin, sums.data() + k * size + begin, end - begin);
  });
  if (p->bias) {
    for (std::int64_t k = 1; k < chunks.count; ++k)
      add_run(bias_sums.data(), bias_sums.data() + k * p->out, p->out);
    copy_run(grad_bias.as<float>(), bias_sums.data(), p->out);
  }
  reorder(at(primitives.whole->weights, sums.data()),
          at(weight_desc(grad_weight, params.groups), grad_weight.data));
  return true;
}

}  // namespace ferrite::kernels::cpu::onednn
