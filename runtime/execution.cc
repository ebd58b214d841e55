#include "runtime/execution.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <iterator>
#include <memory>
#include <new>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/library_threads.h"
#include "runtime/program_instances.h"
#include "runtime/rank_executor.h"
#include "runtime/thread_communicator.h"

namespace tandem {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// Which Program each device runs.
absl::StatusOr<std::vector<size_t>> ProgramOfDevices(const std::vector<Program>& programs) {
  if (programs.empty()) return absl::InvalidArgumentError("the plan has no Program");
  const int64_t devices = programs[0].mesh.Devices();
  std::vector<int> of_device(Index(devices), -1);
  for (size_t p = 0; p < programs.size(); ++p) {
    if (programs[p].mesh != programs[0].mesh) {
      return absl::InvalidArgumentError(
          absl::StrCat("Programs 0 and ", p, " are for different meshes"));
    }
    for (int64_t d : programs[p].devices) {
      if (d < 0 || d >= devices || of_device[Index(d)] >= 0) {
        return absl::InvalidArgumentError(absl::StrCat("Program ", p, " is for device ", d,
                                                       ", which is not one of ", devices,
                                                       " or has a Program already"));
      }
      of_device[Index(d)] = static_cast<int>(p);
    }
  }
  const auto missing = std::find(of_device.begin(), of_device.end(), -1);
  if (missing != of_device.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("device ", missing - of_device.begin(), " of ", devices, " has no Program"));
  }
  return std::vector<size_t>(of_device.begin(), of_device.end());
}

template <typename T>
class Run {
 public:
  Run(const Graph& graph, const std::vector<Program>& programs, const Sources& sources,
      const ExecutionOptions& options)
      : graph_(graph), programs_(programs), sources_(sources), options_(options) {}

