// The expected texts were printed by PyTorch 1.13, with "torch." removed from their dtypes.
#include <limits>
#include <sstream>

#include "ferrite/core/stream.h"
#include "ferrite/core/views.h"
#include "ferrite/tests/core/test_util.h"

using namespace ferrite;
using ferrite::test::iota;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

template <class T>
Tensor values(const std::vector<T>& v, const Shape& shape) {
  return from_vector(v, shape);
}

Tensor floats(const std::vector<double>& v, const Shape& shape) {
  return from_vector(std::vector<float>(v.begin(), v.end()), shape);
}

}  // namespace

TEST_CASE("printing: floating point") {
  CHECK(floats({1, 2, 3, 4}, {2, 2}).str() ==
        R"(tensor([[1., 2.],
        [3., 4.]]))");
  CHECK(floats({1.5, -2.25, 3}, {3}).str() == R"(tensor([ 1.5000, -2.2500,  3.0000]))");
  CHECK(floats({0, 0, 0}, {3}).str() == R"(tensor([0., 0., 0.]))");
  CHECK(floats({-0.0, 1}, {2}).str() == R"(tensor([-0., 1.]))");
  CHECK(floats({0.1, 0.12345, 0.12355}, {3}).str() == R"(tensor([0.1000, 0.1235, 0.1235]))");
  CHECK(floats({100, 0.5}, {2}).str() == R"(tensor([100.0000,   0.5000]))");
  CHECK(floats({1000, 0.5}, {2}).str() == R"(tensor([1.0000e+03, 5.0000e-01]))");
  CHECK(floats({1001, 1}, {2}).str() == R"(tensor([1.0010e+03, 1.0000e+00]))");
  CHECK(floats({1000, 1}, {2}).str() == R"(tensor([1000.,    1.]))");
  CHECK(floats({1e8}, {1}).str() == R"(tensor([100000000.]))");
  CHECK(floats({1.1e8}, {1}).str() == R"(tensor([1.1000e+08]))");
  CHECK(floats({123456.7}, {1}).str() == R"(tensor([123456.7031]))");
  CHECK(floats({1e-4, 2e-4}, {2}).str() == R"(tensor([1.0000e-04, 2.0000e-04]))");
  CHECK(floats({1e-5, 2e-5}, {2}).str() == R"(tensor([1.0000e-05, 2.0000e-05]))");
  CHECK(floats({1e-5, -2000, 0}, {3}).str() ==
        R"(tensor([ 1.0000e-05, -2.0000e+03,  0.0000e+00]))");
  CHECK(floats({1e30, 1e-30}, {2}).str() == R"(tensor([1.0000e+30, 1.0000e-30]))");
  CHECK(floats({0.99999, 1}, {2}).str() == R"(tensor([1.0000, 1.0000]))");
}

TEST_CASE("printing: infinities and NaN") {
  CHECK(floats({kNan, 1, kInf, -kInf}, {4}).str() == R"(tensor([nan, 1., inf, -inf]))");
  CHECK(floats({kNan, -kNan}, {2}).str() == R"(tensor([nan, nan]))");
  CHECK(floats({kInf, 0.5}, {2}).str() == R"(tensor([   inf, 0.5000]))");
  CHECK(floats({-kInf, 1e10, kNan}, {3}).str() ==
        R"(tensor([      -inf, 1.0000e+10,        nan]))");
  CHECK(floats({kInf, 0}, {2}).str() == R"(tensor([inf, 0.]))");
}

TEST_CASE("printing: zero dimensions") {
  CHECK(floats({3}, {}).str() == R"(tensor(3.))");
  CHECK(floats({3.14159}, {}).str() == R"(tensor(3.1416))");
  CHECK(floats({kNan}, {}).str() == R"(tensor(nan))");
  CHECK(values<std::int64_t>({7}, {}).str() == R"(tensor(7))");
  CHECK(values<bool>({true}, {}).str() == R"(tensor(True))");
  CHECK(values<double>({1e-7}, {}).str() == R"(tensor(1.0000e-07, dtype=float64))");
}

