// Products of packed operands at the borders between the ways in which cuda computes them: sums that are certain
// to be exact just below 2^24 units and above, exponents of a row 3 and 4 apart, scales that wait for the dots of
// their blocks, single rows, blocks and scales that spoil a tile, panels in parts. Operands are built by hand, and the
// results are those of scalar.
#include <fmt/format.h>

#include "tests/gpu_products.h"

namespace fp4sim::test {
namespace {

constexpr uint32_t kOne = 127, kNaN = 0xFF;  // e8m0 codes

/// Scales of exponents low … low + spread, both taken in every row of two blocks and more.
Choice spread_scales(uint32_t low, uint32_t spread) {
  return [=](int64_t vector, int64_t block) {
    return block == 0 ? low : block == 1 ? low + spread : low + mixed(vector, block) % (spread + 1);
  };
}

class GpuProducts : public ComparesProducts {
 protected:
  void compare_mxfp4(const Size& s, const Choice& scales_a, const Choice& scales_b, const std::string& what) {
    compare(operand("mxfp4", s.a, s.matrices, s.m, s.k, scales_a, any_code(1)),
            operand("mxfp4", s.b, s.matrices, s.n, s.k, scales_b, any_code(2)), what);
  }
};

const Size kSizes[] = {{1, 1, 1},
                       {70, 40, 31},
                       {33, 130, 33, Axis::first, Axis::first},
                       {130, 66, 1000, Axis::first, Axis::last},
                       {65, 129, 1025, Axis::last, Axis::first},
                       {257, 35, 2080},
                       {40, 24, 5000, Axis::first, Axis::first},
                       {34, 48, 1100, Axis::last, Axis::first, 3},
                       {72, 40, 512, Axis::first, Axis::first},
                       {70, 48, 384, Axis::last, Axis::first},
                       {48, 65, 1536, Axis::first, Axis::last},
                       {40, 24, 33000, Axis::last, Axis::first}};

TEST_F(GpuProducts, exponents_of_a_row_three_and_four_apart) {
  for (const Size& s : kSizes)
    for (const uint32_t spread : {0u, 3u, 4u, 26u, 27u, 60u})
      compare_mxfp4(s, spread_scales(kOne - 20, spread), spread_scales(kOne + 4, spread % 5),
                    fmt::format("k {} spread {}", s.k, spread));
}

TEST_F(GpuProducts, rows_whose_scales_wait_for_the_dots_of_their_blocks) {
  // From one beyond what the bytes hold to the least scale that may wait beside any others, 2^-85, one below, and the
  // least of all; beside scales from large ones to those that are just too small for these. Some rows of few exponents,
  // some with zeros and NaN between, in either operand.
  for (const Size& s : kSizes)
    for (const auto& [low, spread] :
         {std::pair{kOne - 20, 28u}, {kOne - 85, 40u}, {kOne - 85, 130u}, {kOne - 86, 50u}, {1u, 110u}, {1u, 160u}})
      for (const bool specials : {false, true}) {
        const auto scales = [=](int64_t vector, int64_t block) {
          if (specials && mixed(vector, block) % 23 == 0) return mixed(vector, block) % 2 == 0 ? kNaN : 0u;
          return vector % 3 == 1 ? kOne + 2 : spread_scales(low, spread)(vector, block);
        };
        const auto codes = [=](int64_t vector, int64_t i) {
          return scales(vector, i / 32) == 0 ? 8 * (static_cast<uint32_t>(i) % 2) : any_code(1)(vector, i);
        };
        const auto what = fmt::format("k {} from {} spread {} specials {}", s.k, low, spread, specials);
        const PackedOperand wide = operand("mxfp4", s.a, s.matrices, s.m, s.k, scales, codes);
        for (const uint32_t other : {kOne + 3, kOne - 20, kOne - 21, kOne - 60})
          compare(wide, operand("mxfp4", s.b, s.matrices, s.n, s.k, spread_scales(other, 5), any_code(2)), what);
        compare(operand("mxfp4", s.b, s.matrices, s.n, s.k, spread_scales(kOne, 5), any_code(2)), wide, what);
      }
}

TEST_F(GpuProducts, products_of_tiny_scales_are_rounded_by_the_rule) {
  // Where only blocks of tiny scales have values: products of scales below 2^-149 are none of the late rows' business.
  // Spans of 139 fit into the factors of late rows, spans of 140 do not.
  for (const Size& s : kSizes)
    for (const auto& [low, other] : {std::pair{kOne - 95, kOne - 60},
                                     {kOne - 85, kOne - 60},
                                     {1u, kOne - 26},
                                     {1u, kOne - 21},
                                     {1u, kOne - 20},
                                     {1u, kOne}})
      for (const uint32_t span : {30u, 139u, 140u}) {
        const auto scales = [=](int64_t vector, int64_t block) {
          return block % 3 == 1 ? low + span - static_cast<uint32_t>(vector % 2) : low + mixed(vector, block) % 3;
        };
        const auto codes = [](int64_t vector, int64_t i) { return i / 32 % 3 == 1 ? 0u : any_code(3)(vector, i); };
        compare(operand("mxfp4", s.a, s.matrices, s.m, s.k, scales, codes),
                operand("mxfp4", s.b, s.matrices, s.n, s.k, spread_scales(other, 1), any_code(4)),
                fmt::format("k {} from {} span {} other {}", s.k, low, span, other));
      }
}

TEST_F(GpuProducts, sums_just_below_and_above_two_to_the_24_units) {
  // All codes 6 in blocks 2^3 above one of each panel: 96·96 units of a product each, 1820 of them below 2^24. Odd
  // units of the low blocks are rounded away where panels add up to more.
  for (const int64_t k : {1792, 1820, 1824, 1856, 2048, 4096, 6000, 33000}) {
    const auto scales = [](int64_t, int64_t block) { return kOne + (block % 32 == 1 ? 0 : 3); };
    const auto codes = [](int64_t vector, int64_t i) {
      return i / 32 % 32 != 1 ? 7u : mixed(vector, i) % 3 == 0 ? 1u : 0u;
    };
    for (const Axis axis : {Axis::last, Axis::first})
      compare(operand("mxfp4", axis, 1, 66, k, scales, codes), operand("mxfp4", axis, 1, 40, k, scales, codes),
              fmt::format("k {}", k));
  }
}

TEST_F(GpuProducts, one_bad_row_among_good_ones) {
  for (const int64_t bad : {0, 131, 299}) {
    const auto scales = [bad](int64_t vector, int64_t block) {
      return vector == bad ? kOne - 30 + static_cast<uint32_t>(block % 20) : spread_scales(kOne, 2)(vector, block);
    };
    compare_mxfp4({300, 200, 1200}, scales, spread_scales(kOne, 3), fmt::format("row {}", bad));
    compare_mxfp4({300, 40, 33000}, scales, spread_scales(kOne, 0), fmt::format("row {}, long k", bad));
    compare_mxfp4({200, 300, 1200, Axis::first, Axis::first}, spread_scales(kOne, 1), scales,
                  fmt::format("column {}", bad));
  }
}

TEST_F(GpuProducts, nan_scales_and_scale_codes_zero) {
  for (const Size& s : kSizes)
    for (const uint32_t special : {kNaN, 0u, 254u}) {
      const auto scales = [special](int64_t vector, int64_t block) {
        return vector == 11 && block == 1 ? special : spread_scales(kOne, 2)(vector, block);
      };
      compare_mxfp4(s, scales, spread_scales(kOne, 3), fmt::format("k {} special {}", s.k, special));
      const auto zeros = [](int64_t vector, int64_t i) { return i / 32 == 1 ? 8 * (i % 2) : any_code(3)(vector, i); };
      compare(operand("mxfp4", s.a, s.matrices, s.m, s.k, scales, zeros),
              operand("mxfp4", s.b, s.matrices, s.n, s.k, spread_scales(kOne, 3), any_code(4)),
              fmt::format("k {}, zeros below special {}", s.k, special));
    }
}

TEST_F(GpuProducts, exponents_near_the_ends) {
  for (const uint32_t low : {1u, 40u, kOne - 62, kOne - 60, kOne + 45, kOne + 47, kOne + 48, 250u})
    for (const uint32_t other : {kOne - 60, kOne + 47, 200u})
      compare_mxfp4({70, 40, 1100}, spread_scales(low, 3), spread_scales(other, 2), fmt::format("{} {}", low, other));
}

/// The operand of some vectors alone.
PackedOperand rows_of(const PackedOperand& o, const std::vector<int64_t>& vectors) {
  PackedOperand few{o.spec, o.axis, 1, static_cast<int64_t>(vectors.size()), o.k, {}, {}, o.d};
  for (const int64_t v : vectors) {
    few.codes.insert(few.codes.end(), o.codes.begin() + v * o.k, o.codes.begin() + (v + 1) * o.k);
    few.scales.insert(few.scales.end(), o.scales.begin() + v * o.blocks(), o.scales.begin() + (v + 1) * o.blocks());
  }
  return few;
}

TEST_F(GpuProducts, large_products_agree_with_those_of_some_rows) {
  const int64_t m = 4096, n = 2304, k = 4096;
  const std::vector<int64_t> rows{0, 77, 255, 256, 1000, 1023, 1024, 1111, 4095}, cols{0, 1, 255, 256, 700, 2303};
  const Choice few = [](int64_t vector, int64_t block) {
    return kOne - (vector == 1000 ? 2 * static_cast<uint32_t>(block % 9) : mixed(vector, block) % 3);
  };
  const Choice wide = [](int64_t vector, int64_t block) { return 0x20u + mixed(vector, block) % 0x40u; };
  // Sums that cuda observes, but for the tiles of one row.
  const Choice ordinary = [](int64_t vector, int64_t block) {
    return vector == 1000 && block == 100 ? 1u : 0x34u + mixed(vector, block) % 12;
  };
  for (const auto& [spec, scales] : {std::pair{"mxfp4", few}, {"nvfp4", wide}, {"nvfp4", ordinary}}) {
    const PackedOperand a = operand(spec, Axis::last, 1, m, k, scales, any_code(8));
    const PackedOperand b = operand(spec, Axis::last, 1, n, k, scales, any_code(9));
    const std::vector<float> all = product_on(*cuda(), packed_value(a), packed_value(b));
    const std::vector<float> some =
        product_on(*scalar_, packed_value(rows_of(a, rows)), packed_value(rows_of(b, cols)));
    for (size_t i = 0; i < some.size(); ++i) {
      const int64_t row = rows[i / cols.size()], col = cols[i % cols.size()];
      ASSERT_EQ(std::bit_cast<uint32_t>(some[i]), std::bit_cast<uint32_t>(all[static_cast<size_t>(row * n + col)]))
          << spec << " row " << row << " column " << col;
    }
  }
}

TEST_F(GpuProducts, zeros_only) {
  const Choice none = [](int64_t, int64_t) { return 0u; }, signs = [](int64_t, int64_t k) { return 8 * (k % 2); };
  compare(operand("mxfp4", Axis::last, 1, 40, 1100, none, signs),
          operand("mxfp4", Axis::last, 1, 24, 1100, spread_scales(kOne, 3), any_code(1)), "zeros");
}

TEST_F(GpuProducts, tiles_of_32_by_32_share_scales) {
  const auto scales = [](int64_t vector, int64_t block) { return spread_scales(kOne, 3)(vector / 32, block); };
  const std::string spec = "e2m1:2d32:e8m0/floor:rne";
  for (const Axis axis : {Axis::last, Axis::first}) {
    PackedOperand a = operand(spec, axis, 1, 64, 1056, scales, any_code(1));
    HostValue value = packed_value(a);
    std::vector<uint8_t> tiles;
    for (int64_t i = 0; i < 2 * 33; ++i) {
      const int64_t row = axis == Axis::last ? i / 33 : i % 2, block = axis == Axis::last ? i % 33 : i / 2;
      tiles.push_back(static_cast<uint8_t>(scales(32 * row, block)));
    }
    value.parts[1] = to_bytes(tiles);
    const HostValue other =
        packed_value(operand("mxfp4", Axis::last, 1, 40, 1056, spread_scales(kOne, 2), any_code(2)));
    compare(value, other, to_string(axis));
  }
}

/// e4m3 codes of scales: zero, subnormal numbers, the largest, both signs, NaN where it is asked for.
Choice e4m3_scales(bool nan) {
  return [nan](int64_t vector, int64_t block) {
    const uint32_t r = mixed(vector, block + 77);
    const uint32_t sign = r >> 24 & 0x80u;
    if (nan && vector % 13 == 5 && block == 1) return 0x7Fu | sign;
    if (r % 11 == 0) return (r >> 8 & 7u) | sign;
    return (r % 13 == 0 ? 0x7Eu : (r >> 8) % 0x7Fu) | sign;
  };
}

TEST_F(GpuProducts, nvfp4_blocks_in_halves) {
  for (const Size& s : kSizes)
    for (const bool nan : {false, true}) {
      PackedOperand a = operand("nvfp4", s.a, s.matrices, s.m, s.k, e4m3_scales(nan), any_code(5));
      PackedOperand b = operand("nvfp4", s.b, s.matrices, s.n, s.k, e4m3_scales(false), any_code(6));
      a.d = 0x1.8p-9f, b.d = 0x1.2468ap-3f;
      compare(a, b, fmt::format("k {} nan {}", s.k, nan));
    }
}

TEST_F(GpuProducts, row_scaled_operands_in_parts_of_k) {
  const auto scales = [](int64_t vector, int64_t) {
    return std::bit_cast<uint32_t>(0.5f + 0.01f * static_cast<float>(vector));
  };
  for (const int64_t k : {31, 1500, 20000, 116508, 120000})
    for (const Axis axis : {Axis::last, Axis::first}) {
      const auto codes = [k](int64_t vector, int64_t i) { return k > 100000 ? 7u : any_code(7)(vector, i); };
      compare(operand("e2m1:row:fp32:rne", axis, 1, 18, k, scales, codes),
              operand("e2m1:row:fp32:rne", axis, 1, 10, k, scales, codes), fmt::format("k {}", k));
    }
}

/// A scale of each vector, binary32, of either sign.
uint32_t vector_scale(int64_t vector, int64_t) {
  const float magnitude = 0.5f + 0.01f * static_cast<float>(vector % 100);
  return std::bit_cast<uint32_t>(vector % 7 == 3 ? -magnitude : magnitude);
}
std::string row_scaled(const std::string& element) { return element + ":row:fp32:rne"; }
Choice any_code_of(const std::string& spec, int64_t salt) {
  const uint32_t codes = 1u << parse_quant_spec(spec).element.bits;
  return [=](int64_t vector, int64_t k) { return mixed(vector + 1000003 * salt, k) % codes; };
}
/// Without NaN but in one vector of 20.
Choice mostly_numbers(const std::string& spec, int64_t salt) {
  const ElementFormat f = parse_quant_spec(spec).element;
  return [=, any = any_code_of(spec, salt)](int64_t vector, int64_t k) {
    const uint32_t code = any(vector, k);
    return std::isnan(code_value(code, f)) && (vector % 20 != 7 || k % 3 != 0) ? code ^ 0x41u : code;
  };
}

TEST_F(GpuProducts, integers_of_one_to_three_digits) {
  const std::pair<const char*, const char*> pairs[] = {
      {"e4m3", "e4m3"}, {"e4m3", "e2m1"}, {"e2m1", "e4m3"}, {"e3m2", "e3m2"}, {"e3m2", "e4m3"}, {"e4m3", "e3m2"},
      {"e2m3", "e3m2"}, {"e2m3", "e2m3"}, {"int8", "e4m3"}, {"int8", "int8"}, {"e3m0", "e3m0"}};
  for (const auto& [of_a, of_b] : pairs)
    for (const Size& s : kSizes) {
      const std::string a = row_scaled(of_a), b = row_scaled(of_b);
      compare(operand(a, s.a, s.matrices, s.m, s.k, vector_scale, mostly_numbers(a, 1)),
              operand(b, s.b, s.matrices, s.n, s.k, vector_scale, mostly_numbers(b, 2)),
              fmt::format("{}·{} {}×{}×{}", of_a, of_b, s.m, s.n, s.k));
    }
}

TEST_F(GpuProducts, every_pair_of_codes) {
  for (const char* of_b : {"e4m3", "e3m2", "int8", "e2m1"})
    for (const Axis axis : {Axis::last, Axis::first}) {
      const std::string a = row_scaled("e4m3"), b = row_scaled(of_b);
      const auto code = [](int64_t vector, int64_t) { return static_cast<uint32_t>(vector); };
      compare(operand(a, axis, 1, 256, 1, vector_scale, code),
              operand(b, axis, 1, int64_t{1} << parse_quant_spec(b).element.bits, 1, vector_scale, code),
              fmt::format("e4m3·{}", of_b));
    }
}

TEST_F(GpuProducts, sums_of_the_largest_integers_keep_their_last_bit) {
  // ±448 throughout, or as many of both signs, and one product of the smallest numbers, which decides how the sum
  // rounds.
  const std::string spec = row_scaled("e4m3");
  for (const int64_t k : {127, 1025, 8193, 65536, 70001, 131071})
    for (const Axis axis : {Axis::last, Axis::first}) {
      const auto codes = [k](int64_t vector, int64_t i) {
        if (i == k / 3) return 1u | (vector % 2 == 0 ? 0x80u : 0u);
        const bool negative = vector % 3 == 0 || (vector % 3 == 1 && i < k / 2);
        return negative ? 0xFEu : 0x7Eu;
      };
      compare(operand(spec, axis, 1, 9, k, vector_scale, codes), operand(spec, axis, 1, 6, k, vector_scale, codes),
              fmt::format("k {}", k));
    }
}

TEST_F(GpuProducts, a_scale_of_the_tensor_and_one_of_each_row) {
  for (const Size& s : kSizes) {
    const std::string a = "e4m3:tensor:fp32:rne", b = row_scaled("e4m3");
    compare(operand(a, s.a, s.matrices, s.m, s.k, vector_scale, mostly_numbers(a, 3)),
            operand(b, s.b, s.matrices, s.n, s.k, vector_scale, mostly_numbers(b, 4)), fmt::format("k {}", s.k));
  }
}

TEST_F(GpuProducts, large_sums_of_digits_agree_with_those_of_some_rows) {
  const int64_t m = 1100, n = 1028, k = 16500;
  const std::vector<int64_t> rows{0, 63, 64, 127, 128, 255, 256, 1023, 1099}, cols{0, 1, 127, 128, 700, 1027};
  const std::string spec = row_scaled("e4m3");
  const PackedOperand a = operand(spec, Axis::last, 1, m, k, vector_scale, mostly_numbers(spec, 8));
  const PackedOperand b = operand(spec, Axis::first, 1, n, k, vector_scale, mostly_numbers(spec, 9));
  const std::vector<float> all = product_on(*cuda(), packed_value(a), packed_value(b));
  const std::vector<float> some = product_on(*scalar_, packed_value(rows_of(a, rows)), packed_value(rows_of(b, cols)));
  for (size_t i = 0; i < some.size(); ++i) {
    const float found = all[static_cast<size_t>(rows[i / cols.size()] * n + cols[i % cols.size()])];
    if (std::isnan(some[i]) && std::isnan(found)) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(some[i]), std::bit_cast<uint32_t>(found)) << "output " << i;
  }
}

}  // namespace
}  // namespace fp4sim::test
