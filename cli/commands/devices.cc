// fp4sim devices: the devices that `--backend cuda` can use.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/commands/commands.h"
#include "reference/contract/error.h"
#ifdef FP4SIM_WITH_CUDA
#include "gpu/backend.h"
#endif

namespace fp4sim::cli {
namespace {

#ifdef FP4SIM_WITH_CUDA
void list_devices() {
  for (const gpu::DeviceInfo& d : gpu::devices())
    fmt::print("{}: {}, {:.1f} GiB, compute capability {}.{}, {} multiprocessors, driver for CUDA {}\n", d.index,
               d.name, static_cast<double>(d.memory_bytes) / (1 << 30), d.compute_major, d.compute_minor,
               d.multiprocessors, d.driver);
}
#else
void list_devices() { throw Error("devices: this program was built without the cuda backend (./dev cuda)"); }
#endif

}  // namespace

void add_devices_command(CLI::App& app) {
  app.add_subcommand("devices", "List the devices of the cuda backend")->callback(list_devices);
}

}  // namespace fp4sim::cli
