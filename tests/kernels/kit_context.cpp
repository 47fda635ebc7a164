// Failed CHECKs inside a case of the kit say which it was.
#include "ferrite/tests/kit/doctest_context.h"
