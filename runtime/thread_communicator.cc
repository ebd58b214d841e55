#include "runtime/thread_communicator.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem {
namespace {

// into[i] = combine(...combine(parts[0][i], parts[1][i])..., parts.back()[i]), in that order.
template <typename T>
void CombineParts(const std::vector<const T*>& parts, int64_t count, Combiner combiner, T* into) {
  std::copy(parts[0], parts[0] + count, into);
  for (size_t p = 1; p < parts.size(); ++p) {
    const T* part = parts[p];
    switch (combiner) {
      case Combiner::kSum:
        for (int64_t i = 0; i < count; ++i) into[i] += part[i];
        break;
      case Combiner::kMax:
        for (int64_t i = 0; i < count; ++i) into[i] = std::max(into[i], part[i]);
        break;
      case Combiner::kMin:
        for (int64_t i = 0; i < count; ++i) into[i] = std::min(into[i], part[i]);
        break;
    }
  }
}

// Elements [offset, offset + count) of every member's buffer, combined.
void CombineRange(const std::vector<const void*>& buffers, int64_t offset, int64_t count,
                  DType type, Combiner combiner, void* into) {
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    std::vector<const T*> parts;
    parts.reserve(buffers.size());
    for (const void* buffer : buffers) parts.push_back(static_cast<const T*>(buffer) + offset);
    CombineParts<T>(parts, count, combiner, static_cast<T*>(into));
  };
  type == DType::kF64 ? run(double{}) : run(float{});
}

const char* At(const void* base, int64_t bytes) { return static_cast<const char*>(base) + bytes; }
char* At(void* base, int64_t bytes) { return static_cast<char*>(base) + bytes; }

void Copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(ThreadWorld* world, ThreadWorld::Group* group, int position)
      : world_(world), group_(group), position_(position) {}

  int rank() const override { return position_; }
  int size() const override { return static_cast<int>(group_->members.size()); }

  absl::Status Barrier() override {
    return Run({"barrier"}, [] {});
  }

  absl::Status AllReduce(void* data, int64_t count, DType type, Combiner combiner) override {
    if (size() == 1) return absl::OkStatus();
    // Each member combines its share of the elements, then all copy the whole.
    ThreadWorld::Call call{"all-reduce", data, data, count, type, combiner, -1};
    if (absl::Status s = world_->Meet(*group_, position_, &call); !s.ok()) return s;
    const int64_t begin = count * position_ / size();
    const int64_t end = count * (position_ + 1) / size();
    const int64_t bytes = DTypeBytes(type);
    CombineRange(Sent(), begin, end - begin, type, combiner,
                 At(group_->scratch.data(), begin * bytes));
    if (absl::Status s = world_->Meet(*group_, position_, nullptr); !s.ok()) return s;
    Copy(data, group_->scratch.data(), count * bytes);
    return world_->Meet(*group_, position_, nullptr);
  }

  absl::Status AllGather(const void* send, int64_t count, void* receive, DType type) override {
    const int64_t bytes = count * DTypeBytes(type);
    return Run({"all-gather", send, receive, count, type, Combiner::kSum, -1}, [&] {
      const std::vector<const void*> sent = Sent();
      for (int r = 0; r < size(); ++r) Copy(At(receive, r * bytes), sent[Index(r)], bytes);
    });
  }

  absl::Status ReduceScatter(const void* send, int64_t count, void* receive, DType type,
                             Combiner combiner) override {
    return Run({"reduce-scatter", send, receive, count, type, combiner, -1},
               [&] { CombineRange(Sent(), position_ * count, count, type, combiner, receive); });
  }

  absl::Status AllToAll(const void* send, int64_t count, void* receive, DType type) override {
    const int64_t bytes = count * DTypeBytes(type);
    return Run({"all-to-all", send, receive, count, type, Combiner::kSum, -1}, [&] {
      const std::vector<const void*> sent = Sent();
      for (int r = 0; r < size(); ++r) {
        Copy(At(receive, r * bytes), At(sent[Index(r)], position_ * bytes), bytes);
      }
    });
  }

  absl::Status Broadcast(void* data, int64_t count, DType type, int root) override {
    if (root < 0 || root >= size()) return NoSuchRank("broadcast", root);
    return Run({"broadcast", data, data, count, type, Combiner::kSum, root}, [&] {
      if (position_ != root) Copy(data, Sent()[Index(root)], count * DTypeBytes(type));
    });
  }

  absl::Status Send(const void* data, int64_t count, DType type, int to) override {
    if (to < 0 || to >= size()) return NoSuchRank("send", to);
    std::vector<char> message(static_cast<size_t>(count * DTypeBytes(type)));
    Copy(message.data(), data, static_cast<int64_t>(message.size()));
    const std::lock_guard<std::mutex> lock(world_->mutex_);
    if (!world_->failure_.ok()) return world_->failure_;
    group_->mail[{position_, to}].push_back(std::move(message));
    world_->changed_.notify_all();
    return absl::OkStatus();
  }

  absl::Status Receive(void* data, int64_t count, DType type, int from) override {
    if (from < 0 || from >= size()) return NoSuchRank("receive", from);
    std::unique_lock<std::mutex> lock(world_->mutex_);
    auto& mail = group_->mail[{from, position_}];
    const absl::Status status = world_->Await(
        lock, *group_, position_, "receive", [&] { return !mail.empty(); },
        [&] { return std::vector<int>{from}; });
    if (!status.ok()) return status;
    const std::vector<char> message = std::move(mail.front());
    mail.pop_front();
    lock.unlock();
    if (static_cast<int64_t>(message.size()) != count * DTypeBytes(type)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "receive: expected ", count * DTypeBytes(type), " bytes from ",
          world_->Describe(group_->members[Index(from)]), ", which sent ", message.size()));
    }
    Copy(data, message.data(), static_cast<int64_t>(message.size()));
    return absl::OkStatus();
  }

 private:
  static size_t Index(int rank) { return static_cast<size_t>(rank); }

  template <typename Work>
  absl::Status Run(const ThreadWorld::Call& call, Work work) {
    if (absl::Status s = world_->Meet(*group_, position_, &call); !s.ok()) return s;
    work();
    // Nobody leaves before all have read.
    return world_->Meet(*group_, position_, nullptr);
  }

  std::vector<const void*> Sent() const {
    std::vector<const void*> sent;
    for (const ThreadWorld::Call& call : group_->calls) sent.push_back(call.send);
    return sent;
  }

  absl::Status NoSuchRank(const char* what, int rank) const {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": rank ", rank, " is not in a group of ", size()));
  }

  ThreadWorld* world_;
  ThreadWorld::Group* group_;
  int position_;
};

ThreadWorld::ThreadWorld(int ranks, double timeout_seconds)
    : timeout_seconds_(timeout_seconds), states_(static_cast<size_t>(ranks)) {}

ThreadWorld::~ThreadWorld() = default;

absl::StatusOr<std::unique_ptr<Communicator>> ThreadWorld::Join(int rank,
                                                                const std::vector<int>& members) {
  const bool ascending =
      std::adjacent_find(members.begin(), members.end(), std::greater_equal<>()) == members.end();
  const auto me = std::find(members.begin(), members.end(), rank);
  if (!ascending || me == members.end() || members.front() < 0 || members.back() >= ranks()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " cannot join the group {", absl::StrJoin(members, ","),
                     "}: members must be ascending ranks below ", ranks(), ", itself among them"));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<Group>& group = groups_[members];
  if (group == nullptr) {
    group = std::make_unique<Group>();
    group->members = members;
    group->calls.resize(members.size());
    group->present.resize(members.size(), false);
  }
  return std::make_unique<ThreadCommunicator>(this, group.get(),
                                              static_cast<int>(me - members.begin()));
}

void ThreadWorld::At(int rank, std::string instruction) {
  const std::lock_guard<std::mutex> lock(mutex_);
  states_[static_cast<size_t>(rank)].instruction = std::move(instruction);
}

