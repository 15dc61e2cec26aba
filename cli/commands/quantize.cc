// fp4sim quantize: tensors of a file as packed codes and scales in another, with statistics.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <new>

#include "cli/commands/commands.h"
#include "cli/commands/packed_file.h"
#include "cli/commands/piece_options.h"
#include "cli/commands/quantize_job.h"
#include "cli/commands/whole_number.h"
#include "cli/commands/work_progress.h"
#include "cli/io/npy.h"
#include "reference/contract/error.h"

namespace fp4sim::cli {
namespace {

struct Options {
  std::string input, spec, axis = "last", tensors, out, decoded, stats = "text", layout = "fp4sim";
  uint64_t seed = 0;
  uint32_t stream = 0, step = 0;
  PieceOptions pieces;
};

PackedLayout parse_layout(const std::string& text) {
  for (const PackedLayout layout : {PackedLayout::fp4sim, PackedLayout::ggml})
    if (text == layout_name(layout)) return layout;
  throw UsageError("layout must be `fp4sim` or `ggml`, got `" + text + "`");
}

void check_names(const Options& o) {
  if (!o.out.ends_with(".safetensors")) throw UsageError("--out must name a .safetensors file, got `" + o.out + "`");
  if (!o.decoded.empty() && !o.decoded.ends_with(".npy"))
    throw UsageError("--decoded must name a .npy file, got `" + o.decoded + "`");
  for (const std::string& name : {o.out, o.decoded})
    if (io::is_same_file(o.input, name)) throw UsageError(fmt::format("output `{}` is the input file", name));
  if (o.stats != "text" && o.stats != "json" && o.stats != "none")
    throw UsageError("--stats must be text, json or none, got `" + o.stats + "`");
}

struct Jobs {
  std::vector<std::unique_ptr<QuantizeJob>> jobs;
  int64_t pieces = 0;
};

Jobs make_jobs(Backend& backend, const std::vector<io::TensorSource>& sources, const QuantizeSettings& settings) {
  Jobs all;
  for (const io::TensorSource& source : sources) {
    all.jobs.push_back(make_quantize_job(backend, source, settings));
    all.pieces += all.jobs.back()->pieces();
  }
  return all;
}

/// Everything between the open files and the finished ones.
std::vector<NamedStats> convert(const Options& o, Backend& backend, const std::vector<io::TensorSource>& sources,
                                const QuantizeSettings& settings) {
  const Jobs all = make_jobs(backend, sources, settings);
  WorkProgress progress("pieces", all.pieces);
  const PieceDone done = [&] { progress.step(); };
  QuantizeJob::Items items;
  std::map<std::string, std::string> metadata = file_metadata(settings);
  for (const auto& job : all.jobs) {
    job->prepare(done);
    items.merge(job->items());
    metadata.merge(job->metadata());
  }
  io::SafetensorsWriter out(o.out, items, metadata);
  std::unique_ptr<io::NpyWriter> decoded;
  if (!o.decoded.empty()) decoded = std::make_unique<io::NpyWriter>(o.decoded, sources[0].shape());
  DecodedSink sink;
  if (decoded != nullptr) sink = [&](int64_t first, std::span<const float> values) { decoded->write(first, values); };
  std::vector<NamedStats> statistics;
  for (size_t t = 0; t < sources.size(); ++t)
    statistics.push_back({sources[t].name(), all.jobs[t]->write(out, sink, done)});
  if (decoded != nullptr) decoded->commit();
  out.commit();
  return statistics;
}

void run(const Options& o) {
  check_names(o);
  QuantizeSettings settings;
  settings.spec = parse_quant_spec(o.spec);
  settings.axis = parse_axis(o.axis);
  settings.layout = parse_layout(o.layout);
  settings.random = {o.seed, o.stream, o.step};
  settings.statistics = o.stats != "none";
  settings.piece_bytes = o.pieces.piece_bytes;
  settings.scratch_folder = io::folder_of(o.out);
  const auto backend = make_piece_backend(o.pieces);
  const std::vector<io::TensorSource> sources = io::open_tensors(o.input, o.tensors);
  if (!o.decoded.empty() && sources.size() > 1)
    throw UsageError(fmt::format("--decoded holds one tensor, but {} are quantized", sources.size()));
  std::vector<NamedStats> statistics;
  try {
    statistics = convert(o, *backend, sources, settings);
  } catch (const std::bad_alloc&) {
    throw out_of_memory(o.pieces);
  }
  if (!settings.statistics) return;
  const std::string text = o.stats == "json" ? stats_json(statistics) : stats_text(statistics);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

void add_quantize_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("quantize", "Quantize the tensors of a file; print what it did to them");
  command->add_option("input", o->input, "A .npy file (f4, f2; C or Fortran order) or .safetensors (F32, F16, BF16)")
      ->required();
  command->add_option("--spec", o->spec, "The quantization: mxfp4, e2m1:row:fp32:rne, nvfp4+had(16,philox) …")
      ->required();
  command->add_option("--axis", o->axis, "The contraction axis: last or first (of the last two)")
      ->capture_default_str();
  command->add_option("--tensors", o->tensors, "Only tensors whose names match this pattern, with * ? [ ]");
  command->add_option("--seed", o->seed, "Seed of stochastic rounding and Philox signs")
      ->check(whole_number<uint64_t>)
      ->capture_default_str();
  command->add_option("--stream", o->stream, "Stream of the rounding and of the signs")
      ->check(whole_number<uint32_t>)
      ->capture_default_str();
  command->add_option("--step", o->step, "Step of the random bits")
      ->check(whole_number<uint32_t>)
      ->capture_default_str();
  command->add_option("--out", o->out, "The .safetensors file of codes, scales and metadata")->required();
  command->add_option("--decoded", o->decoded,
                      "A .npy file (f4) of the decoded values: under +occ without the residual, under +had rotated");
  command->add_option("--stats", o->stats, "text, json or none")->capture_default_str();
  command
      ->add_option("--layout", o->layout,
                   "fp4sim, or ggml: ggml's own quantizer and blocks (NAME.blocks) for the specs mxfp4 and nvfp4")
      ->capture_default_str();
  add_piece_options(*command, o->pieces);
  command->footer(
      std::string(kStatsHelp) +
      "\n\nFiles may be larger than memory: they are read in pieces of rows, twice where a scale depends on "
      "the whole tensor or under +occ. In memory as a whole: a tensor under +occ with quantiles of the "
      "tensor; the elements of one scale that opt or 4over6 chooses by its error; a row under +occ or with "
      "a scale for the row. +occ along the first axis or of the whole tensor keeps a scratch copy of the "
      "clamped values beside OUT.");
  command->callback([o] { run(*o); });
}

}  // namespace fp4sim::cli