TEST_CASE("printing: other types") {
  CHECK(values<double>({1, 2.5}, {2}).str() == R"(tensor([1.0000, 2.5000], dtype=float64))");
  CHECK(values<Half>({1.0f, 0.1f, 65504.0f}, {3}).str() ==
        R"(tensor([1.0000e+00, 9.9976e-02, 6.5504e+04], dtype=float16))");
  CHECK(values<Half>({1.0f, 2.0f}, {2}).str() == R"(tensor([1., 2.], dtype=float16))");
  CHECK(values<BFloat16>({1.0f, 0.1f, 3.0f}, {3}).str() ==
        R"(tensor([1.0000, 0.1001, 3.0000], dtype=bfloat16))");
  CHECK(values<BFloat16>({3e38f, 1.0f}, {2}).str() ==
        R"(tensor([3.0041e+38, 1.0000e+00], dtype=bfloat16))");
  CHECK(values<std::int64_t>({1, -20, 300}, {3}).str() == R"(tensor([  1, -20, 300]))");
  CHECK(values<std::int64_t>({INT64_MIN, INT64_MAX}, {2}).str() ==
        R"(tensor([-9223372036854775808,  9223372036854775807]))");
  CHECK(values<std::int32_t>({1, 2, 3, 4}, {2, 2}).str() ==
        R"(tensor([[1, 2],
        [3, 4]], dtype=int32))");
  CHECK(values<std::uint8_t>({0, 255}, {2}).str() == R"(tensor([  0, 255], dtype=uint8))");
  CHECK(values<bool>({true, false, false, true}, {2, 2}).str() ==
        R"(tensor([[ True, False],
        [False,  True]]))");
}

TEST_CASE("printing: no elements") {
  CHECK(empty({0}).str() == R"(tensor([]))");
  CHECK(empty({0, 3}).str() == R"(tensor([], size=(0, 3)))");
  CHECK(empty({2, 0, 3}).str() == R"(tensor([], size=(2, 0, 3)))");
  CHECK(empty({0}, {.dtype = kInt64}).str() == R"(tensor([], dtype=int64))");
  CHECK(empty({0, 1}, {.dtype = kBool}).str() == R"(tensor([], size=(0, 1), dtype=bool))");
  CHECK(empty({0}, {.dtype = kFloat16}).str() == R"(tensor([], dtype=float16))");
}

TEST_CASE("printing: more dimensions") {
  CHECK(iota({2, 2, 3}).str() ==
        R"(tensor([[[ 0.,  1.,  2.],
         [ 3.,  4.,  5.]],

        [[ 6.,  7.,  8.],
         [ 9., 10., 11.]]]))");
  CHECK(iota<std::int64_t>({2, 1, 2, 2}).str() ==
        R"(tensor([[[[0, 1],
          [2, 3]]],


        [[[4, 5],
          [6, 7]]]]))");
  CHECK(iota({1, 1, 1, 1, 2}).str() == R"(tensor([[[[[0., 1.]]]]]))");
  CHECK(iota({3, 1}).str() ==
        R"(tensor([[0.],
        [1.],
        [2.]]))");
}

TEST_CASE("printing: long rows") {
  CHECK(iota({30}).str() ==
        R"(tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,
        14., 15., 16., 17., 18., 19., 20., 21., 22., 23., 24., 25., 26., 27.,
        28., 29.]))");
  CHECK(iota<std::int64_t>({2, 25}).str() ==
        R"(tensor([[ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,
         18, 19, 20, 21, 22, 23, 24],
        [25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42,
         43, 44, 45, 46, 47, 48, 49]]))");
  CHECK(iota<double>({21}).str() ==
        R"(tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,
        14., 15., 16., 17., 18., 19., 20.], dtype=float64))");
  CHECK(iota<std::int32_t>({18}).str() ==
        R"(tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17],
       dtype=int32))");
  CHECK(values<bool>(std::vector<bool>(14, true), {14}).str() ==
        R"(tensor([True, True, True, True, True, True, True, True, True, True, True, True,
        True, True]))");
  CHECK(iota({2, 2, 19}).str() ==
        R"(tensor([[[ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,
          14., 15., 16., 17., 18.],
         [19., 20., 21., 22., 23., 24., 25., 26., 27., 28., 29., 30., 31., 32.,
          33., 34., 35., 36., 37.]],

        [[38., 39., 40., 41., 42., 43., 44., 45., 46., 47., 48., 49., 50., 51.,
          52., 53., 54., 55., 56.],
         [57., 58., 59., 60., 61., 62., 63., 64., 65., 66., 67., 68., 69., 70.,
          71., 72., 73., 74., 75.]]]))");
}

