#include "simulator/schedule.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "nlohmann/json.hpp"
#include "simulator/event_engine.h"

namespace tandem {
namespace {

// A Program by hand: buffers have bytes, instructions have costs.
struct Builder {
  Program program;
  std::vector<InstructionCost> costs;

  BufferId Buffer(int64_t bytes, BufferRole role = BufferRole::kActivation) {
    tandem::Buffer buffer;
    buffer.name = "b" + std::to_string(program.buffers.size());
    buffer.bytes = bytes;
    buffer.role = role;
    program.buffers.push_back(buffer);
    return BufferId(static_cast<int64_t>(program.buffers.size()) - 1);
  }
  void Add(InstructionKind kind, std::vector<BufferId> inputs, std::vector<BufferId> outputs,
           InstructionCost cost) {
    Instruction instruction;
    instruction.kind = kind;
    instruction.name = "i" + std::to_string(program.instructions.size());
    instruction.inputs = std::move(inputs);
    instruction.outputs = std::move(outputs);
    program.instructions.push_back(instruction);
    costs.push_back(std::move(cost));
  }
  BufferId Kernel(std::vector<BufferId> inputs, double seconds, int64_t bytes = 100,
                  BufferRole role = BufferRole::kActivation) {
    const BufferId out = Buffer(bytes, role);
    Add(InstructionKind::kKernel, std::move(inputs), {out}, {seconds, -1, "gemm", 10});
    return out;
  }
  BufferId Collective(BufferId input, double seconds, int level = 0, int64_t bytes = 100) {
    const BufferId out = Buffer(bytes);
    Add(InstructionKind::kCollective, {input}, {out}, {seconds, level, "all_reduce", 0});
    return out;
  }
  void Accumulate(BufferId input, BufferId into, double seconds) {
    Add(InstructionKind::kLoop, {input}, {into}, {seconds, -1, "accumulate", 0});
  }
  void Free(BufferId buffer) { Add(InstructionKind::kFree, {buffer}, {}, {}); }
  void Store(BufferId next, BufferId state) {
    Add(InstructionKind::kStoreState, {next}, {state}, {});
  }
  void Loop(int64_t micro_batches, int begin, int end) {
    program.mesh.axes = {{"micro", micro_batches, true}};
    program.loop_begin = begin;
    program.loop_end = end;
  }
};

Machine NoHost() {
  Machine machine = *LoadMachine("dgx-a100");
  machine.host = {};
  return machine;
}

double Sum(const Breakdown& b) {
  return b.compute + b.communication_hidden + b.communication_exposed + b.host + b.idle;
}

TEST_CASE("engine: overlapping costs the longer and an eighth of the shorter") {
  std::vector<Task> tasks = {{0, 3, 0, {}, 0, 0}, {1, 2, 0, {}, 0, 0}};
  const EngineTotals totals = RunTasks(tasks, 2, 0.125);
  CHECK(totals.end_seconds == Approx(3.25));
  CHECK(totals.compute == Approx(1));
  CHECK(totals.communication_hidden == Approx(2.25));
  CHECK(totals.communication_exposed == 0);
  // Two communication streams do not slow each other.
  tasks = {{1, 3, 0, {}, 0, 0}, {2, 2, 0, {}, 0, 0}};
  CHECK(RunTasks(tasks, 3, 0.125).end_seconds == Approx(3));
}

TEST_CASE("engine: order, dependencies, launches") {
  std::vector<Task> tasks = {{0, 1, 0.5, {}, 0, 0}, {1, 2, 0, {0}, 0, 0}, {0, 1, 0, {1}, 0, 0}};
  const EngineTotals totals = RunTasks(tasks, 2, 0.125);
  CHECK(tasks[0].start_seconds == Approx(0.5));
  CHECK(tasks[1].start_seconds == Approx(1.5));
  CHECK(tasks[2].start_seconds == Approx(3.5));
  CHECK(totals.end_seconds == Approx(4.5));
  CHECK(totals.host == Approx(0.5));
  CHECK(totals.communication_exposed == Approx(2));
  std::vector<Task> none;
  CHECK(RunTasks(none, 2, 0.125).end_seconds == 0);
}

TEST_CASE("communication that is waited for is exposed, the other hidden") {
  Builder waited;
  const BufferId x = waited.Kernel({}, 1);
  const BufferId y = waited.Collective(x, 0.5);
  waited.Kernel({y}, 1);
  const Timeline exposed = SimulateCosts(waited.program, waited.costs, NoHost());
  CHECK(exposed.step_seconds == Approx(2.5));
  CHECK(exposed.breakdown.communication_exposed == Approx(0.5));
  CHECK(exposed.breakdown.communication_hidden == 0);

  Builder beside;
  const BufferId g = beside.Kernel({}, 1);
  beside.Collective(g, 0.5, 1);
  beside.Kernel({g}, 1);
  const Timeline hidden = SimulateCosts(beside.program, beside.costs, NoHost());
  CHECK(hidden.step_seconds == Approx(2 + 0.125 * 0.5));
  CHECK(hidden.breakdown.communication_exposed == 0);
  CHECK(hidden.breakdown.communication_hidden == Approx(0.5 + 0.125 * 0.5));
  CHECK(hidden.breakdown.compute == Approx(1.5));
  CHECK(Sum(hidden.breakdown) == Approx(hidden.step_seconds));
  CHECK(hidden.breakdown.communication_by_collective.at("all_reduce") == Approx(0.5));
  CHECK(hidden.breakdown.compute_by_kind.at("gemm") == Approx(2));
  CHECK(hidden.flops_per_device == 20);
}

TEST_CASE("without asynchronous communication nothing is hidden") {
  Builder b;
  const BufferId g = b.Kernel({}, 1);
  b.Collective(g, 0.5);
  b.Kernel({g}, 1);
  Machine machine = NoHost();
  machine.asynchronous_communication = false;
  const Timeline timeline = SimulateCosts(b.program, b.costs, machine);
  CHECK(timeline.step_seconds == Approx(2.5));
  CHECK(timeline.breakdown.communication_hidden == 0);
}

TEST_CASE("small kernels are bound by the host") {
  Builder b;
  BufferId x = b.Kernel({}, 1e-6);
  for (int i = 0; i < 99; ++i) x = b.Kernel({x}, 1e-6);
  Machine machine = NoHost();
  machine.host.kernel_launch_seconds = 5e-6;
  machine.host.step_seconds = 1e-4;
  const Timeline timeline = SimulateCosts(b.program, b.costs, machine);
  CHECK(timeline.step_seconds == Approx(1e-4 + 100 * 5e-6 + 1e-6));
  CHECK(timeline.breakdown.host > 0.7 * timeline.step_seconds);
  machine.host.kernel_launch_seconds = 0.5e-6;  // Launched ahead of the device.
  CHECK(SimulateCosts(b.program, b.costs, machine).step_seconds == Approx(1e-4 + 1.005e-4));
}

TEST_CASE("weights are gathered ahead, within the window and no further") {
  // Each layer's weight is gathered just before its kernel.
  const auto step = [](int64_t bytes) {
    Builder b;
    BufferId x = b.Kernel({}, 1);
    for (int layer = 0; layer < 8; ++layer) {
      const BufferId weight =
          b.Collective(b.Buffer(bytes / 8, BufferRole::kParameter), 1, 1, bytes);
      x = b.Kernel({x, weight}, 1);
      b.Free(weight);
    }
    return SimulateCosts(b.program, b.costs, NoHost());
  };
  const Timeline timeline = step(int64_t{1} << 30);
  // All but the contention is hidden behind the kernel before.
  CHECK(timeline.step_seconds == Approx(1 + 8 * 1.125).epsilon(0.02));
  // Two gathered weights are paid for, not eight; all eight shards are resident.
  CHECK(timeline.memory.at_peak.at("communication") == int64_t{2} << 30);
  CHECK(timeline.memory.at_peak.at("parameters") == int64_t{1} << 30);
  CHECK(timeline.memory.resident_bytes == int64_t{1} << 30);
}

TEST_CASE("windows of collectives") {
  Builder b;
  BufferId x = b.Kernel({}, 1);
  for (int i = 0; i < 4; ++i) {
    b.Collective(x, 1, 0, 100);
    b.Kernel({x}, 1);
  }  // Collectives at 1, 3, 5, 7.
  const auto at = [&](int64_t bytes) { return CollectiveWindows(b.program, bytes); };
  REQUIRE(at(0).size() == 4);
  CHECK(at(0)[2].earliest == 5);
  CHECK(at(0)[2].latest == 6);
  CHECK(at(200)[0].earliest == 0);
  CHECK(at(200)[1].earliest == 0);
  CHECK(at(200)[2].earliest == 2);
  CHECK(at(200)[3].earliest == 4);
  CHECK(at(200)[0].latest == 5);
  CHECK(at(200)[3].latest == 9);
  CHECK(at(50)[2].earliest == 4);  // One alone may always be early, after the one before.
  CHECK(DefaultWindowBytes(b.program) == 64 << 20);
}

TEST_CASE("memory: lives from writer to free") {
  Builder b;
  const BufferId in = b.Buffer(7, BufferRole::kInput);
  const BufferId x = b.Kernel({in}, 1, 1000);
  const BufferId y = b.Kernel({x}, 1, 500);
  b.Free(x);
  const BufferId z = b.Kernel({y}, 1, 600);
  b.Free(y);
  b.Kernel({z}, 1, 1);
  const MemoryReport report = PeakMemory(b.program, 0);
  CHECK(report.peak_bytes == 1507);
  CHECK(report.peak_instruction == 1);
  CHECK(report.at_peak.at("activations") == 1500);
  CHECK(report.at_peak.at("inputs") == 7);
  CHECK(report.live_bytes == std::vector<int64_t>{1007, 1507, 1507, 1107, 1107, 608});
  int64_t sum = 0;
  for (const auto& [kind, bytes] : report.at_peak) sum += bytes;
  CHECK(sum == report.peak_bytes);
}

TEST_CASE("memory: the update is in place unless the old value is still read") {
  for (const bool read_later : {false, true}) {
    Builder b;
    const BufferId weight = b.Buffer(1000, BufferRole::kParameter);
    const BufferId moment = b.Buffer(1000, BufferRole::kState);
    const BufferId gradient = b.Kernel({weight}, 1, 1000, BufferRole::kGradient);
    const BufferId next_moment = b.Kernel({gradient, moment}, 1, 1000, BufferRole::kState);
    const BufferId next = b.Kernel({weight, next_moment}, 1, 1000, BufferRole::kParameter);
    b.Free(gradient);
    if (read_later) b.Kernel({weight}, 1, 0);
    b.Store(next, weight);
    b.Store(next_moment, moment);
    const MemoryReport report = PeakMemory(b.program, 0);
    CHECK(report.peak_bytes == (read_later ? 4000 : 3000));
    CHECK(report.resident_bytes == 2000);
    CHECK(report.at_peak.at("gradients") == 1000);
  }
}

TEST_CASE("memory: a gathered update goes to the state's own memory") {
  Builder b;
  const BufferId weight = b.Buffer(1000, BufferRole::kParameter);
  const BufferId shard = b.Kernel({weight}, 1, 250, BufferRole::kParameter);
  const BufferId next = b.Collective(shard, 1, 0, 1000);
  b.Free(shard);
  b.Store(next, weight);
  CHECK(PeakMemory(b.program, 0).peak_bytes == 1250);
  // In another size it cannot.
  b.program.buffers[next.index()].bytes = 1001;
  CHECK(PeakMemory(b.program, 0).peak_bytes == 2251);
}

TEST_CASE("memory: a view shares its input's memory, which then lives as long") {
  Builder b;
  const BufferId x = b.Kernel({}, 1, 1000);
  const BufferId view = b.Kernel({x}, 0, 1000);
  b.Free(x);
  const BufferId again = b.Kernel({view}, 0, 1000);
  b.Free(view);
  b.Kernel({again}, 1, 10);
  b.Free(again);
  b.Kernel({}, 1, 500);
  const std::vector<bool> views = {false, true, false, true, false, false, false, false};
  CHECK(PeakMemory(b.program, 0).peak_bytes == 2000);
  const MemoryReport shared = PeakMemory(b.program, 0, views);
  CHECK(shared.peak_bytes == 1010);
  CHECK(shared.live_bytes == std::vector<int64_t>{1000, 1000, 1000, 1000, 1000, 1010, 1010, 510});
}

TEST_CASE("memory: accumulators live from the start of the loop, bodies are counted once") {
  Builder b;
  const BufferId sum = b.Buffer(100, BufferRole::kGradient);
  const BufferId x = b.Kernel({}, 1, 5000);
  b.Free(x);
  const BufferId g = b.Kernel({}, 1, 200, BufferRole::kGradient);
  b.Accumulate(g, sum, 1);
  b.Free(g);
  b.Kernel({sum}, 1, 1);
  b.Loop(4, 0, 5);
  CHECK(PeakMemory(b.program, 0).peak_bytes == 5100);
  const Timeline timeline = SimulateCosts(b.program, b.costs, NoHost());
  CHECK(timeline.step_seconds == Approx(4 * 3 + 1));
}

TEST_CASE("many micro-batches: extrapolated as simulated") {
  Builder b;
  const BufferId sum = b.Buffer(100, BufferRole::kGradient);
  const BufferId x = b.Kernel({}, 1);
  const BufferId y = b.Collective(x, 0.3);
  const BufferId z = b.Kernel({x}, 0.2);
  const BufferId w = b.Kernel({y, z}, 1);
  b.Accumulate(w, sum, 0.1);
  const BufferId reduced = b.Collective(sum, 2, 1);
  b.Kernel({reduced}, 0.5);
  b.Loop(64, 0, 5);
  TimelineOptions options;
  options.record = true;
  const Timeline quick = SimulateCosts(b.program, b.costs, NoHost(), options);
  options.simulated_micro_batches = 64;
  const Timeline full = SimulateCosts(b.program, b.costs, NoHost(), options);
  CHECK(quick.step_seconds == Approx(full.step_seconds));
  CHECK(quick.breakdown.compute == Approx(full.breakdown.compute));
  CHECK(quick.breakdown.communication_hidden == Approx(full.breakdown.communication_hidden));
  CHECK(quick.breakdown.communication_exposed == Approx(full.breakdown.communication_exposed));
  CHECK(Sum(quick.breakdown) == Approx(quick.step_seconds));
  double end = 0;
  for (const Span& span : quick.record.spans) end = std::max(end, span.end_seconds);
  CHECK(end == Approx(quick.step_seconds));
}

// A seeded random Program: several streams, frees, perhaps a loop.
Builder Random(int seed) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  Builder b;
  std::vector<BufferId> live = {b.Buffer(50, BufferRole::kInput),
                                b.Buffer(70, BufferRole::kParameter)};
  const int count = 5 + pick(60);
  for (int i = 0; i < count; ++i) {
    const BufferId input = live[static_cast<size_t>(pick(static_cast<int>(live.size())))];
    const double seconds = pick(100) * 1e-5;
    const int64_t bytes = 1 + pick(1000);
    live.push_back(pick(3) == 0 ? b.Collective(input, seconds, pick(2), bytes)
                                : b.Kernel({input, live.back()}, seconds, bytes));
    if (pick(3) == 0) {
      const size_t victim = 2 + static_cast<size_t>(pick(static_cast<int>(live.size()) - 2));
      b.Free(live[victim]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
    }
  }
  if (pick(2) == 0) {
    b.Loop(1 + pick(20), 0, static_cast<int>(b.program.instructions.size()));
  }
  return b;
}

TEST_CASE("random Programs: the parts sum to the step, streams are in order, inputs are there") {
  for (int seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    const Builder b = Random(seed);
    Machine machine = *LoadMachine("dgx-a100");
    machine.asynchronous_communication = seed % 5 != 0;
    TimelineOptions options;
    options.record = true;
    options.simulated_micro_batches = 100;
    const Timeline timeline = SimulateCosts(b.program, b.costs, machine, options);
    REQUIRE(Sum(timeline.breakdown) == Approx(timeline.step_seconds));
    double busy = 0, all = 0;
    for (const auto& [kind, seconds] : timeline.breakdown.compute_by_kind) busy += seconds;
    all = busy;
    for (const auto& [kind, seconds] : timeline.breakdown.communication_by_collective) {
      all += seconds;
    }
    REQUIRE(timeline.step_seconds >= busy * (1 - 1e-9));
    REQUIRE(timeline.step_seconds <= all * (1 + machine.overlap_contention) + 1e-3 +
                                         1e-5 * 20 * b.program.instructions.size());
    // Fewer constraints, never slower.
    machine.host = {};
    REQUIRE(SimulateCosts(b.program, b.costs, machine).step_seconds <=
            timeline.step_seconds * (1 + machine.overlap_contention));
    std::map<std::pair<int, int>, double> stream_end;
    std::map<std::pair<int, int>, double> written;  // (buffer, micro-batch)
    for (const Span& span : timeline.record.spans) {
      double& end = stream_end[{static_cast<int>(span.stream), span.level}];
      REQUIRE(span.start_seconds >= end - 1e-12);
      REQUIRE(span.end_seconds >= span.start_seconds);
      REQUIRE(span.end_seconds <= timeline.step_seconds + 1e-12);
      end = span.end_seconds;
      if (span.stream == Stream::kHost) continue;
      const Instruction& instruction =
          b.program.instructions[static_cast<size_t>(span.instruction)];
      for (BufferId id : instruction.inputs) {
        auto it = written.find({id.value, span.micro_batch});
        if (it != written.end()) REQUIRE(span.start_seconds >= it->second - 1e-12);
      }
      for (BufferId id : instruction.outputs) {
        written[{id.value, span.micro_batch}] = span.end_seconds;
      }
    }
    const MemoryReport small = PeakMemory(b.program, 0);
    int64_t sum = 0;
    for (const auto& [kind, bytes] : timeline.memory.at_peak) sum += bytes;
    REQUIRE(sum == timeline.memory.peak_bytes);
    REQUIRE(timeline.memory.peak_bytes >= small.peak_bytes);
    REQUIRE(*std::max_element(small.live_bytes.begin(), small.live_bytes.end()) ==
            small.peak_bytes);
  }
}

TEST_CASE("the same twice") {
  const Builder b = Random(3);
  const Machine machine = *LoadMachine("dgx-a100");
  TimelineOptions options;
  options.record = true;
  const auto trace = [&] {
    return TraceJson(SimulateCosts(b.program, b.costs, machine, options).record, "t");
  };
  CHECK(trace() == trace());
}

TEST_CASE("the trace is JSON that Perfetto reads") {
  Builder b;
  const BufferId x = b.Kernel({}, 1);
  b.Collective(x, 0.5, 1);
  b.program.instructions[0].name = "matmul \"q\\k\"\n";
  b.program.devices = {3};
  TimelineOptions options;
  options.record = true;
  const Timeline timeline = SimulateCosts(b.program, b.costs, NoHost(), options);
  const auto json = nlohmann::json::parse(TraceJson(timeline.record, "a \"title\""));
  CHECK(nlohmann::json::parse(TraceJson(Record{}, "no text: \xff"))["otherData"]["title"] ==
        "no text: \xef\xbf\xbd");
  CHECK(json["otherData"]["title"] == "a \"title\"");
  CHECK(json["otherData"]["step_seconds"].get<double>() == Approx(1.5));
  int spans = 0, names = 0;
  for (const auto& event : json["traceEvents"]) {
    CHECK(event["pid"] == 3);
    if (event["ph"] == "M") {
      ++names;
      continue;
    }
    REQUIRE(event["ph"] == "X");
    ++spans;
    if (event["cat"] == "gemm") {
      CHECK(event["name"] == "matmul \"q\\k\"\n");
      CHECK(event["dur"].get<double>() == Approx(1e6));
    }
  }
  CHECK(spans == 4);  // Two instructions, two launches.
  CHECK(names == 7);  // A process, three threads with their order.
  CHECK(nlohmann::json::parse(TraceJson(Record{}, ""))["traceEvents"].empty());
}

}  // namespace
}  // namespace tandem
