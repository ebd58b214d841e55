#include "simulator/schedule.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pcg/plural.h"
#include "simulator/event_engine.h"

namespace tandem {
namespace {

// Tasks of a step with `micro_batches` runs of the loop, in issue order.
class Issue {
 public:
  Issue(const Program& program, const std::vector<InstructionCost>& costs, const Machine& machine)
      : program_(program), costs_(costs), machine_(machine) {
    const int64_t window = machine.asynchronous_communication ? DefaultWindowBytes(program) : 0;
    windows_.resize(program.instructions.size());
    for (const CollectiveWindow& w : CollectiveWindows(program, window)) {
      windows_[static_cast<size_t>(w.instruction)] = w;
    }
  }

  void Build(int micro_batches) {
    tasks.clear();
    instruction_of.clear();
    micro_batch_of.clear();
    launch_ = machine_.host.step_seconds;
    last_kernel_ = last_task_ = -1;
    writer_.assign(program_.buffers.size(), -1);
    readers_.assign(program_.buffers.size(), {});
    due_.clear();
    kernels_before_.assign(1, {0, -1});
    const int count = static_cast<int>(program_.instructions.size());
    const bool loop = program_.loop_end > program_.loop_begin;
    for (int i = 0; i < (loop ? program_.loop_begin : count); ++i) Add(i, 0);
    for (int m = 0; loop && m < micro_batches; ++m) {
      kernels_before_.assign(1, {program_.loop_begin, last_kernel_});
      for (int i = program_.loop_begin; i < program_.loop_end; ++i) Add(i, m);
    }
    for (int i = program_.loop_end; loop && i < count; ++i) Add(i, 0);
  }

  std::vector<Task> tasks;
  std::vector<int> instruction_of;
  std::vector<int> micro_batch_of;

 private:
  void Add(int i, int micro_batch) {
    const Instruction& instruction = program_.instructions[static_cast<size_t>(i)];
    const InstructionCost& cost = costs_[static_cast<size_t>(i)];
    if (cost.category.empty()) return;  // Takes no time.
    const bool collective = cost.level >= 0;
    Task task;
    task.stream = collective ? 1 + cost.level : 0;
    task.work_seconds = cost.seconds;
    launch_ +=
        collective ? machine_.host.collective_launch_seconds : machine_.host.kernel_launch_seconds;
    task.launch_seconds = launch_;
    const int index = static_cast<int>(tasks.size());
    const auto after = [&](int other) {
      if (other >= 0 && other != index) task.after.push_back(other);
    };
    for (BufferId id : instruction.inputs) {
      after(writer_[id.index()]);
      readers_[id.index()].push_back(index);
    }
    for (BufferId id : instruction.outputs) {
      after(writer_[id.index()]);
      for (int reader : readers_[id.index()]) after(reader);
      readers_[id.index()].clear();
      writer_[id.index()] = index;
    }
    if (!machine_.asynchronous_communication) {
      after(last_task_);
    } else if (collective) {
      after(LastKernelBefore(std::max(windows_[static_cast<size_t>(i)].earliest, Floor(i))));
      due_.push_back({windows_[static_cast<size_t>(i)].latest, index});
    } else {
      // Collectives that may not be later than this.
      auto late = std::stable_partition(due_.begin(), due_.end(),
                                        [&](const auto& due) { return due.first > i; });
      for (auto it = late; it != due_.end(); ++it) after(it->second);
      due_.erase(late, due_.end());
    }
    std::sort(task.after.begin(), task.after.end());
    task.after.erase(std::unique(task.after.begin(), task.after.end()), task.after.end());
    if (!collective) {
      last_kernel_ = index;
      kernels_before_.push_back({i + 1, index});
    }
    last_task_ = index;
    tasks.push_back(std::move(task));
    instruction_of.push_back(i);
    micro_batch_of.push_back(micro_batch);
  }

  // Nothing is early across the ends of the loop.
  int Floor(int i) const {
    if (i >= program_.loop_end) return program_.loop_end;
    return i >= program_.loop_begin ? program_.loop_begin : 0;
  }

  // The last kernel issued before instruction `position` of this run of the loop.
  int LastKernelBefore(int position) const {
    auto it = std::upper_bound(kernels_before_.begin(), kernels_before_.end(), position,
                               [](int p, const auto& entry) { return p < entry.first; });
    return it == kernels_before_.begin() ? -1 : std::prev(it)->second;
  }

