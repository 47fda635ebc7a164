// Splits a model into stages.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ferrite/nn/containers.h"
#include "ferrite/parallel/pipeline/pipeline.h"

namespace ferrite::parallel::pipeline {

/// The stages described at Pipeline's constructor, checked; nothing is moved.
std::vector<PipelineStage> stages_of(nn::Sequential& model, std::span<const Device> devices,
                                     const std::vector<std::int64_t>& balance);

/// The layers of a stage.
std::vector<nn::Module*> layers_of(nn::Sequential& model, const PipelineStage& stage);

/// "stage 1 on cuda:1 (layers 3 to 5)".
std::string describe(const PipelineStage& stage, std::size_t number);

/// Rethrows the exception being handled with `where` in its text and the same type. Types that are
/// neither Ferrite's nor the standard library's general ones stay unchanged.
[[noreturn]] void rethrow_from(const std::string& where);

}  // namespace ferrite::parallel::pipeline
