#include "runtime/step_mover.h"

#include <catch2/catch.hpp>
#include <random>
#include <thread>

#include "runtime/test_plans.h"
#include "runtime/thread_communicator.h"

namespace tandem {
namespace {

// One instruction between two buffers, run by all devices at once; what StepCopies says is the
// oracle, element by element.
template <typename T>
void CheckStep(const FactoredShape& shape, const Mesh& mesh, const ReshardStep& step,
               Combiner combiner, std::mt19937& random) {
  Program program;
  program.mesh = mesh;
  program.buffers.resize(2);
  for (size_t b = 0; b < 2; ++b) {
    program.buffers[b].layout = b == 0 ? step.before : step.after;
    program.buffers[b].local_shape = LocalShape(shape, program.buffers[b].layout, mesh);
  }
  Instruction code;
  code.step = step.kind;
  code.axes = step.axes;
  code.combiner = combiner;
  code.inputs = {BufferId(0)};
  code.outputs = {BufferId(1)};
  const bool temporal = step.kind == StepKind::kAccumulate || step.kind == StepKind::kStack ||
                        step.kind == StepKind::kUnstack;
  const bool made = step.kind == StepKind::kKeepFirst;
  const bool alone = temporal || made || step.kind == StepKind::kSlice;
  const auto devices = static_cast<size_t>(mesh.Devices());
  const int64_t micro_batches = temporal ? mesh.MicroBatches() : 1;
  const auto size = [&](size_t b) {
    return static_cast<size_t>(ElementCount(program.buffers[b].local_shape));
  };
  // By device and micro-batch: what it holds before; by device: what it has in the end.
  std::vector<std::vector<std::vector<T>>> before(devices);
  std::vector<std::vector<T>> after(devices), expected(devices);
  for (size_t d = 0; d < devices; ++d) {
    for (int64_t m = 0; m < micro_batches; ++m) {
      before[d].emplace_back(size(0));
      for (T& v : before[d].back()) v = static_cast<T>(static_cast<double>(random() % 2001) - 1000);
    }
    after[d].assign(size(1), T(-9));
    expected[d].assign(size(1), made ? static_cast<T>(Neutral(combiner)) : T(-9));
  }
  for (size_t d = 0; d < devices; ++d) {
    for (int64_t m = 0; m < micro_batches; ++m) {
      std::vector<int64_t> coords = mesh.Coordinates(static_cast<int64_t>(d));
      if (temporal) coords[static_cast<size_t>(mesh.TemporalAxis())] = m;
      const std::vector<int64_t> group = temporal ? std::vector<int64_t>{static_cast<int64_t>(d)}
                                                  : mesh.Group(static_cast<int64_t>(d), step.axes);
      std::vector<bool> written(size(1), step.kind == StepKind::kAccumulate && m > 0);
      for (const BlockCopy& block : StepCopies(shape, mesh, step, coords)) {
        const auto& from = before[static_cast<size_t>(group[static_cast<size_t>(block.rank)])]
                                 [static_cast<size_t>(m)];
        ForEachElement(block, [&](int64_t s, int64_t t) {
          const auto at = static_cast<size_t>(t);
          const double value = static_cast<double>(from[static_cast<size_t>(s)]);
          expected[d][at] =
              static_cast<T>(written[at] && Combines(step.kind)
                                 ? Combine(combiner, static_cast<double>(expected[d][at]), value)
                                 : value);
          written[at] = true;
        });
      }
    }
  }
  ThreadWorld world(static_cast<int>(devices), 20);
  std::vector<absl::Status> statuses(devices);
  std::vector<std::thread> threads;
  for (size_t d = 0; d < devices; ++d) {
    threads.emplace_back([&, d] {
      const auto run = [&]() -> absl::Status {
        std::unique_ptr<Communicator> communicator;
        if (!alone) {
          std::vector<int> members;
          for (int64_t r : mesh.Group(static_cast<int64_t>(d), step.axes)) {
            members.push_back(static_cast<int>(r));
          }
          auto joined = world.Join(static_cast<int>(d), members);
          if (!joined.ok()) return joined.status();
          communicator = *std::move(joined);
        }
        auto mover = StepMover<T>::Prepare(shape, program, code, static_cast<int64_t>(d),
                                           std::move(communicator));
        if (!mover.ok()) return mover.status();
        std::vector<T> scratch;
        for (int64_t m = 0; m < micro_batches; ++m) {
          const absl::Status s =
              mover->Run(m, before[d][static_cast<size_t>(m)].data(), after[d].data(), scratch);
          if (!s.ok()) return s;
        }
        return absl::OkStatus();
      };
      statuses[d] = run();
      statuses[d].ok() ? world.Leave(static_cast<int>(d))
                       : world.Fail(static_cast<int>(d), statuses[d]);
    });
  }
  for (std::thread& t : threads) t.join();
  for (size_t d = 0; d < devices; ++d) {
    CAPTURE(d, StepKindName(step.kind), ToString(step.before), ToString(step.after), statuses[d]);
    REQUIRE(statuses[d].ok());
    REQUIRE(after[d] == expected[d]);
  }
}

TEST_CASE("Every step from random layouts moves what StepCopies says, pieces interleaved or not") {
  std::mt19937 random(11);
  const std::vector<FactoredShape> shapes = {{{12}, {8}}, {{2, 6}, {3, 4}}, {{4}, {2, 4}, {6}}};
  const std::vector<Mesh> meshes = {MeshOf({2}), MeshOf({2, 2}), MeshOf({3, 2}), MeshOf({2}, 2)};
  std::map<StepKind, int> seen;
  for (int round = 0; round < 60; ++round) {
    const FactoredShape& shape = shapes[random() % shapes.size()];
    const Mesh& mesh = meshes[random() % meshes.size()];
    const Combiner combiner = static_cast<Combiner>(random() % 3);
    Layout from = Layout::Replicated(mesh);
    for (size_t a = 0; a < mesh.axes.size(); ++a) {
      const auto d = static_cast<int>(random() % shape.size());
      const auto f = static_cast<int>(random() % shape[static_cast<size_t>(d)].size());
      Layout trial = from;
      trial.axes[a] = random() % 3 == 0   ? AxisPlacement::Partial(combiner)
                      : random() % 2 == 0 ? AxisPlacement::Split(d, f)
                                          : AxisPlacement::Replicated();
      if (CheckLayout(shape, trial, mesh).ok()) from = trial;
    }
    const std::vector<ReshardStep> steps = StepsFrom(shape, mesh, from);
    for (size_t i = 0; i < steps.size(); i += 1 + random() % 3) {
      ++seen[steps[i].kind];
      CheckStep<double>(shape, mesh, steps[i], combiner, random);
      if (i == 0) CheckStep<float>(shape, mesh, steps[i], combiner, random);
    }
  }
  CHECK(seen.size() == 8);  // every kind of step but the last, which StepsFrom does not take
}

TEST_CASE("Of a value made partial the first device of each group keeps all, the others nothing") {
  std::mt19937 random(3);
  const Mesh mesh = MeshOf({3, 2});
  for (Combiner combiner : {Combiner::kSum, Combiner::kMax, Combiner::kMin}) {
    for (const std::vector<int>& axes : {std::vector<int>{0}, {1}, {0, 1}}) {
      Layout from = Layout::Replicated(mesh);
      if (axes == std::vector<int>{0}) from.axes[1] = AxisPlacement::Split(0, 0);
      Layout to = from;
      for (int a : axes) to.axes[static_cast<size_t>(a)] = AxisPlacement::Partial(combiner);
      const std::optional<ReshardStep> step = MakesPartial(from, to, mesh);
      REQUIRE(step);
      CHECK(*step == ReshardStep{StepKind::kKeepFirst, axes, from, to});
      CheckStep<double>({{12}, {5}}, mesh, *step, combiner, random);
      CheckStep<float>({{12}, {5}}, mesh, *step, combiner, random);
    }
  }
}

TEST_CASE("A step that its buffers do not fit is refused when it is prepared") {
  const Mesh mesh = MeshOf({2});
  Program program;
  program.mesh = mesh;
  program.buffers.resize(2);
  program.buffers[0].layout.axes = {AxisPlacement::Partial(Combiner::kSum)};
  program.buffers[1].layout.axes = {AxisPlacement::Replicated()};
  program.buffers[0].local_shape = {{4}};
  program.buffers[1].local_shape = {{2}};
  Instruction code;
  code.axes = {0};
  code.inputs = {BufferId(0)};
  code.outputs = {BufferId(1)};
  ThreadWorld world(3, 1);
  const auto prepare = [&](StepKind kind, const std::vector<int>& members) {
    code.step = kind;
    return StepMover<double>::Prepare({{4}}, program, code, 0, *world.Join(0, members)).ok();
  };
  CHECK_FALSE(prepare(StepKind::kAllReduce, {0, 1}));   // sizes differ
  CHECK_FALSE(prepare(StepKind::kAllToAll, {0, 1}));    // nothing to exchange
  CHECK_FALSE(prepare(StepKind::kAccumulate, {0, 1}));  // not a collective
  CHECK_FALSE(prepare(StepKind::kAllReduce, {0, 1, 2}));
}

}  // namespace
}  // namespace tandem
