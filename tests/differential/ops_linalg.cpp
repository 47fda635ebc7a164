// Sums of products, distances and linear algebra.
#include "ferrite/ops/linalg.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/products.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/differential/ops.h"

namespace ferrite::differential {

namespace {

using In = const Tensors&;
using Args = const Json&;

}  // namespace

void add_distances(Table& t) {
  t["einsum"] = [](In x, Args a) { return Tensors{einsum(a["equation"].get<std::string>(), x)}; };
  t["tensordot"] = [](In x, Args a) {
    return Tensors{tensordot(x[0], x[1], to_shape(a["left"]), to_shape(a["right"]))};
  };
  t["inner"] = [](In x, Args) { return Tensors{inner(x[0], x[1])}; };
  t["kron"] = [](In x, Args) { return Tensors{kron(x[0], x[1])}; };
  using Added = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, Scalar, Scalar);
  const auto add = [&](const char* name, Added f) {
    t[name] = [f](In x, Args a) {
      return Tensors{f(x[0], x[1], x[2], to_scalar(a["beta"]), to_scalar(a["alpha"]))};
    };
  };
  add("baddbmm", baddbmm), add("addbmm", addbmm), add("addmv", addmv), add("addr", addr);
  t["cross"] = [](In x, Args a) { return Tensors{cross(x[0], x[1], maybe<int>(a, "dim"))}; };
  t["bilinear"] = [](In x, Args) {
    return Tensors{bilinear(x[0], x[1], x[2], optional_input(x, 3))};
  };
  t["cdist"] = [](In x, Args a) {
    return Tensors{cdist(x[0], x[1], to_scalar(a["p"]).to<double>())};
  };
  t["pdist"] = [](In x, Args a) { return Tensors{pdist(x[0], to_scalar(a["p"]).to<double>())}; };
  t["pairwise_distance"] = [](In x, Args a) {
    return Tensors{
        pairwise_distance(x[0], x[1], to_scalar(a["p"]).to<double>(), a["eps"], a["keepdim"])};
  };
  t["cosine_similarity"] = [](In x, Args a) {
    return Tensors{cosine_similarity(x[0], x[1], a["dim"])};
  };
  t["normalize"] = [](In x, Args a) {
    return Tensors{normalize(x[0], to_scalar(a["p"]).to<double>(), a["dim"])};
  };
}

void add_linalg(Table& t) {
  const auto add = [&](const char* name, Tensor (*f)(const Tensor&)) {
    t[name] = [f](In x, Args) { return Tensors{f(x[0])}; };
  };
  add("cholesky", linalg::cholesky), add("inv", linalg::inv), add("det", linalg::det);
  add("eigvalsh", linalg::eigvalsh), add("svdvals", linalg::svdvals);
  t["solve"] = [](In x, Args) { return Tensors{linalg::solve(x[0], x[1])}; };
  t["solve_triangular"] = [](In x, Args a) {
    return Tensors{linalg::solve_triangular(x[0], x[1], a["upper"], a["left"], a["unit"])};
  };
  t["cholesky_solve"] = [](In x, Args a) {
    return Tensors{cholesky_solve(x[0], x[1], a["upper"])};
  };
  t["multi_dot"] = [](In x, Args) { return Tensors{linalg::multi_dot(x)}; };
  t["vecdot"] = [](In x, Args a) { return Tensors{linalg::vecdot(x[0], x[1], a["dim"])}; };
  t["cond"] = [](In x, Args a) {
    if (a["p"] == "inf") return Tensors{linalg::cond(x[0], INFINITY)};
    return Tensors{linalg::cond(x[0], maybe<double>(a, "p"))};
  };
  t["lstsq"] = [](In x, Args) { return Tensors{linalg::lstsq(x[0], x[1])}; };
  t["slogdet"] = [](In x, Args) { return pair(linalg::slogdet(x[0])); };
  t["pinv"] = [](In x, Args a) { return Tensors{linalg::pinv(x[0], maybe<double>(a, "rcond"))}; };
  t["matrix_rank"] = [](In x, Args a) {
    return Tensors{linalg::matrix_rank(x[0], maybe<double>(a, "tol"))};
  };
  t["matrix_power"] = [](In x, Args a) { return Tensors{linalg::matrix_power(x[0], a["n"])}; };
  // Without the signs, which are free.
  t["qr"] = [](In x, Args a) {
    const auto [q, r] = linalg::qr(x[0], a["mode"].get<std::string>());
    return Tensors{abs(q), abs(r)};
  };
  t["eigh"] = [](In x, Args) {
    const auto [values, vectors] = linalg::eigh(x[0]);
    return Tensors{values, abs(vectors)};
  };
  t["svd"] = [](In x, Args) {
    const auto [u, s, vh] = linalg::svd(x[0], false);
    return Tensors{abs(u), s, abs(vh)};
  };
  t["svd_full"] = [](In x, Args) {
    const auto [u, s, vh] = linalg::svd(x[0], true);
    return Tensors{matmul(u, u.transpose(-2, -1)), s, matmul(vh.transpose(-2, -1), vh)};
  };
  t["matrix_norm"] = [](In x, Args a) {
    const Json& order = a["order"];
    if (order == "fro" || order == "nuc")
      return Tensors{linalg::matrix_norm(x[0], order.get<std::string>(), to_dims(a), a["keepdim"])};
    return Tensors{
        linalg::matrix_norm(x[0], to_scalar(order).to<double>(), to_dims(a), a["keepdim"])};
  };
}

}  // namespace ferrite::differential
