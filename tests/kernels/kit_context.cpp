// Makes failed CHECKs inside a case of the kit identify the case.
#include "ferrite/tests/kit/doctest_context.h"
