#include "runtime/thread_communicator.h"

#include <catch2/catch.hpp>
#include <functional>
#include <random>
#include <thread>

namespace tandem {
namespace {

using Work = std::function<absl::Status(Communicator&)>;

// Runs `work` on every rank; the statuses by rank.
std::vector<absl::Status> OnRanks(int ranks, const Work& work, double timeout_seconds = 20) {
  ThreadWorld world(ranks, timeout_seconds);
  std::vector<int> members;
  for (int r = 0; r < ranks; ++r) members.push_back(r);
  std::vector<absl::Status> statuses(members.size());
  std::vector<std::thread> threads;
  for (int r : members) {
    threads.emplace_back([&, r] {
      auto communicator = world.Join(r, members);
      absl::Status& status = statuses[static_cast<size_t>(r)];
      status = communicator.ok() ? work(**communicator) : communicator.status();
      status.ok() ? world.Leave(r) : world.Fail(r, status);
    });
  }
  for (std::thread& t : threads) t.join();
  return statuses;
}

void CheckAllOk(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& s : statuses) CHECK(s.ok());
}

std::vector<double> Values(int seed, int64_t count) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::uniform_real_distribution<double> value(-1e3, 1e3);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& v : values) v = value(random);
  return values;
}

double CombineAll(int ranks, Combiner combiner, const std::function<double(int)>& part) {
  double value = part(0);
  for (int r = 1; r < ranks; ++r) {
    const double next = part(r);
    value = combiner == Combiner::kSum   ? value + next
            : combiner == Combiner::kMax ? std::max(value, next)
                                         : std::min(value, next);
  }
  return value;
}

TEST_CASE("Collectives equal what they mean, to the last bit, for any group and count") {
  const int ranks = GENERATE(1, 2, 3, 5);
  const int64_t count = GENERATE(0, 1, 7, 1000);
  const Combiner combiner = GENERATE(Combiner::kSum, Combiner::kMax, Combiner::kMin);
  CAPTURE(ranks, count, CombinerName(combiner));
  const auto index = [](int64_t i) { return static_cast<size_t>(i); };
  std::vector<std::vector<double>> whole, gathered, scattered, exchanged, sent;
  for (int r = 0; r < ranks; ++r) sent.push_back(Values(r, count * ranks));
  whole = sent;
  gathered.assign(index(ranks), std::vector<double>(index(count * ranks * ranks)));
  exchanged.assign(index(ranks), std::vector<double>(index(count * ranks)));
  scattered.assign(index(ranks), std::vector<double>(index(count)));
  CheckAllOk(OnRanks(ranks, [&](Communicator& c) {
    const size_t me = index(c.rank());
    absl::Status s = c.AllReduce(whole[me].data(), count * ranks, DType::kF64, combiner);
    if (s.ok()) s = c.AllGather(sent[me].data(), count * ranks, gathered[me].data(), DType::kF64);
    if (s.ok()) s = c.AllToAll(sent[me].data(), count, exchanged[me].data(), DType::kF64);
    if (s.ok()) s = c.Barrier();
    if (!s.ok()) return s;
    return c.ReduceScatter(sent[me].data(), count, scattered[me].data(), DType::kF64, combiner);
  }));
  bool equal = true;
  for (int r = 0; r < ranks; ++r) {
    for (int64_t i = 0; i < count * ranks; ++i) {
      const double all =
          CombineAll(ranks, combiner, [&](int p) { return sent[index(p)][index(i)]; });
      equal &= whole[index(r)][index(i)] == all;
      if (i / std::max<int64_t>(count, 1) == r) {
        equal &= scattered[index(r)][index(i - r * count)] == all;
      }
      for (int p = 0; p < ranks; ++p) {
        equal &= gathered[index(r)][index(p * count * ranks + i)] == sent[index(p)][index(i)];
      }
      const int64_t from = i / count;
      equal &= exchanged[index(r)][index(i)] == sent[index(from)][index(r * count + i % count)];
    }
  }
  CHECK(equal);
}

TEST_CASE("Float32 buffers, broadcast, and messages in order") {
  std::vector<std::vector<float>> got(3, std::vector<float>(4));
  CheckAllOk(OnRanks(3, [&](Communicator& c) -> absl::Status {
    std::vector<float>& mine = got[static_cast<size_t>(c.rank())];
    mine.assign(4, static_cast<float>(c.rank()));
    if (absl::Status s = c.Broadcast(mine.data(), 4, DType::kF32, 2); !s.ok()) return s;
    if (absl::Status s = c.AllReduce(mine.data(), 2, DType::kF32, Combiner::kSum); !s.ok())
      return s;
    if (c.rank() == 0) {
      for (float v : {10.0f, 20.0f}) {
        if (absl::Status s = c.Send(&v, 1, DType::kF32, 1); !s.ok()) return s;
      }
      return absl::OkStatus();
    }
    if (c.rank() == 2) return absl::OkStatus();
    if (absl::Status s = c.Receive(&mine[2], 1, DType::kF32, 0); !s.ok()) return s;
    return c.Receive(&mine[3], 1, DType::kF32, 0);
  }));
  CHECK(got[0] == std::vector<float>{6, 6, 2, 2});
  CHECK(got[1] == std::vector<float>{6, 6, 10, 20});
}