TEST_CASE("printing: summaries") {
  CHECK(iota<std::int64_t>({1001}).str() ==
        R"(tensor([   0,    1,    2,  ...,  998,  999, 1000]))");
  CHECK(iota({1001}).str() == R"(tensor([   0.,    1.,    2.,  ...,  998.,  999., 1000.]))");
  CHECK(iota({100, 100}).str() ==
        R"(tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 9.7000e+01, 9.8000e+01,
         9.9000e+01],
        [1.0000e+02, 1.0100e+02, 1.0200e+02,  ..., 1.9700e+02, 1.9800e+02,
         1.9900e+02],
        [2.0000e+02, 2.0100e+02, 2.0200e+02,  ..., 2.9700e+02, 2.9800e+02,
         2.9900e+02],
        ...,
        [9.7000e+03, 9.7010e+03, 9.7020e+03,  ..., 9.7970e+03, 9.7980e+03,
         9.7990e+03],
        [9.8000e+03, 9.8010e+03, 9.8020e+03,  ..., 9.8970e+03, 9.8980e+03,
         9.8990e+03],
        [9.9000e+03, 9.9010e+03, 9.9020e+03,  ..., 9.9970e+03, 9.9980e+03,
         9.9990e+03]]))");
  CHECK(iota<std::int64_t>({200, 6}).str() ==
        R"(tensor([[   0,    1,    2,    3,    4,    5],
        [   6,    7,    8,    9,   10,   11],
        [  12,   13,   14,   15,   16,   17],
        ...,
        [1182, 1183, 1184, 1185, 1186, 1187],
        [1188, 1189, 1190, 1191, 1192, 1193],
        [1194, 1195, 1196, 1197, 1198, 1199]]))");
  CHECK(iota<std::int64_t>({2, 600}).str() ==
        R"(tensor([[   0,    1,    2,  ...,  597,  598,  599],
        [ 600,  601,  602,  ..., 1197, 1198, 1199]]))");
  CHECK(iota<std::int32_t>({8, 7, 20}).str() ==
        R"(tensor([[[   0,    1,    2,  ...,   17,   18,   19],
         [  20,   21,   22,  ...,   37,   38,   39],
         [  40,   41,   42,  ...,   57,   58,   59],
         ...,
         [  80,   81,   82,  ...,   97,   98,   99],
         [ 100,  101,  102,  ...,  117,  118,  119],
         [ 120,  121,  122,  ...,  137,  138,  139]],

        [[ 140,  141,  142,  ...,  157,  158,  159],
         [ 160,  161,  162,  ...,  177,  178,  179],
         [ 180,  181,  182,  ...,  197,  198,  199],
         ...,
         [ 220,  221,  222,  ...,  237,  238,  239],
         [ 240,  241,  242,  ...,  257,  258,  259],
         [ 260,  261,  262,  ...,  277,  278,  279]],

        [[ 280,  281,  282,  ...,  297,  298,  299],
         [ 300,  301,  302,  ...,  317,  318,  319],
         [ 320,  321,  322,  ...,  337,  338,  339],
         ...,
         [ 360,  361,  362,  ...,  377,  378,  379],
         [ 380,  381,  382,  ...,  397,  398,  399],
         [ 400,  401,  402,  ...,  417,  418,  419]],

        ...,

        [[ 700,  701,  702,  ...,  717,  718,  719],
         [ 720,  721,  722,  ...,  737,  738,  739],
         [ 740,  741,  742,  ...,  757,  758,  759],
         ...,
         [ 780,  781,  782,  ...,  797,  798,  799],
         [ 800,  801,  802,  ...,  817,  818,  819],
         [ 820,  821,  822,  ...,  837,  838,  839]],

        [[ 840,  841,  842,  ...,  857,  858,  859],
         [ 860,  861,  862,  ...,  877,  878,  879],
         [ 880,  881,  882,  ...,  897,  898,  899],
         ...,
         [ 920,  921,  922,  ...,  937,  938,  939],
         [ 940,  941,  942,  ...,  957,  958,  959],
         [ 960,  961,  962,  ...,  977,  978,  979]],

        [[ 980,  981,  982,  ...,  997,  998,  999],
         [1000, 1001, 1002,  ..., 1017, 1018, 1019],
         [1020, 1021, 1022,  ..., 1037, 1038, 1039],
         ...,
         [1060, 1061, 1062,  ..., 1077, 1078, 1079],
         [1080, 1081, 1082,  ..., 1097, 1098, 1099],
         [1100, 1101, 1102,  ..., 1117, 1118, 1119]]], dtype=int32))");
  CHECK(iota<double>({40, 30}).str() ==
        R"(tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 2.7000e+01, 2.8000e+01,
         2.9000e+01],
        [3.0000e+01, 3.1000e+01, 3.2000e+01,  ..., 5.7000e+01, 5.8000e+01,
         5.9000e+01],
        [6.0000e+01, 6.1000e+01, 6.2000e+01,  ..., 8.7000e+01, 8.8000e+01,
         8.9000e+01],
        ...,
        [1.1100e+03, 1.1110e+03, 1.1120e+03,  ..., 1.1370e+03, 1.1380e+03,
         1.1390e+03],
        [1.1400e+03, 1.1410e+03, 1.1420e+03,  ..., 1.1670e+03, 1.1680e+03,
         1.1690e+03],
        [1.1700e+03, 1.1710e+03, 1.1720e+03,  ..., 1.1970e+03, 1.1980e+03,
         1.1990e+03]], dtype=float64))");
}

