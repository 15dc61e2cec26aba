// Models from files: fp4sim checkpoints, safetensors with the Hugging Face LLaMA names, llama2.c legacy files.
#pragma once

#include <optional>
#include <string>

#include "cli/io/vocab.h"
#include "cli/train/checkpoint.h"
#include "cli/train/model.h"

namespace fp4sim::train {

/// A model ready to run: its configuration and exactly its parameters, binary32.
struct LoadedModel {
  ModelConfig config;
  TensorMap parameters;
  std::optional<io::Vocab> vocab;  // text pieces of token ids; none: tokens are bytes
  std::string recipe, run_config;  // of an fp4sim checkpoint: the recipe's text and config.toml, else empty
  uint64_t seed = 0;               // of an fp4sim checkpoint: the random bits of its next step, else 0
  uint32_t step = 0;
};

/// The model of a file. A name ending in .bin is llama2.c's legacy format; everything else must be safetensors: an
/// fp4sim checkpoint, or the Hugging Face names, where a config.json beside the file gives heads, rope_theta, eps and
/// context (absent: heads of width 64, or 8 heads for widths that 64 does not divide; theta 10000, eps 1e-5, context
/// 2048). `vocab_path` may be empty. Throws Error naming the file and what is missing, foreign, inconsistent or not
/// finite.
LoadedModel load_model(const std::string& path, const std::string& vocab_path = {});

}  // namespace fp4sim::train