  absl::StatusOr<ExecutionResult> Execute() {
    absl::StatusOr<std::vector<size_t>> of_device = ProgramOfDevices(programs_);
    if (!of_device.ok()) return of_device.status();
    for (const Program& program : programs_) {
      absl::StatusOr<ProgramInstances> instances = InstancesOf(graph_, program);
      if (!instances.ok()) return instances.status();
      if (absl::Status s = CheckExecutable(graph_, program, *instances); !s.ok()) return s;
      instances_.push_back(*std::move(instances));
    }
    ThreadWorld world(static_cast<int>(of_device->size()), options_.timeout_seconds);
    world_ = &world;
    for (size_t d = 0; d < of_device->size(); ++d) {
      const size_t p = (*of_device)[d];
      ranks_.push_back(std::make_unique<Rank>(graph_, programs_[p], instances_[p], sources_,
                                              static_cast<int64_t>(d)));
    }
    start_ = Now();
    std::vector<std::thread> threads;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      threads.emplace_back([this, r] { RunRank(static_cast<int>(r)); });
    }
    for (std::thread& thread : threads) thread.join();
    if (!world.failure().ok()) return world.failure();
    return Collect();
  }

 private:
  // Buffers stay until every thread has ended: others may still read them.
  struct Rank {
    Rank(const Graph& graph, const Program& program, const ProgramInstances& instances,
         const Sources& sources, int64_t device)
        : program(program), executor(graph, program, instances, sources, device) {}
    const Program& program;
    RankExecutor<T> executor;
    ExecutionResult result;
  };

  void RunRank(int rank) {
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    SetLibraryThreads(cores / static_cast<int>(ranks_.size()));
    absl::Status status;
    try {
      status = Steps(rank);
    } catch (const std::bad_alloc&) {
      status = absl::ResourceExhaustedError("out of memory");
    } catch (const std::exception& e) {
      status = absl::InternalError(e.what());
    }
    status.ok() ? world_->Leave(rank) : world_->Fail(rank, status);
  }

  absl::Status Steps(int rank) {
    Rank& me = *ranks_[Index(rank)];
    ExecutionResult& result = me.result;
    const auto before = [&](int64_t step, int i) -> absl::Status {
      const Instruction& code = me.program.instructions[Index(i)];
      // Preparation happens instruction by instruction, too, but nobody waits in it.
      if (step > 0 || options_.before_instruction) {
        world_->At(rank, absl::StrCat("instruction ", i, " '", code.name, "'",
                                      step > 0 ? absl::StrCat(" of step ", step) : ""));
      }
      if (!options_.before_instruction) return absl::OkStatus();
      return options_.before_instruction(rank, step, i);
    };
    const auto join = [&](const std::vector<int>& members) { return world_->Join(rank, members); };
    std::vector<int> everybody;
    for (size_t r = 0; r < ranks_.size(); ++r) everybody.push_back(static_cast<int>(r));
    auto all = world_->Join(rank, everybody);
    if (!all.ok()) return all.status();
    if (absl::Status s = me.executor.Prepare(join, before); !s.ok()) return s;
    world_->At(rank, "the end of preparation");
    if (absl::Status s = (*all)->Barrier(); !s.ok()) return s;
    result.prepare_seconds = Now() - start_;
    for (int64_t step = 1; step <= options_.steps; ++step) {
      const double begin = Now();
      Record* const record = options_.record && step == options_.steps ? &result.record : nullptr;
      if (absl::Status s = me.executor.Step(step, before, begin, record); !s.ok()) return s;
      const double computed = Now();  // what is kept to be looked at is no part of a step
      if (options_.keep_results && step == 1) Keep(rank, me.program.outputs, result.first_outputs);
      if (options_.keep_results && step == options_.steps) {
        Keep(rank, me.program.outputs, result.outputs);
      }
      const double kept = Now() - computed;
      me.executor.StoreStates();
      world_->At(rank, absl::StrCat("the end of step ", step));
      if (absl::Status s = (*all)->Barrier(); !s.ok()) return s;
      result.step_seconds.push_back(Now() - begin - kept);
      if (me.program.loss.valid()) {
        result.losses.push_back(static_cast<double>(*me.executor.data(me.program.loss)));
      }
    }
    if (options_.keep_results) Keep(rank, me.program.states, result.states);
    result.peak_bytes = {me.executor.peak_bytes()};
    return absl::OkStatus();
  }

  void Keep(int rank, const std::vector<BufferId>& buffers, std::vector<ResultPiece>& pieces) {
    const Rank& me = *ranks_[Index(rank)];
    for (BufferId buffer : buffers) {
      ResultPiece piece;
      piece.tensor = me.program.buffer(buffer).tensor;
      piece.rank = rank;
      piece.indices = me.executor.Indices(buffer);
      const T* data = me.executor.data(buffer);
      piece.values.assign(data, data + piece.indices.size());
      pieces.push_back(std::move(piece));
    }
  }

  absl::StatusOr<ExecutionResult> Collect() {
    ExecutionResult all;
    all.losses = ranks_[0]->result.losses;
    all.step_seconds.assign(Index(options_.steps), 0);
    for (size_t r = 0; r < ranks_.size(); ++r) {
      ExecutionResult& mine = ranks_[r]->result;
      for (size_t s = 0; s < mine.losses.size(); ++s) {
        if (mine.losses[s] == all.losses[s]) continue;
        if (std::isnan(mine.losses[s]) && std::isnan(all.losses[s])) continue;
        return absl::FailedPreconditionError(
            absl::StrCat("rank ", r, " has loss ", mine.losses[s], " in step ", s + 1, ", rank 0 ",
                         all.losses[s],
                         ": the Program's copies of the loss differ; see tandem "
                         "verify"));
      }
      for (size_t s = 0; s < mine.step_seconds.size(); ++s) {
        all.step_seconds[s] = std::max(all.step_seconds[s], mine.step_seconds[s]);
      }
      all.prepare_seconds = std::max(all.prepare_seconds, mine.prepare_seconds);
      all.peak_bytes.push_back(mine.peak_bytes[0]);
      const auto append = [](auto& to, auto& from) {
        std::move(from.begin(), from.end(), std::back_inserter(to));
      };
      append(all.first_outputs, mine.first_outputs);
      append(all.outputs, mine.outputs);
      append(all.states, mine.states);
      append(all.record.spans, mine.record.spans);
    }
    std::stable_sort(
        all.record.spans.begin(), all.record.spans.end(), [](const Span& a, const Span& b) {
          return std::tie(a.start_seconds, a.stream) < std::tie(b.start_seconds, b.stream);
        });
    if (!all.step_seconds.empty()) all.record.step_seconds = all.step_seconds.back();
    return all;
  }

  const Graph& graph_;
  const std::vector<Program>& programs_;
  const Sources& sources_;
  const ExecutionOptions& options_;
  std::vector<ProgramInstances> instances_;
  ThreadWorld* world_ = nullptr;
  std::vector<std::unique_ptr<Rank>> ranks_;
  double start_ = 0;
};

}  // namespace

absl::StatusOr<ExecutionResult> Execute(const Graph& graph, const std::vector<Program>& programs,
                                        const Sources& sources, const ExecutionOptions& options) {
  if (options.steps < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("steps is ", options.steps, "; give at least 1"));
  }
  if (options.dtype == DType::kF64) {
    return Run<double>(graph, programs, sources, options).Execute();
  }
  return Run<float>(graph, programs, sources, options).Execute();
}

}  // namespace tandem
