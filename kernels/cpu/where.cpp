#include "kernels/cpu/where.h"

#include "kernels/cpu/loops.h"

namespace ferrite::kernels::cpu {

namespace {

/// Elements by size alone.
template <class Word>
void choose(const View& out, const View& condition, const View& a, const View& b) {
  Word* o = out.as<Word>();
  const bool* c = condition.as<bool>();
  const Word* x = a.as<Word>();
  const Word* y = b.as<Word>();
  for_each_run<4>({&out, &condition, &a, &b},
                  [=](const auto& at, const auto& step, std::int64_t n) {
                    Word* po = o + at[0];
                    const bool* pc = c + at[1];
                    const Word* px = x + at[2];
                    const Word* py = y + at[3];
                    if (step[0] == 1 && step[1] == 1 && step[2] == 1 && step[3] == 1) {
#pragma GCC ivdep
                      for (std::int64_t i = 0; i < n; ++i) {
                        const Word u = px[i], v = py[i];
                        po[i] = pc[i] ? u : v;
                      }
                    } else {
                      for (std::int64_t i = 0; i < n; ++i)
                        po[i * step[0]] = pc[i * step[1]] ? px[i * step[2]] : py[i * step[3]];
                    }
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
