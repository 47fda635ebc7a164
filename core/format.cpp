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

/// How the elements that are shown look: all alike, and equally wide.
class Format {
 public:
  explicit Format(DType dtype) : dtype_(dtype) {}

  void count(const char* p) {
    if (!is_floating(dtype_)) return;
    const double v = floating_at(dtype_, p);
    if (!counts(v)) return;
    smallest_ = std::min(smallest_, std::abs(v));
    largest_ = std::max(largest_, std::abs(v));
    whole_ = whole_ && v == std::ceil(v);
  }
  void choose() {
    if (largest_ == 0) return;  // integers, or only zeros, infinities and NaN
    const bool scientific =
        largest_ / smallest_ > 1000 || largest_ > 1e8 || (!whole_ && smallest_ < 1e-4);
    style_ = scientific ? Style::scientific : whole_ ? Style::integers : Style::fixed;
  }
  void widen(const char* p) {
    if (!is_floating(dtype_) || counts(floating_at(dtype_, p)))
      width_ = std::max(width_, text(p).size());
  }

  std::size_t width() const { return width_; }
  std::string aligned(const char* p) const { return fmt::format("{:>{}}", text(p), width_); }
  std::string text(const char* p) const {
    if (dtype_ == kBool) return integer_at(kBool, p) ? "True" : "False";
    if (!is_floating(dtype_)) return fmt::format("{}", integer_at(dtype_, p));
    const double v = floating_at(dtype_, p);
    if (std::isnan(v)) return "nan";  // without the sign bit that some NaNs carry
    if (style_ == Style::scientific) return fmt::format("{:.4e}", v);
    if (style_ == Style::fixed) return fmt::format("{:.4f}", v);
    return fmt::format("{:.0f}{}", v, std::isinf(v) ? "" : ".");
  }

 private:
  enum class Style { integers, fixed, scientific };
  static bool counts(double v) { return std::isfinite(v) && v != 0; }

  DType dtype_;
  double smallest_ = std::numeric_limits<double>::infinity(), largest_ = 0;
  bool whole_ = true;
  Style style_ = Style::integers;
  std::size_t width_ = 1;
};

class Printer {
 public:
  explicit Printer(const Tensor& t)
      : t_(t), first_(static_cast<const char*>(t.data_ptr())), summarise_(t.numel() > kThreshold) {
    parts_.assign(is_complex(t.dtype()) ? 2 : 1, Format(real_type(t.dtype())));
    const auto each = [this](void (Format::*f)(const char*)) {
      visit(0, first_, [&](const char* p) {
        for (std::size_t i = 0; i < parts_.size(); ++i) (parts_[i].*f)(part(p, i));
      });
    };
    each(&Format::count);
    for (Format& part : parts_) part.choose();
    each(&Format::widen);
    width_ = parts_[0].width() + (parts_.size() == 2 ? parts_[1].width() + 1 : 0);
  }

  /// `indent`: columns already printed on the first line.
  std::string print(std::size_t indent) const { return print(0, first_, indent); }

 private:
  /// The real (0) or imaginary (1) part of an element.
  const char* part(const char* p, std::size_t i) const {
    return p + i * itemsize(real_type(t_.dtype()));
  }

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

  std::string text(const char* p) const {
    std::string out = parts_[0].aligned(p);
    if (parts_.size() == 1) return out;
    const std::string imaginary = parts_[1].text(part(p, 1));
    if (imaginary[0] != '-') out += '+';
    return out.append(imaginary).append("j");
  }

  std::string print(int dim, const char* p, std::size_t indent) const {
    if (dim == t_.dim()) return text(p);
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
  std::vector<Format> parts_;  // of the numbers, or of their real and imaginary parts
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
  const bool is_default =
      dtype() == get_default_dtype() ||
      (ferrite::is_complex(dtype()) && dtype() == complex_type(get_default_dtype()));
  bool show_dtype = !is_default && dtype() != kInt64 && dtype() != kBool;
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
