// The version alone: #include <ferrite/version.h>
#pragma once

#include "ferrite/core/version.h"