TEST_CASE("printing: views") {
  using geometry::apply;
  const Tensor b = iota({2, 3, 4});
  const Tensor five = floats({5}, {1});
  // The values of iota({1, 2, 2, 3}), stored pixel by pixel.
  const Tensor stored = floats({0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11}, {12});
  const Tensor channels_last =
      geometry::as_strided(stored, {1, 2, 2, 3}, strides_of({1, 2, 2, 3}, kChannelsLast), 0);
  CHECK(channels_last.is_contiguous(kChannelsLast));
  CHECK(apply(b, geometry::transpose(b, 0, 2)).str() ==
        R"(tensor([[[ 0., 12.],
         [ 4., 16.],
         [ 8., 20.]],

        [[ 1., 13.],
         [ 5., 17.],
         [ 9., 21.]],

        [[ 2., 14.],
         [ 6., 18.],
         [10., 22.]],

        [[ 3., 15.],
         [ 7., 19.],
         [11., 23.]]]))");
  CHECK(apply(b, geometry::slice(b, 2, 1, 4, 2)).str() ==
        R"(tensor([[[ 1.,  3.],
         [ 5.,  7.],
         [ 9., 11.]],

        [[13., 15.],
         [17., 19.],
         [21., 23.]]]))");
  CHECK(apply(b, geometry::select(b, 1, 1)).str() ==
        R"(tensor([[ 4.,  5.,  6.,  7.],
        [16., 17., 18., 19.]]))");
  CHECK(apply(five, geometry::expand(five, {2, 3})).str() ==
        R"(tensor([[5., 5., 5.],
        [5., 5., 5.]]))");
  CHECK(channels_last.str() ==
        R"(tensor([[[[ 0.,  1.,  2.],
          [ 3.,  4.,  5.]],

         [[ 6.,  7.,  8.],
          [ 9., 10., 11.]]]]))");
}

TEST_CASE("printing: devices") {
  const Device device("cpu:1");
  const auto on_device = [&](const Shape& shape, DType dtype, float first) {
    Tensor t = empty(shape, {.dtype = dtype, .device = device});
    current_stream(device).enqueue([t, first] {
      for (std::int64_t i = 0; i < t.numel(); ++i)
        dispatch_floating(t.dtype(), "test", [&]<class T>() {
          t.data<T>()[i] = static_cast<T>(first + static_cast<float>(i));
        });
    });
    return t;
  };
  CHECK(on_device({2}, kFloat32, 1).str() == "tensor([1., 2.], device='cpu:1')");
  CHECK(on_device({2}, kFloat64, 1).str() == "tensor([1., 2.], device='cpu:1', dtype=float64)");
  CHECK(empty({0, 2}, {.dtype = kInt64, .device = device}).str() ==
        "tensor([], device='cpu:1', size=(0, 2), dtype=int64)");
  // The suffixes go on a separate line if they do not fit.
  CHECK(on_device({8}, kFloat32, 0.5f).str() ==
        "tensor([0.5000, 1.5000, 2.5000, 3.5000, 4.5000, 5.5000, 6.5000, 7.5000],\n"
        "       device='cpu:1')");
}

TEST_CASE("printing: undefined tensors and streams") {
  CHECK(Tensor().str() == "tensor(undefined)");
  std::ostringstream out;
  out << floats({1, 2}, {2}) << '\n' << Tensor();
  CHECK(out.str() == "tensor([1., 2.])\ntensor(undefined)");
}

TEST_CASE("printing waits for queued work and rethrows its exceptions") {
  const Device device("cpu:2");
  Tensor t = empty({1}, {.device = device});
  current_stream(device).enqueue([] { fail<ValueError>("test", "from the queue"); });
  CHECK(test::message_of<ValueError>([&] { t.str(); }) == "[test] from the queue");
}
