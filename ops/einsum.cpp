// einsum and tensordot (declared in ops/products.h).
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/products.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/views.h"

namespace ferrite {

using ops::composite;

namespace {

using T = const Tensor&;
using Labels = std::vector<int>;

constexpr int kLetters = 52;  // further labels are dimensions of "..."
constexpr int kLabels = kLetters + kMaxDims;
using Sizes = std::array<std::int64_t, kLabels>;

bool has(const Labels& labels, int label) {
  return std::ranges::find(labels, label) != labels.end();
}

int place(const Labels& labels, int label) {
  return static_cast<int>(std::ranges::find(labels, label) - labels.begin());
}

// ---- Contraction of tensors whose dimensions have labels

struct Labelled {
  Tensor t;
  Labels labels;

  std::int64_t size(const Labels& of) const {
    std::int64_t n = 1;
    for (int l : of) n *= t.shape()[place(labels, l)];
    return n;
  }
  /// With dimensions in the order of `wanted`.
  Tensor in_order(const Labels& wanted) const {
    Shape dims;
    for (int l : wanted) dims.push_back(place(labels, l));
    return t.permute(Dims(dims));
  }
  /// Summed over the labels for which `gone` is true.
  template <class Gone>
  Labelled summed(Gone gone) const {
    Shape dims;
    Labelled left;
    for (int l : labels) {
      if (gone(l))
        dims.push_back(place(labels, l));
      else
        left.labels.push_back(l);
    }
    left.t = dims.empty() ? t : sum(t, Dims(dims), false, t.dtype());
    return left;
  }
};

Labels joined(std::initializer_list<Labels> lists) {
  Labels all;
  for (const Labels& l : lists) all.insert(all.end(), l.begin(), l.end());
  return all;
}

/// The product of both, summed over the labels that are not among `kept`.
Labelled contract(const Labelled& left, const Labelled& right, const Labels& kept) {
  const auto unused_beside = [&](const Labelled& other) {
    return [&](int l) { return !has(other.labels, l) && !has(kept, l); };
  };
  const Labelled a = left.summed(unused_beside(right)), b = right.summed(unused_beside(left));
  Labels batch, rows, columns, inside;
  for (int l : a.labels) (!has(b.labels, l) ? rows : has(kept, l) ? batch : inside).push_back(l);
  for (int l : b.labels)
    if (!has(a.labels, l)) columns.push_back(l);
  const Labels labels = joined({batch, rows, columns});
  Shape shape;
  for (int l : labels) {
    const Labelled& from = has(a.labels, l) ? a : b;
    shape.push_back(from.t.shape()[place(from.labels, l)]);
  }
  const Tensor x = a.in_order(joined({batch, rows, inside}))
                       .reshape({a.size(batch), a.size(rows), a.size(inside)});
  const Tensor y = b.in_order(joined({batch, inside, columns}))
                       .reshape({b.size(batch), b.size(inside), b.size(columns)});
  const Tensor product = inside.empty() ? x * y : bmm(x, y);
  return {product.reshape(shape), labels};
}

// ---- Equations

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
  bool has_output = false;
};

Equation parse(std::string_view text, std::size_t operands) {
  Equation e{{""}, "", false};
  std::string* at = &e.inputs.back();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (c == ',' && !e.has_output) {
      at = &e.inputs.emplace_back();
    } else if (text.substr(i, 2) == "->" && !e.has_output) {
      e.has_output = true;
      at = &e.output;
      ++i;
    } else if (text.substr(i, 3) == "..." && at->find('.') == std::string::npos) {
      *at += '.';
      i += 2;
    } else {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      FERRITE_CHECK(letter, ValueError, "einsum",
                    "\"{}\" has an unexpected '{}' at position {}: expected letters, one \"...\" "
                    "for an operand, commas and one \"->\"",
                    text, c, i);
      *at += c;
    }
  }
  FERRITE_CHECK(e.inputs.size() == operands, ValueError, "einsum",
                "\"{}\" is for {} operands, got {}", text, e.inputs.size(), operands);
  return e;
}

/// Capital letters come first, as in PyTorch.
int label_of(char c) { return c >= 'a' ? 26 + c - 'a' : c - 'A'; }

