// LLaMA models with the Hugging Face tensor names, from one safetensors file.
#pragma once

#include "cli/io/safetensors.h"
#include "cli/train/checkpoint.h"

namespace fp4sim::train {

/// The configuration, unresolved: sizes from the tensors' shapes, the rest from config.json beside the file where there
/// is one (its sizes must agree with the tensors). Throws Error naming the file.
ModelConfig hf_config(const io::SafetensorsFile& file);

/// The parameters in binary32 under fp4sim's names. Throws Error naming a tensor that is missing or foreign; rotary
/// tables ("…rotary_emb.inv_freq") are skipped.
TensorMap hf_parameters(const io::SafetensorsFile& file, const ModelConfig& config);

}  // namespace fp4sim::train
