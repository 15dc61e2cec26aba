// Products of packed operands that are built by hand, on cuda and scalar.
#pragma once

#include <bit>
#include <cmath>

#include "pch.h"
#include "reference/scalar/backend.h"
#include "tests/gpu_device.h"
#include "tests/packed_operand.h"

namespace fp4sim::test {

/// Sizes of a product and where its contraction axes lie.
struct Size {
  int64_t m, n, k;
  Axis a = Axis::last, b = Axis::last;
  int64_t matrices = 1;
};

/// A scale code for the block at (vector, block), and a code for (vector, k).
using Choice = std::function<uint32_t(int64_t, int64_t)>;

inline PackedOperand operand(const std::string& spec, Axis axis, int64_t matrices, int64_t rows, int64_t k,
                             const Choice& scale, const Choice& code) {
  PackedOperand o{parse_quant_spec(spec), axis, matrices, rows, k, {}, {}, 1.0f};
  for (int64_t vector = 0; vector < matrices * rows; ++vector) {
    for (int64_t i = 0; i < k; ++i) o.codes.push_back(code(vector, i));
    for (int64_t block = 0; block < o.blocks(); ++block) o.scales.push_back(scale(vector, block));
  }
  return o;
}

/// Numbers that look random, the same in every run.
inline uint32_t mixed(int64_t a, int64_t b) {
  uint64_t v = static_cast<uint64_t>(a) * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(b) * 0xC2B2AE3D27D4EB4Fu + 1;
  v = (v ^ v >> 31) * 0xD6E8FEB86659FD93u;
  return static_cast<uint32_t>(v >> 32);
}
inline Choice any_code(int64_t salt) {
  return [salt](int64_t vector, int64_t k) { return mixed(vector + 1000003 * salt, k) % 16; };
}

class ComparesProducts : public NeedsDevice<> {
 protected:
  /// The backend as it is, and one that tries to prove sums exact in products of any size.
  Backend* cuda(bool certifies_small = false) {
    auto& backend = cuda_[certifies_small ? 1 : 0];
    if (backend == nullptr) backend = gpu::make_backend({.certifies_small = certifies_small});
    return backend.get();
  }

  static std::vector<float> product_on(Backend& backend, const HostValue& a, const HostValue& b) {
    const Attrs attrs{{"a_axis", to_string(a.type.axis)}, {"b_axis", to_string(b.type.axis)}};
    return from_bytes<float>(run_node(backend, Op::matmul, {a, b}, attrs)[0].parts[0]);
  }

  /// Compares the product of two operands on cuda and scalar, bit by bit.
  void compare(const PackedOperand& a, const PackedOperand& b, const std::string& what) {
    compare(packed_value(a), packed_value(b), what);
  }
  void compare(const HostValue& a, const HostValue& b, const std::string& what) {
    const std::vector<float> expected = product_on(*scalar_, a, b);
    for (const bool certifies_small : {false, true}) {
      const std::vector<float> found = product_on(*cuda(certifies_small), a, b);
      ASSERT_EQ(expected.size(), found.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        const bool both_nan = std::isnan(expected[i]) && std::isnan(found[i]);
        if (both_nan || std::bit_cast<uint32_t>(expected[i]) == std::bit_cast<uint32_t>(found[i])) continue;
        FAIL() << what << (certifies_small ? ", certificates" : "") << ": output " << i << " of " << expected.size()
               << " is " << found[i] << ", not " << expected[i];
      }
    }
  }

  std::unique_ptr<Backend> scalar_ = scalar::make_backend(), cuda_[2];
};

}  // namespace fp4sim::test