/// The labels of `term`; '.' stands for the last `dots` of the `most` dimensions of "...".
Labels labels_of(const std::string& term, int dots, int most) {
  Labels labels;
  for (char c : term) {
    if (c != '.')
      labels.push_back(label_of(c));
    else
      for (int d = most - dots; d < most; ++d) labels.push_back(kLetters + d);
  }
  return labels;
}

int dots_of(const std::string& term, T t) {
  const bool dots = term.find('.') != std::string::npos;
  const int letters = static_cast<int>(term.size()) - dots;
  FERRITE_CHECK(dots ? t.dim() >= letters : t.dim() == letters, ShapeError, "einsum",
                "{} labels for an operand of {}", letters, t.shape());
  return dots ? t.dim() - letters : 0;
}

/// `t` with the diagonals of labels that occur twice.
Labelled diagonals(Tensor t, Labels labels) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    for (std::size_t j = i + 1; j < labels.size(); ++j) {
      if (labels[i] != labels[j]) continue;
      const int first = static_cast<int>(i), second = static_cast<int>(j);
      FERRITE_CHECK(t.size(first) == t.size(second), ShapeError, "einsum",
                    "a label stands for the sizes {} and {} of an operand of {}", t.size(first),
                    t.size(second), t.shape());
      t = movedim(diagonal(t, 0, first, second), -1, first);
      labels.erase(labels.begin() + second);
      --j;
    }
  }
  return {std::move(t), std::move(labels)};
}

/// Without the dimensions of size 1 that stand for larger ones.
Labelled without_broadcast(const Labelled& operand, const Sizes& sizes) {
  Labelled left{operand.t, {}};
  for (int l : operand.labels) {
    const int dim = static_cast<int>(left.labels.size());
    if (left.t.size(dim) == 1 && sizes[static_cast<std::size_t>(l)] != 1)
      left.t = left.t.squeeze(dim);
    else
      left.labels.push_back(l);
  }
  return left;
}

Sizes sizes_of(const std::vector<Labelled>& operands) {
  Sizes sizes;
  sizes.fill(-1);
  for (const Labelled& o : operands) {
    for (std::size_t i = 0; i < o.labels.size(); ++i) {
      std::int64_t& size = sizes[static_cast<std::size_t>(o.labels[i])];
      const std::int64_t n = o.t.shape()[static_cast<int>(i)];
      FERRITE_CHECK(size < 0 || size == 1 || n == 1 || n == size, ShapeError, "einsum",
                    "a label stands for the sizes {} and {}", size, n);
      if (size < 0 || size == 1) size = n;
    }
  }
  return sizes;
}

Labels output_labels(const Equation& e, const std::vector<Labelled>& operands, int dots,
                     std::string_view text) {
  const auto known = [&](int l) {
    return std::ranges::any_of(operands, [&](const Labelled& o) { return has(o.labels, l); });
  };
  if (e.has_output) {
    const Labels labels = labels_of(e.output, dots, dots);
    for (std::size_t i = 0; i < labels.size(); ++i)
      FERRITE_CHECK(known(labels[i]) && place(labels, labels[i]) == static_cast<int>(i), ValueError,
                    "einsum", "a label of the result occurs twice in it, or in no operand: \"{}\"",
                    text);
    return labels;
  }
  Labels labels;
  for (int d = 0; d < dots; ++d) labels.push_back(kLetters + d);
  for (int l = 0; l < kLetters; ++l) {
    std::ptrdiff_t count = 0;
    for (const std::string& term : e.inputs)
      count += std::ranges::count_if(term, [&](char c) { return c != '.' && label_of(c) == l; });
    if (count == 1) labels.push_back(l);
  }
  return labels;
}

Tensor contracted(std::string_view text, std::span<const Tensor> tensors) {
  const Equation e = parse(text, tensors.size());
  int most = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    most = std::max(most, dots_of(e.inputs[i], tensors[i]));
  std::vector<Labelled> operands;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    operands.push_back(
        diagonals(tensors[i], labels_of(e.inputs[i], dots_of(e.inputs[i], tensors[i]), most)));
  const Sizes sizes = sizes_of(operands);
  const Labels output = output_labels(e, operands, most, text);
  for (Labelled& o : operands) o = without_broadcast(o, sizes);
  Labelled result = operands[0];
  for (std::size_t i = 1; i < operands.size(); ++i) {
    Labels kept;
    for (int l = 0; l < kLabels; ++l)
      if (has(output, l) ||
          std::any_of(operands.begin() + static_cast<std::ptrdiff_t>(i) + 1, operands.end(),
                      [&](const Labelled& o) { return has(o.labels, l); }))
        kept.push_back(l);
    result = contract(result, operands[i], kept);
  }
  return result.summed([&](int l) { return !has(output, l); }).in_order(output);
}

}  // namespace

