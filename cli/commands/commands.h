// The subcommands: each function registers one on the program and leaves its work to a callback.
#pragma once

namespace CLI {
class App;
}

namespace fp4sim::cli {

void add_train_command(CLI::App& app);
void add_eval_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_formats_command(CLI::App& app);
void add_quantize_command(CLI::App& app);
void add_dequantize_command(CLI::App& app);
void add_error_command(CLI::App& app);
void add_graph_command(CLI::App& app);
void add_golden_command(CLI::App& app);
void add_fuzz_command(CLI::App& app);
void add_devices_command(CLI::App& app);

}  // namespace fp4sim::cli