TEST_CASE("Groups of one world do not disturb each other") {
  ThreadWorld world(4, 20);
  std::vector<double> sums(4);
  std::vector<std::thread> threads;
  for (int r = 0; r < 4; ++r) {
    threads.emplace_back([&, r] {
      const std::vector<int> row = r < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
      const std::vector<int> column = {r % 2, r % 2 + 2};
      auto a = world.Join(r, row);
      auto b = world.Join(r, column);
      double value = std::pow(10, r);
      for (auto* c : {&a, &b}) {
        if (!c->ok() || !(**c)->AllReduce(&value, 1, DType::kF64, Combiner::kSum).ok()) value = -1;
      }
      sums[static_cast<size_t>(r)] = value;
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(sums == std::vector<double>(4, 1111));
}

TEST_CASE("A rank that fails ends the others, with its name and its instruction") {
  ThreadWorld world(3, 60);
  std::vector<absl::Status> statuses(3);
  std::vector<std::thread> threads;
  for (int r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      auto c = world.Join(r, {0, 1, 2});
      world.At(r, r == 1 ? "instruction 7 'matmul'" : "instruction 9 'all-reduce g'");
      if (r == 1) {
        world.Fail(r, absl::ResourceExhaustedError("disk full"));
        return;
      }
      statuses[static_cast<size_t>(r)] = (*c)->Barrier();
    });
  }
  for (std::thread& t : threads) t.join();
  for (int r : {0, 2}) {
    CHECK(statuses[static_cast<size_t>(r)].message() ==
          "rank 1 at instruction 7 'matmul': disk full");
  }
  CHECK(world.failure().code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE("Waiting for a rank that has ended, or that never comes, is an error") {
  SECTION("ended") {
    const auto statuses =
        OnRanks(2, [](Communicator& c) { return c.rank() == 0 ? absl::OkStatus() : c.Barrier(); });
    CHECK(statuses[1].code() == absl::StatusCode::kAborted);
    CHECK(std::string(statuses[1].message()).find("rank 0, which has ended") != std::string::npos);
  }
  SECTION("late") {
    ThreadWorld world(2, 0.1);
    world.At(0, "instruction 3 'kernel'");
    auto c = world.Join(1, {0, 1});
    REQUIRE(c.ok());
    double value = 0;
    const absl::Status status = (*c)->Receive(&value, 1, DType::kF64, 0);
    CHECK(status.code() == absl::StatusCode::kDeadlineExceeded);
    CHECK(std::string(status.message()).find("waits for rank 0 at instruction 3 'kernel'") !=
          std::string::npos);
    // The group is unusable from then on.
    CHECK_FALSE((*c)->Send(&value, 1, DType::kF64, 0).ok());
  }
}

TEST_CASE("Ranks that disagree on a call are told, and nothing is exchanged") {
  double a = 1, b[2] = {2, 3};
  const auto wrong = GENERATE(0, 1, 2);
  const auto statuses = OnRanks(2, [&](Communicator& c) {
    if (c.rank() == 0) return c.AllReduce(&a, 1, DType::kF64, Combiner::kSum);
    if (wrong == 0) return c.AllReduce(b, 2, DType::kF64, Combiner::kSum);
    if (wrong == 1) return c.AllReduce(b, 1, DType::kF64, Combiner::kMax);
    return c.Broadcast(b, 1, DType::kF64, 0);
  });
  for (const absl::Status& s : statuses) {
    CHECK(std::string(s.message()).find("disagree") != std::string::npos);
  }
  CHECK(a == 1);
  CHECK(b[0] == 2);
}

TEST_CASE("Only members join, and only members are addressed") {
  ThreadWorld world(3, 1);
  CHECK_FALSE(world.Join(0, {1, 2}).ok());
  CHECK_FALSE(world.Join(0, {0, 0}).ok());
  CHECK_FALSE(world.Join(0, {1, 0}).ok());
  CHECK_FALSE(world.Join(0, {0, 3}).ok());
  CHECK_FALSE(world.Join(0, {}).ok());
  auto c = world.Join(0, {0});
  REQUIRE(c.ok());
  double value = 1;
  CHECK_FALSE((*c)->Send(&value, 1, DType::kF64, 1).ok());
  CHECK_FALSE((*c)->Broadcast(&value, 1, DType::kF64, -1).ok());
}

}  // namespace
}  // namespace tandem
