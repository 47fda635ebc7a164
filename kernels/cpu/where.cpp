#include "ferrite/kernels/where.h"

#include "ferrite/kernels/cpu/loops.h"

namespace ferrite::kernels::cpu {

namespace {

/// Elements by size alone.
template <class Word>
void choose(const View& out, const View& condition, const View& a, const View& b) {
  Word* o = out.as<Word>();
  const std::uint8_t* c = condition.as<std::uint8_t>();  // bool loads do not vectorise
  const Word* x = a.as<Word>();
  const Word* y = b.as<Word>();
  for_each_run<4>({&out, &condition, &a, &b},
                  [=](const auto& at, const auto& step, std::int64_t n) {
                    Word* po = o + at[0];
                    const std::uint8_t* pc = c + at[1];
                    const Word* px = x + at[2];
                    const Word* py = y + at[3];
                    const auto flat = [&]<bool constant_a, bool constant_b>() {
#pragma GCC ivdep
                      for (std::int64_t i = 0; i < n; ++i) {
                        const Word u = px[constant_a ? 0 : i], v = py[constant_b ? 0 : i];
                        po[i] = pc[i] != 0 ? u : v;
                      }
                    };
                    if (step[0] == 1 && step[1] == 1 && step[2] == 1 && step[3] == 1)
                      flat.template operator()<false, false>();
                    else if (step[0] == 1 && step[1] == 1 && step[2] == 1 && step[3] == 0)
                      flat.template operator()<false, true>();
                    else if (step[0] == 1 && step[1] == 1 && step[2] == 0 && step[3] == 1)
                      flat.template operator()<true, false>();
                    else
                      for (std::int64_t i = 0; i < n; ++i)
                        po[i * step[0]] = pc[i * step[1]] ? px[i * step[2]] : py[i * step[3]];
                  });
}

}  // namespace

void where(const View& out, const View& condition, const View& a, const View& b) {
  switch (itemsize(out.dtype)) {
    case 1:
      return choose<std::uint8_t>(out, condition, a, b);
    case 2:
      return choose<std::uint16_t>(out, condition, a, b);
    case 4:
      return choose<std::uint32_t>(out, condition, a, b);
    default:
      return choose<std::uint64_t>(out, condition, a, b);
  }
}

}  // namespace ferrite::kernels::cpu
