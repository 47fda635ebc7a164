// The version by itself: #include <ferrite/version.h>
#pragma once

#include "ferrite/core/version.h"
