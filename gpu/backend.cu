#include "gpu/backend.h"

#include <cstddef>
#include <utility>

#include "gpu/digest.h"
#include "gpu/lanes.h"
#include "gpu/launch.h"
#include "gpu/schedule.h"
#include "gpu/staging.h"
#include "reference/contract/error.h"
#include "reference/contract/fp_environment.h"

namespace fp4sim::gpu {
namespace {

constexpr int kMostLanes = 16;
constexpr int kMaxThreads = 512;  // of a block: leaves 128 registers to each

/// Bytes of scratch memory that a node or step takes.
template <class Work>
int64_t scratch_of(const Work& work, Context& context) {
  context.begin(true, nullptr, 0);
  launch(work, context);
  return context.scratch_needed();
}

void check_range(const char* what, int64_t bytes, const Part& part) {
  if (bytes > part.bytes)
    throw Error(std::string(what) + " of " + std::to_string(bytes) + " bytes, the component has " +
                std::to_string(part.bytes));
}

/// A stream that ends with its owner.
class Stream {
 public:
  Stream() { FP4SIM_CUDA_CALL(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// An event that ends with its owner.
class Event {
 public:
  Event() { FP4SIM_CUDA_CALL(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream) { FP4SIM_CUDA_CALL(cudaEventRecord(event_, stream)); }
  void let_wait(cudaStream_t stream) { FP4SIM_CUDA_CALL(cudaStreamWaitEvent(stream, event_, 0)); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// A plan as a CUDA graph: its steps on some lanes, each a stream while the graph is captured, with scratch memory that
/// the steps of a lane share.
class GraphProgram final : public Program {
 public:
  GraphProgram(const Plan& plan, const Context& context, int lanes) : stream_(context.stream()) {
    const std::vector<Step> steps = schedule(plan);
    const std::vector<Placement> placements = place(steps, static_cast<size_t>(lanes));
    for (int i = 0; i < lanes; ++i) lanes_.push_back(std::make_unique<Lane>(context, i == 0 ? stream_ : nullptr));
    for (size_t s = 0; s < steps.size(); ++s) {
      Lane& lane = *lanes_[placements[s].lane];
      lane.scratch = std::max(lane.scratch, scratch_of(steps[s], lane.context));
    }
    for (const auto& lane : lanes_) lane->arena = std::make_unique<DeviceBuffer>(lane->scratch, stream_);
    cudaGraph_t graph = capture(steps, placements);
    const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    require(status, "cudaGraphInstantiate");
  }
  ~GraphProgram() override { cudaGraphExecDestroy(executable_); }
  GraphProgram(const GraphProgram&) = delete;
  GraphProgram& operator=(const GraphProgram&) = delete;

  void run() override { FP4SIM_CUDA_CALL(cudaGraphLaunch(executable_, stream_)); }

 private:
  struct Lane {
    /// On a stream of its own unless one is given.
    Lane(const Context& like, cudaStream_t given)
        : own(given == nullptr ? std::make_unique<Stream>() : nullptr),
          context(own == nullptr ? given : own->get(), like.multiprocessors(), like.threads(), like.certifies_small()) {
    }

    std::unique_ptr<Stream> own;
    Context context;
    int64_t scratch = 0;
    std::unique_ptr<DeviceBuffer> arena;
    Event over;
  };

  cudaGraph_t capture(const std::vector<Step>& steps, const std::vector<Placement>& placements) {
    std::vector<std::unique_ptr<Event>> over(steps.size());  // of the steps that others wait for
    for (const Placement& placement : placements)
      for (const size_t d : placement.waits)
        if (over[d] == nullptr) over[d] = std::make_unique<Event>();
    FP4SIM_CUDA_CALL(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    cudaGraph_t graph = nullptr;
    try {
      put(steps, placements, over);
    } catch (...) {
      cudaStreamEndCapture(stream_, &graph);  // its failure is the consequence of the one being reported
      if (graph != nullptr) cudaGraphDestroy(graph);
      throw;
    }
    FP4SIM_CUDA_CALL(cudaStreamEndCapture(stream_, &graph));
    return graph;
  }

  /// All steps on their lanes, which fork from the first and join it again.
  void put(const std::vector<Step>& steps, const std::vector<Placement>& placements,
           const std::vector<std::unique_ptr<Event>>& over) {
    lanes_[0]->over.record(stream_);
    for (size_t i = 1; i < lanes_.size(); ++i) lanes_[0]->over.let_wait(lanes_[i]->context.stream());
    for (size_t s = 0; s < steps.size(); ++s) {
      Lane& lane = *lanes_[placements[s].lane];
      for (const size_t d : placements[s].waits) over[d]->let_wait(lane.context.stream());
      lane.context.begin(false, lane.arena->data(), lane.scratch);
      launch(steps[s], lane.context);
      if (over[s] != nullptr) over[s]->record(lane.context.stream());
    }
    for (size_t i = 1; i < lanes_.size(); ++i) {
      lanes_[i]->over.record(lanes_[i]->context.stream());
      lanes_[i]->over.let_wait(stream_);
    }
  }

  cudaStream_t stream_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  cudaGraphExec_t executable_ = nullptr;
};

class CudaBackend final : public Backend {
 public:
  CudaBackend(const BackendOptions& options, int multiprocessors)
      : device_(options.device),
        context_(stream_.get(), multiprocessors, options.threads, options.certifies_small),
        lanes_(options.lanes) {}

  std::string name() const override { return "cuda"; }

  size_t memory_rest() const override { return 2 * kReach; }

  std::unique_ptr<Buffer> allocate(int64_t bytes) override {
    use_device();
    return std::make_unique<DeviceBuffer>(bytes, stream_.get());
  }

  void upload(const Part& to, const void* from, int64_t bytes) override {
    check_range("upload", bytes, to);
    if (bytes == 0) return;
    use_device();
    if (bytes <= StagingRing::kSlotBytes) return staging_.upload(device_data(to), from, bytes, stream_.get());
    FP4SIM_CUDA_CALL(
        cudaMemcpyAsync(device_data(to), from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream_.get()));
    synchronize();
  }

  void download(const Part& from, void* to, int64_t bytes) override {
    check_range("download", bytes, from);
    if (bytes == 0) return;
    use_device();
    FP4SIM_CUDA_CALL(
        cudaMemcpyAsync(to, device_data(from), static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream_.get()));
    synchronize();
  }

  bool runs_ahead() const override { return true; }

  std::unique_ptr<Download> start_download(const Part& from, void* to, int64_t bytes) override {
    check_range("download", bytes, from);
    use_device();
    if (auto started = downloads_.start(to, device_data(from), bytes, stream_.get())) return started;
    return Backend::start_download(from, to, bytes);
  }

  uint64_t digest(const Tensor& tensor) override {
    use_device();
    if (digest_ == nullptr) digest_ = std::make_unique<DeviceBuffer>(sizeof(uint64_t), stream_.get());
    auto* sum = reinterpret_cast<uint64_t*>(digest_->data());
    context_.begin(false, nullptr, 0);
    context_.zero(sum, sizeof(uint64_t));
    add_digest(tensor, sum, context_);
    uint64_t value = 0;
    FP4SIM_CUDA_CALL(cudaMemcpyAsync(&value, sum, sizeof(value), cudaMemcpyDeviceToHost, stream_.get()));
    synchronize();
    return value;
  }

  void check(const Node&, std::span<const ValueType> in, std::span<const ValueType> out) const override {
    for (const auto types : {in, out})
      for (const ValueType& type : types)
        if (type.dtype == DType::packed || type.dtype == DType::csr) require_computable(type.spec);
  }

  void run(const NodeCall& call) override {
    const FpEnvironment environment;  // attributes are rounded on the host
    use_device();
    const int64_t needed = scratch_of(call, context_);
    if (needed > capacity_) {
      synchronize();  // the old arena may be in use
      arena_.reset();
      capacity_ = 0;
      arena_ = std::make_unique<DeviceBuffer>(2 * needed, stream_.get());
      capacity_ = 2 * needed;
    }
    context_.begin(false, arena_ == nullptr ? nullptr : arena_->data(), capacity_);
    launch(call, context_);
  }

  std::unique_ptr<Program> compile(const Plan& plan) override {
    const FpEnvironment environment;
    use_device();
    for (const Node& node : plan.graph.nodes) {
      std::vector<ValueType> in, out;
      for (const ValueId v : node.inputs) in.push_back(plan.graph.type(v));
      for (const ValueId v : node.outputs) out.push_back(plan.graph.type(v));
      check(node, in, out);
    }
    return std::make_unique<GraphProgram>(plan, context_, lanes_);
  }

  void synchronize() override {
    use_device();
    FP4SIM_CUDA_CALL(cudaStreamSynchronize(stream_.get()));
  }

 private:
  void use_device() const { FP4SIM_CUDA_CALL(cudaSetDevice(device_)); }

  int device_;
  Stream stream_;
  Context context_;
  int lanes_;
  StagingRing staging_;
  DownloadSlots downloads_;
  std::unique_ptr<DeviceBuffer> arena_, digest_;  // arena_: scratch of nodes run one by one
  int64_t capacity_ = 0;                          // bytes of arena_
};

}  // namespace

std::unique_ptr<Backend> make_backend(const BackendOptions& options) {
  const std::vector<DeviceInfo> list = devices();
  if (options.device < 0 || options.device >= static_cast<int>(list.size()))
    throw Error("no CUDA device " + std::to_string(options.device) + ": there are " + std::to_string(list.size()));
  if (options.threads < 32 || options.threads > kMaxThreads || options.threads % 32 != 0)
    throw Error("a block has a multiple of 32 and at most 512 threads, not " + std::to_string(options.threads));
  if (options.lanes < 1 || options.lanes > kMostLanes)
    throw Error("a graph has 1 to " + std::to_string(kMostLanes) + " lanes, not " + std::to_string(options.lanes));
  FP4SIM_CUDA_CALL(cudaSetDevice(options.device));
  return std::make_unique<CudaBackend>(options, list[static_cast<size_t>(options.device)].multiprocessors);
}

}  // namespace fp4sim::gpu
