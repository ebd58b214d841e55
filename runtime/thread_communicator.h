// Communicators between threads of this process: each rank is a thread, buffers are read in place.
//
// A ThreadWorld lives as long as all its ranks. Each rank thread says what it is about to do with
// At(), calls Fail() when it cannot go on and Leave() when it is done; every rank that waits for it
// then ends with an error that says so.
#ifndef TANDEM_RUNTIME_THREAD_COMMUNICATOR_H_
#define TANDEM_RUNTIME_THREAD_COMMUNICATOR_H_

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/communicator.h"

namespace tandem {

class ThreadWorld {
 public:
  // `timeout_seconds`: longest wait for the others in one call.
  ThreadWorld(int ranks, double timeout_seconds);
  ~ThreadWorld();
  ThreadWorld(const ThreadWorld&) = delete;
  ThreadWorld& operator=(const ThreadWorld&) = delete;

  int ranks() const { return static_cast<int>(states_.size()); }

  // The communicator of world rank `rank` in the group `members` (ascending world ranks, `rank`
  // among them). Members that ask for the same list talk to each other.
  absl::StatusOr<std::unique_ptr<Communicator>> Join(int rank, const std::vector<int>& members);

  // "instruction 12 'all-reduce w.grad'", for the messages of everybody.
  void At(int rank, std::string instruction);
  // The first failure is kept; every waiting or later call of any rank returns an error naming it.
  void Fail(int rank, const absl::Status& why);
  // The rank makes no more calls. Whoever waits for it fails.
  void Leave(int rank);
  // The first failure, with rank and instruction, or OK.
  absl::Status failure() const;

 private:
  friend class ThreadCommunicator;

  struct RankState {
    std::string instruction;
    bool left = false;
  };
  // What a member brings to a rendezvous. All members must agree on everything but the pointers.
  struct Call {
    const char* name = "";
    const void* send = nullptr;
    void* receive = nullptr;
    int64_t count = 0;
    DType type = DType::kF32;
    Combiner combiner = Combiner::kSum;
    int root = -1;
  };
  struct Group {
    std::vector<int> members;
    std::vector<Call> calls;    // by position, of the rendezvous under way
    std::vector<bool> present;  // who has arrived
    int arrived = 0;
    int64_t generation = 0;
    std::vector<char> scratch;  // an all-reduce's result before it is copied back
    std::map<std::pair<int, int>, std::deque<std::vector<char>>> mail;  // (from, to), positions
  };

  // Waits until all members have arrived. With `call`, publishes it and checks that all agree.
  absl::Status Meet(Group& group, int position, const Call* call);
  // Waits until ready() or until it cannot come true. `waiting_for`: positions not yet there.
  template <typename Ready, typename WaitingFor>
  absl::Status Await(std::unique_lock<std::mutex>& lock, Group& group, int position,
                     const char* what, Ready ready, WaitingFor waiting_for);
  absl::Status Disagreement(const Group& group, int position) const;
  std::string Describe(int rank) const;

  const double timeout_seconds_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<RankState> states_;
  absl::Status failure_;
  std::map<std::vector<int>, std::unique_ptr<Group>> groups_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_THREAD_COMMUNICATOR_H_
