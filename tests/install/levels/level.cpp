int below();

int level() {
#if defined(__AVX512VL__)
  const int mine = 4;
#elif defined(__AVX2__)
  const int mine = 3;
#elif defined(__SSE4_2__)
  const int mine = 2;
#else
  const int mine = 1;
#endif
  return FACTOR * mine + below();
}