Tensor einsum(std::string_view equation, std::span<const Tensor> operands) {
  if (const auto cast = ops::autocast(AutocastOp::matmul, operands)) return einsum(equation, *cast);
  FERRITE_CHECK(!operands.empty(), ValueError, "einsum", "expected one operand or more");
  for (T t : operands) ops::check_defined(t, "einsum");
  return composite("einsum", [&] {
    for (T t : operands) {
      ops::check_same_device(operands[0], t, "einsum");
      FERRITE_CHECK(t.dtype() == operands[0].dtype() && t.dtype() != kBool, DTypeError, "einsum",
                    "expected operands of one dtype, and not bool, got {} and {}",
                    operands[0].dtype(), t.dtype());
    }
    return contracted(equation, operands);
  });
}

Tensor tensordot(T a, T b, const Shape& dims_a, const Shape& dims_b) {
  if (const auto cast = ops::autocast(AutocastOp::matmul, a, b)) {
    const auto& [x, y] = *cast;
    return tensordot(x, y, dims_a, dims_b);
  }
  return composite(
      "tensordot",
      [&] {
        FERRITE_CHECK(dims_a.size() == dims_b.size(), ValueError, "tensordot",
                      "{} dimensions of one tensor and {} of the other", dims_a, dims_b);
        Labelled left{a, {}}, right{b, {}};
        const auto sum_over = [](Tensor& t, int d) { t = sum(t, {d}, true, t.dtype()); };
        for (int d = 0; d < a.dim(); ++d) left.labels.push_back(d);
        for (int d = 0; d < b.dim(); ++d) right.labels.push_back(kMaxDims + d);
        const Labels kept = joined({left.labels, right.labels});
        for (int i = 0; i < dims_a.size(); ++i) {
          const int p = normalize_dim(dims_a[i], a.dim(), "tensordot"),
                    q = normalize_dim(dims_b[i], b.dim(), "tensordot");
          FERRITE_CHECK(a.dim() > 0 && b.dim() > 0 &&
                            (a.size(p) == b.size(q) || a.size(p) == 1 || b.size(q) == 1),
                        ShapeError, "tensordot",
                        "dimension {} of {} is summed with dimension {} of {}", p, a.shape(), q,
                        b.shape());
          if (a.size(p) != b.size(q)) a.size(p) == 1 ? sum_over(right.t, q) : sum_over(left.t, p);
          const int label = 2 * kMaxDims + i;
          left.labels[static_cast<std::size_t>(p)] = label;
          right.labels[static_cast<std::size_t>(q)] = label;
        }
        for (const Labelled* o : {&left, &right})
          for (int i = 0; i < dims_a.size(); ++i)
            FERRITE_CHECK(has(o->labels, 2 * kMaxDims + i), ValueError, "tensordot",
                          "a dimension is given twice in {} or {}", dims_a, dims_b);
        return contract(left, right, kept).t;
      },
      a, b);
}

Tensor tensordot(T a, T b, int dims) {
  if (const auto cast = ops::autocast(AutocastOp::matmul, a, b)) {
    const auto& [x, y] = *cast;
    return tensordot(x, y, dims);
  }
  return composite(
      "tensordot",
      [&] {
        FERRITE_CHECK(dims >= 0 && dims <= std::min(a.dim(), b.dim()), ValueError, "tensordot",
                      "expected 0 to {} dimensions, got {}", std::min(a.dim(), b.dim()), dims);
        Shape last, first;
        for (int d = 0; d < dims; ++d) {
          last.push_back(a.dim() - dims + d);
          first.push_back(d);
        }
        return tensordot(a, b, last, first);
      },
      a, b);
}

}  // namespace ferrite
