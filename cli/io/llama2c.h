// llama2.c's legacy checkpoint: 7 int32, then all tensors in binary32 in a fixed order, layers stacked.
#pragma once

#include <map>
#include <string>

#include "cli/io/host_tensor.h"

namespace fp4sim::io {

/// The header. A negative vocabulary in the file means an untied head; here `vocab` is positive.
struct Llama2cHeader {
  int64_t width, hidden, layers, heads, kv_heads, vocab, context;
  bool tied_head;
};

struct Llama2cFile {
  Llama2cHeader header{};
  /// By the file's own names, stacked over layers: tok_emb (V, C); rms_att (L, C); wq, wo (L, C, C); wk, wv (L, KV, C);
  /// rms_ffn (L, C); w1, w3 (L, H, C); w2 (L, C, H); rms_final (C); wcls (V, C) if the head is untied. The rotary
  /// tables that old files carry between rms_final and wcls are skipped.
  std::map<std::string, HostTensor> tensors;
};

/// Reads a legacy .bin file. Throws Error naming the file where a header number is impossible or the size is not
/// exactly the one that the header asks for.
Llama2cFile read_llama2c(const std::string& path);

}  // namespace fp4sim::io
