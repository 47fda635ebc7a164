// All layers.
#pragma once

#include "ferrite/nn/activation.h"
#include "ferrite/nn/adaptive_softmax.h"
#include "ferrite/nn/attention.h"
#include "ferrite/nn/containers.h"
#include "ferrite/nn/conv.h"
#include "ferrite/nn/linear.h"
#include "ferrite/nn/loss.h"
#include "ferrite/nn/norm.h"
#include "ferrite/nn/padding.h"
#include "ferrite/nn/pooling.h"
#include "ferrite/nn/recurrent.h"
#include "ferrite/nn/shuffle.h"
#include "ferrite/nn/transformer.h"
#include "ferrite/nn/upsample.h"
