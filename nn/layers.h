// All layers.
#pragma once

#include "nn/activation.h"
#include "nn/attention.h"
#include "nn/containers.h"
#include "nn/conv.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/norm.h"
#include "nn/pooling.h"
#include "nn/recurrent.h"
#include "nn/upsample.h"