  const Program& program_;
  const std::vector<InstructionCost>& costs_;
  const Machine& machine_;
  std::vector<CollectiveWindow> windows_;  // by instruction
  double launch_ = 0;
  int last_kernel_ = -1;
  int last_task_ = -1;
  std::vector<int> writer_;                // by buffer: the task
  std::vector<std::vector<int>> readers_;  // since it was written
  std::vector<std::pair<int, int>> due_;   // (latest, task)
  // (position from which on it is the last one, task), ascending.
  std::vector<std::pair<int, int>> kernels_before_;
};

double Extrapolated(double last, double before, int64_t more) {
  return std::max(0.0, last + static_cast<double>(more) * (last - before));
}

EngineTotals Extrapolated(const EngineTotals& last, const EngineTotals& before, int64_t more) {
  EngineTotals totals;
  totals.compute = Extrapolated(last.compute, before.compute, more);
  totals.communication_exposed =
      Extrapolated(last.communication_exposed, before.communication_exposed, more);
  totals.communication_hidden =
      Extrapolated(last.communication_hidden, before.communication_hidden, more);
  totals.host = Extrapolated(last.host, before.host, more);
  totals.idle = Extrapolated(last.idle, before.idle, more);
  totals.end_seconds = totals.compute + totals.communication_hidden + totals.communication_exposed +
                       totals.host + totals.idle;
  return totals;
}

// Spans of the simulated micro-batches; what follows the loop is moved by what was not simulated.
Record MakeRecord(const Program& program, const std::vector<InstructionCost>& costs,
                  const Machine& machine, const Issue& issue, double step_seconds, int simulated,
                  int64_t micro_batches) {
  Record record;
  record.step_seconds = step_seconds;
  double end = 0;
  for (const Task& task : issue.tasks) end = std::max(end, task.end_seconds);
  const double moved = std::max(0.0, step_seconds - end);
  double resumed = step_seconds;
  double loop_end = 0;
  for (size_t t = 0; t < issue.tasks.size(); ++t) {
    const Task& task = issue.tasks[t];
    const int i = issue.instruction_of[t];
    const bool in_loop = i >= program.loop_begin && i < program.loop_end;
    const double shift = !in_loop && i >= program.loop_end && simulated < micro_batches ? moved : 0;
    if (in_loop) loop_end = std::max(loop_end, task.end_seconds);
    if (shift > 0) resumed = std::min(resumed, task.start_seconds + shift);
    const int m = issue.micro_batch_of[t];
    if (in_loop && m >= 2 && m + 1 < simulated) continue;
    const InstructionCost& cost = costs[static_cast<size_t>(i)];
    if (cost.seconds <= 0) continue;
    Span span;
    span.name = program.instructions[static_cast<size_t>(i)].name;
    span.category = cost.category;
    span.device = program.devices.empty() ? 0 : program.devices[0];
    span.instruction = i;
    span.micro_batch = m;
    span.stream = cost.level >= 0 ? Stream::kCommunication : Stream::kCompute;
    span.level = std::max(cost.level, 0);
    span.start_seconds = task.start_seconds + shift;
    span.end_seconds = task.end_seconds + shift;
    record.spans.push_back(span);
    const double launch = cost.level >= 0 ? machine.host.collective_launch_seconds
                                          : machine.host.kernel_launch_seconds;
    span.stream = Stream::kHost;
    span.category = "launch";
    span.level = 0;
    span.start_seconds = task.launch_seconds - launch + shift;
    span.end_seconds = task.launch_seconds + shift;
    record.spans.push_back(std::move(span));
  }
  if (simulated < micro_batches && resumed > loop_end) {
    Span more;
    more.name =
        absl::StrCat(Plural(micro_batches - simulated, "more micro-batch"), " like the last");
    more.category = "loop";
    more.device = program.devices.empty() ? 0 : program.devices[0];
    more.micro_batch = simulated;
    more.start_seconds = loop_end;
    more.end_seconds = resumed;
    record.spans.push_back(std::move(more));
  }
  std::stable_sort(record.spans.begin(), record.spans.end(), [](const Span& a, const Span& b) {
    return std::tie(a.start_seconds, a.stream) < std::tie(b.start_seconds, b.stream);
  });
  return record;
}

}  // namespace

Timeline SimulateCosts(const Program& program, const std::vector<InstructionCost>& costs,
                       const Machine& machine, const TimelineOptions& options) {
  const int64_t micro_batches = std::max<int64_t>(1, program.mesh.MicroBatches());
  const int simulated = static_cast<int>(
      std::min<int64_t>(micro_batches, std::max(2, options.simulated_micro_batches)));
  const int streams = 1 + static_cast<int>(machine.levels.size());
  Issue issue(program, costs, machine);
  EngineTotals before;
  if (simulated < micro_batches) {
    issue.Build(simulated - 1);
    before = RunTasks(issue.tasks, streams, machine.overlap_contention);
  }
  issue.Build(simulated);
  EngineTotals totals = RunTasks(issue.tasks, streams, machine.overlap_contention);
  if (simulated < micro_batches) {
    totals = Extrapolated(totals, before, micro_batches - simulated);
  }

  Timeline timeline;
  timeline.step_seconds = totals.end_seconds;
  timeline.breakdown.compute = totals.compute;
  timeline.breakdown.communication_exposed = totals.communication_exposed;
  timeline.breakdown.communication_hidden = totals.communication_hidden;
  timeline.breakdown.host = totals.host;
  timeline.breakdown.idle = totals.idle;
  for (size_t i = 0; i < costs.size(); ++i) {
    const InstructionCost& cost = costs[i];
    if (cost.category.empty()) continue;
    const int at = static_cast<int>(i);
    const double runs =
        at >= program.loop_begin && at < program.loop_end ? static_cast<double>(micro_batches) : 1;
    auto& by = cost.level >= 0 ? timeline.breakdown.communication_by_collective
                               : timeline.breakdown.compute_by_kind;
    by[cost.category] += runs * cost.seconds;
    timeline.flops_per_device += runs * cost.contraction_flops;
  }
  std::vector<bool> views;
  for (const InstructionCost& cost : costs) views.push_back(cost.category == "view");
  timeline.memory = PeakMemory(
      program, machine.asynchronous_communication ? DefaultWindowBytes(program) : 0, views);
  if (options.record) {
    timeline.record =
        MakeRecord(program, costs, machine, issue, timeline.step_seconds, simulated, micro_batches);
  }
  return timeline;
}

}  // namespace tandem