void ThreadWorld::Fail(int rank, const absl::Status& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  states_[static_cast<size_t>(rank)].left = true;
  if (failure_.ok()) {
    failure_ = absl::Status(why.code(), absl::StrCat(Describe(rank), ": ", why.message()));
  }
  changed_.notify_all();
}

void ThreadWorld::Leave(int rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  states_[static_cast<size_t>(rank)].left = true;
  changed_.notify_all();
}

absl::Status ThreadWorld::failure() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

std::string ThreadWorld::Describe(int rank) const {
  const std::string& instruction = states_[static_cast<size_t>(rank)].instruction;
  return instruction.empty() ? absl::StrCat("rank ", rank)
                             : absl::StrCat("rank ", rank, " at ", instruction);
}

template <typename Ready, typename WaitingFor>
absl::Status ThreadWorld::Await(std::unique_lock<std::mutex>& lock, Group& group, int position,
                                const char* what, Ready ready, WaitingFor waiting_for) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_seconds_);
  const int me = group.members[static_cast<size_t>(position)];
  while (true) {
    if (!failure_.ok()) return failure_;
    if (ready()) return absl::OkStatus();
    std::vector<std::string> missing;
    bool hopeless = false;
    for (int p : waiting_for()) {
      const int rank = group.members[static_cast<size_t>(p)];
      hopeless |= states_[static_cast<size_t>(rank)].left;
      missing.push_back(Describe(rank));
    }
    const bool late = std::chrono::steady_clock::now() >= deadline;
    if (late || hopeless) {
      const std::string message =
          absl::StrCat(Describe(me), ": ", what, " waits for ", absl::StrJoin(missing, ", "),
                       hopeless ? ", which has ended"
                                : absl::StrCat("; gave up after ", timeout_seconds_, " s"));
      failure_ = hopeless ? absl::AbortedError(message) : absl::DeadlineExceededError(message);
      changed_.notify_all();
      return failure_;
    }
    // The system clock's wait is the one that thread sanitizers know; the deadline is steady.
    changed_.wait_until(lock, std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  }
}

absl::Status ThreadWorld::Disagreement(const Group& group, int position) const {
  const auto text = [&](size_t p) {
    const Call& c = group.calls[p];
    return absl::StrCat(Describe(group.members[p]), " calls ", c.name, " of ", c.count, " ",
                        DTypeName(c.type), c.root >= 0 ? absl::StrCat(" from ", c.root) : "", " (",
                        CombinerName(c.combiner), ")");
  };
  const Call& mine = group.calls[static_cast<size_t>(position)];
  for (size_t p = 0; p < group.calls.size(); ++p) {
    const Call& other = group.calls[p];
    if (std::strcmp(other.name, mine.name) == 0 && other.count == mine.count &&
        other.type == mine.type && other.combiner == mine.combiner && other.root == mine.root) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "ranks of one group disagree: ", text(static_cast<size_t>(position)), ", ", text(p)));
  }
  return absl::OkStatus();
}

absl::Status ThreadWorld::Meet(Group& group, int position, const Call* call) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  const auto me = static_cast<size_t>(position);
  if (call != nullptr) group.calls[me] = *call;
  group.present[me] = true;
  const int64_t generation = group.generation;
  if (++group.arrived == static_cast<int>(group.members.size())) {
    if (call != nullptr) {
      if (absl::Status s = Disagreement(group, position); !s.ok()) {
        failure_ = s;
        changed_.notify_all();
        return s;
      }
      const size_t bytes = static_cast<size_t>(call->count * DTypeBytes(call->type));
      if (std::strcmp(call->name, "all-reduce") == 0 && group.scratch.size() < bytes) {
        group.scratch.resize(bytes);
      }
    }
    group.arrived = 0;
    group.present.assign(group.present.size(), false);
    ++group.generation;
    changed_.notify_all();
    return absl::OkStatus();
  }
  return Await(
      lock, group, position, group.calls[me].name, [&] { return group.generation != generation; },
      [&] {
        std::vector<int> missing;
        for (size_t p = 0; p < group.present.size(); ++p) {
          if (!group.present[p]) missing.push_back(static_cast<int>(p));
        }
        return missing;
      });
}

}  // namespace tandem
