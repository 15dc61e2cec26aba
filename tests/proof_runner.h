// What the proofs share: op quantize on one backend with memory kept between calls, codes read back from packed rows,
// and the walk through all binary32 inputs with a progress line.
#pragma once

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "reference/contract/backend.h"
#include "reference/contract/host_backend.h"

namespace fp4sim::test {

/// Code i of a row of packed codes (§4.4) with `bits` per code; bytes outside the row are not read.
inline uint32_t code_at(const uint8_t* row, int64_t i, int bits) {
  const int64_t at = i * bits;
  const uint8_t* byte = row + at / 8;
  const int shift = static_cast<int>(at % 8);
  uint32_t word = 0;
  for (int b = 0; 8 * b < shift + bits; ++b) word |= static_cast<uint32_t>(byte[b]) << (8 * b);
  return (word >> shift) & (bits == 32 ? ~0u : (1u << bits) - 1u);
}

/// quantize of tensors of one shape and spec, compiled once. `step` and `amax` are optional inputs of the op.
class Quantizer {
 public:
  Quantizer(std::unique_ptr<Backend> backend, const std::string& spec, Shape shape, const char* axis = "last",
            const StepInfo* step = nullptr, const float* amax = nullptr, int64_t row_offset = 0)
      : backend_(std::move(backend)) {
    const auto input = [&](ValueType type, const char* name) {
      return add_value(graph_, std::move(type), ValueKind::input, name);
    };
    std::vector<ValueId> inputs{input({DType::f32, std::move(shape), {}, Axis::last}, "x")};
    const StepInfo no_step{};
    if (step == nullptr && amax != nullptr) step = &no_step;
    if (step != nullptr) inputs.push_back(input(step_type(), "step"));
    if (amax != nullptr) inputs.push_back(input({DType::f32, {}, {}, Axis::last}, "amax"));
    graph_.results = add_node(
        graph_, Op::quantize, inputs,
        {{"spec", spec}, {"axis", std::string(axis)}, {"stream", kStream}, {"row_offset", row_offset}}, "node");
    validate(graph_);
    for (const Value& value : graph_.values) {
      owned_.push_back(allocate_tensor(*backend_, value.type));
      tensors_.push_back(owned_.back().tensor);
    }
    if (step != nullptr) backend_->upload(tensors_[1].parts[0], step, sizeof(StepInfo));
    if (amax != nullptr) backend_->upload(tensors_[2].parts[0], amax, sizeof(float));
    program_ = backend_->compile({graph_, tensors_});
  }
  Quantizer(const Quantizer&) = delete;
  Quantizer& operator=(const Quantizer&) = delete;

  static constexpr int64_t kStream = 77;

  /// The input's memory, to be filled before run().
  float* input() { return out_data<float>(tensors_[0]); }
  void run() {
    program_->run();
    backend_->synchronize();
  }
  const Tensor& packed() const { return tensors_.back(); }
  const uint8_t* codes() const { return in_data<uint8_t>(packed()); }
  const void* scales() const { return host_data(packed().parts[1]); }
  int bits() const { return packed().type.spec.element.bits; }

 private:
  std::unique_ptr<Backend> backend_;
  Graph graph_;
  std::vector<OwnedTensor> owned_;
  std::vector<Tensor> tensors_;
  std::unique_ptr<Program> program_;
};

inline constexpr int64_t kChunk = int64_t{1} << 20;  // inputs handed out at a time

/// Calls visit(first) for every chunk of the bit patterns [0, end) in ascending order; says on stderr how far it is.
template <class Visit>
void for_all_chunks(const std::string& name, uint64_t end, const Visit& visit) {
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t first = 0; first < end; first += kChunk) {
    visit(first);
    const uint64_t done = first + kChunk;
    if (done % (uint64_t{1} << 29) != 0 && done < end) continue;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::fprintf(stderr, "%s: %.2f of %.2f G inputs, %.0f s\n", name.c_str(), static_cast<double>(done) * 1e-9,
                 static_cast<double>(end) * 1e-9, seconds);
  }
}

/// Mismatches of a proof: counted, the first few shown.
struct Verdict {
  int64_t compared = 0, wrong = 0;
  std::string first;  // what the first mismatch was

  void add(bool right, uint32_t bits, uint32_t got, uint32_t want, const char* who) {
    ++compared;
    if (right) return;
    if (wrong++ == 0) {
      char text[96];
      std::snprintf(text, sizeof text, "%s: input %08X gives %X, expected %X", who, bits, got, want);
      first = text;
    }
  }
  void add(const Verdict& other) {
    compared += other.compared;
    if (wrong == 0) first = other.first;
    wrong += other.wrong;
  }
};

}  // namespace fp4sim::test
