// Random recipes end to end: any combination of places, specs, estimators, sources and overrides that a recipe file can
// say trains on scalar and simd with the same bits, and a fault planted in one side stops the run at its op.
#include <fmt/format.h>

#include "cli/train/trainer.h"
#include "fuzz/golden_training.h"
#include "fuzz/lockstep_backend.h"
#include "fuzz/mismatch.h"
#include "fuzz/sabotaged_backend.h"
#include "fuzz/specs.h"
#include "pch.h"
#include "reference/contract/error.h"
#include "reference/scalar/backend.h"
#include "reference/simd/backend.h"

namespace fp4sim::fuzz {
namespace {

std::string draw_place(Dice& dice, const train::PlaceRow& row) {
  std::string spec = draw_spec(dice);
  const bool grid = parse_quant_spec(spec).element.bits <= 8;  // estimators need one
  if (row.id == train::kFpropX && dice.one_in(6) && !parse_quant_spec(spec).sr34) spec += "+occ(0.9,e4m3,row)";
  std::string place = fmt::format("{} = {{ spec = \"{}\"", row.operand, spec);
  if (row.id <= train::kFpropW && grid && dice.one_in(2))
    place += fmt::format(", estimator = \"{}\"", draw_estimator(dice));
  if ((row.id == train::kDgradW || row.id == train::kWgradX) && dice.one_in(2)) place += ", source = \"forward\"";
  return place + " }\n";
}

std::string draw_products(Dice& dice, const std::string& prefix) {
  std::string text;
  const char* product = "";
  for (const train::PlaceRow& row : train::kPlaces) {
    if (std::string_view(product) != row.product) text += fmt::format("[{}{}]\n", prefix, product = row.product);
    if (!dice.one_in(4)) text += draw_place(dice, row);
  }
  return text;
}

/// A recipe file; not every draw is a legal recipe.
std::string draw_recipe(Dice& dice) {
  std::string text = fmt::format("activations = \"{}\"\nproduct = \"{}\"\n", dice.one_in(3) ? "bf16" : "fp32",
                                 dice.one_in(4) ? "fake" : "exact");
  if (dice.one_in(2)) text += "embedding = \"e4m3:row:fp32\"\n";
  if (dice.one_in(2)) text += "[attention]\nk = \"mxfp8e4m3\"\np = \"bf16\"\n";
  text += draw_products(dice, "");
  if (dice.one_in(2)) text += "[[override]]\nlayers = \"layers.*.ffn.*\"\n" + draw_products(dice, "override.");
  return text;
}

RC_GTEST_PROP(Recipes, random_ones_train_with_the_same_bits_on_scalar_and_simd, (uint32_t seed)) {
  Dice dice(seed, "recipes");
  const std::string text = draw_recipe(dice);
  train::Settings s;
  s.model.kind = dice.one_in(2) ? "gpt" : "llama";
  s.model.layers = 1;
  s.model.width = 32;
  s.model.heads = 2;
  s.model.hidden = 64;
  s.model.context = 32;
  s.step.batch = 1;
  s.step.micro_batches = dice.between(1, 2);
  s.corpus_bytes = 800;
  s.val_fraction = 0;
  s.schedule.steps = 2;
  train::check(s);
  RC_LOG() << text;
  train::Recipe recipe;
  try {
    recipe = train::parse_recipe(text, "random.toml");
    (void)train::build_training_step(s.model, recipe, s.step);
  } catch (const UsageError&) {
    RC_DISCARD("not a legal recipe for this model");
  }
  const auto pair = make_lockstep(scalar::make_backend(), simd::make_backend(2), {LockstepMode::chain, ""});
  train::Trainer trainer(*pair, s, recipe);
  try {
    trainer.advance();
    if (dice.one_in(4)) trainer.advance();
  } catch (const MismatchError& e) {
    RC_FAIL(e.what());
  } catch (const Error&) {
    RC_TAG("loss not finite");
  }
}

struct PlantedFault {
  const char* mutant;
  Op op;
};

TEST(EndToEndFaults, a_planted_fault_stops_the_run_at_its_op) {
  for (const PlantedFault& fault : {PlantedFault{"scale_plus_one", Op::quantize},
                                    {"one_row_too_many", Op::cross_entropy_grad},
                                    {"dge_wrong_clip", Op::estimator_grad},
                                    {"eps_omitted", Op::rmsnorm}}) {
    const auto pair = make_lockstep(simd::make_backend(2), make_sabotaged(simd::make_backend(2), fault.mutant),
                                    {LockstepMode::chain, ""});
    try {
      (void)trace_training(*pair, {"fp4-dge-occ", "llama", 2});
      FAIL() << fault.mutant << " was not found";
    } catch (const MismatchError& e) {
      EXPECT_EQ(e.mismatch().op, fault.op) << e.what();
      EXPECT_FALSE(e.mismatch().node.empty());
    }
  }
}

}  // namespace
}  // namespace fp4sim::fuzz
