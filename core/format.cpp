// Tensor::str(): values as PyTorch's _tensor_str.py lays them out, with its default options.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ferrite/core/host_copy.h"
#include "ferrite/core/tensor.h"

namespace ferrite {

namespace {

constexpr std::int64_t kThreshold = 1000;  // tensors with more elements are summarised
constexpr std::int64_t kEdgeItems = 3;     // elements shown at either end of a summarised dimension
constexpr std::size_t kLineWidth = 80;

double floating_at(DType dtype, const char* p) {
  return dispatch_floating(dtype, "str", [&]<class T>() -> double {
    return static_cast<double>(static_cast<Compute<T>>(*reinterpret_cast<const T*>(p)));
  });
}

std::int64_t integer_at(DType dtype, const char* p) {
  return dispatch_types<std::int64_t, std::int32_t, std::int16_t, std::int8_t, std::uint8_t, bool>(
      dtype, "str", [&]<class T>() -> std::int64_t {
        return static_cast<std::int64_t>(*reinterpret_cast<const T*>(p));
      });
}

class Printer {
 public:
  explicit Printer(const Tensor& t)
      : t_(t), first_(static_cast<const char*>(t.data_ptr())), summarise_(t.numel() > kThreshold) {
    if (is_floating(t.dtype()))
      choose_floating_style();
    else
      visit(0, first_, [this](const char* p) { width_ = std::max(width_, text(p).size()); });
  }

  /// `indent`: columns already printed on the first line.
  std::string print(std::size_t indent) const { return print(0, first_, indent); }

 private:
  enum class Style { integers, fixed, scientific };

  bool elides(int dim) const { return summarise_ && t_.shape()[dim] > 2 * kEdgeItems; }
  const char* element(int dim, const char* p, std::int64_t i) const {
    return p + i * t_.strides()[dim] * static_cast<std::int64_t>(t_.itemsize());
  }

  /// Calls f(index) for each shown index of a dimension, and gap() once if some are left out.
  template <class F, class G>
  void for_shown(int dim, F&& f, G&& gap) const {
    const std::int64_t n = t_.shape()[dim];
    for (std::int64_t i = 0; i < n; ++i) {
      if (i == kEdgeItems && elides(dim)) {
        gap();
        i = n - kEdgeItems;
      }
      f(i);
    }
  }

  /// Calls f(pointer) for every element shown.
  template <class F>
  void visit(int dim, const char* p, const F& f) const {
    if (dim == t_.dim())
      f(p);
    else
      for_shown(
          dim, [&](std::int64_t i) { visit(dim + 1, element(dim, p, i), f); }, [] {});
  }

  void choose_floating_style() {
    double smallest = std::numeric_limits<double>::infinity(), largest = 0;
    bool whole = true;
    const auto counts = [](double v) { return std::isfinite(v) && v != 0; };
    visit(0, first_, [&](const char* p) {
      const double v = floating_at(t_.dtype(), p);
      if (!counts(v)) return;
      smallest = std::min(smallest, std::abs(v));
      largest = std::max(largest, std::abs(v));
      whole = whole && v == std::ceil(v);
    });
    if (largest == 0) return;  // only zeros, infinities and NaN
    const bool scientific =
        largest / smallest > 1000 || largest > 1e8 || (!whole && smallest < 1e-4);
    style_ = scientific ? Style::scientific : whole ? Style::integers : Style::fixed;
    visit(0, first_, [&](const char* p) {
      if (counts(floating_at(t_.dtype(), p))) width_ = std::max(width_, text(p).size());
    });
  }

  std::string text(const char* p) const {
    if (t_.dtype() == kBool) return integer_at(kBool, p) ? "True" : "False";
    if (!is_floating(t_.dtype())) return fmt::format("{}", integer_at(t_.dtype(), p));
    const double v = floating_at(t_.dtype(), p);
    if (std::isnan(v)) return "nan";  // without the sign bit that some NaNs carry
    if (style_ == Style::scientific) return fmt::format("{:.4e}", v);
    if (style_ == Style::fixed) return fmt::format("{:.4f}", v);
    return fmt::format("{:.0f}{}", v, std::isinf(v) ? "" : ".");
  }

  std::string print(int dim, const char* p, std::size_t indent) const {
    if (dim == t_.dim()) return fmt::format("{:>{}}", text(p), width_);
    return dim == t_.dim() - 1 ? print_row(dim, p, indent) : print_block(dim, p, indent);
  }

  std::string print_row(int dim, const char* p, std::size_t indent) const {
    const std::size_t room = indent < kLineWidth ? kLineWidth - indent : 0;
    const std::size_t per_line = std::max<std::size_t>(1, room / (width_ + 2));
    std::string out = "[";
    std::size_t count = 0;
    const auto put = [&](std::string_view item) {
      if (count > 0 && count % per_line == 0)
        out.append(",\n").append(indent + 1, ' ');
      else if (count > 0)
        out.append(", ");
      out.append(item);
      ++count;
    };
    for_shown(
        dim, [&](std::int64_t i) { put(print(dim + 1, element(dim, p, i), indent)); },
        [&] { put(" ..."); });
    return out.append("]");
  }

  std::string print_block(int dim, const char* p, std::size_t indent) const {
    std::string separator = ",";
    separator.append(static_cast<std::size_t>(t_.dim() - dim - 1), '\n').append(indent + 1, ' ');
    std::string out;
    const auto put = [&](std::string_view item) {
      out.append(out.empty() ? "[" : separator).append(item);
    };
    for_shown(
        dim, [&](std::int64_t i) { put(print(dim + 1, element(dim, p, i), indent + 1)); },
        [&] { put("..."); });
    return out.append("]");
  }

  const Tensor& t_;
  const char* first_;
  bool summarise_;
  Style style_ = Style::integers;
  std::size_t width_ = 1;
};

}  // namespace

std::string Tensor::str() const {
  constexpr std::string_view prefix = "tensor(";
  std::string out(prefix);
  if (!defined()) return out.append("undefined)");
  const Tensor host = detail::readable_on_host(*this, "print");

  std::vector<std::string> suffixes;
  if (!device().is_host()) suffixes.push_back(fmt::format("device='{}'", device()));
  bool show_dtype = dtype() != get_default_dtype() && dtype() != kInt64 && dtype() != kBool;
  if (numel() == 0) {
    out.append("[]");
    if (dim() != 1)
      suffixes.push_back(fmt::format("size=({})", fmt::join(shape().begin(), shape().end(), ", ")));
    show_dtype = dtype() != get_default_dtype();  // no value to show it
  } else {
    out.append(Printer(host).print(prefix.size()));
  }
  if (show_dtype) suffixes.push_back(fmt::format("dtype={}", dtype()));
  if (impl()->autograd)
    if (std::string note = impl()->autograd->note(*this); !note.empty())
      suffixes.push_back(std::move(note));

  const std::size_t newline = out.rfind('\n');
  std::size_t line = newline == std::string::npos ? out.size() + 2 : out.size() - newline + 1;
  for (const std::string& suffix : suffixes) {
    if (line + suffix.size() + 2 > kLineWidth) {
      out.append(",\n").append(prefix.size(), ' ');
      line = prefix.size() + suffix.size();
    } else {
      out.append(", ");
      line += suffix.size() + 2;
    }
    out.append(suffix);
  }
  return out.append(")");
}

}  // namespace ferrite
