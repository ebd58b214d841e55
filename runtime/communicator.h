// Collective communication between the ranks of one group. Buffers are flat and contiguous; which
// element of a tensor lies where is the caller's business (step_executor.h packs and unpacks).
//
// Every member of the group makes the same calls in the same order. A call returns once this rank's
// part is done and its buffers may be reused. Sums are taken in rank order for every element, so
// that two runs give the same bytes whatever the timing. A call that does not finish within the
// timeout, or during which another rank fails or ends, returns an error that names the rank and
// what it was doing; the group is then unusable.
#ifndef TANDEM_RUNTIME_COMMUNICATOR_H_
#define TANDEM_RUNTIME_COMMUNICATOR_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "pcg/dtype.h"
#include "pcg/layout/factor_table.h"

namespace tandem {

// `type` is kF32 or kF64; counts are in elements.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;  // position in the group
  virtual int size() const = 0;

  virtual absl::Status Barrier() = 0;
  virtual absl::Status AllReduce(void* data, int64_t count, DType type, Combiner combiner) = 0;
  // receive[r * count ...) is what rank r sent.
  virtual absl::Status AllGather(const void* send, int64_t count, void* receive, DType type) = 0;
  // send[r * count ...) goes to rank r; receive holds `count` combined elements.
  virtual absl::Status ReduceScatter(const void* send, int64_t count, void* receive, DType type,
                                     Combiner combiner) = 0;
  // send[r * count ...) goes to rank r; receive[r * count ...) is what rank r sent here.
  virtual absl::Status AllToAll(const void* send, int64_t count, void* receive, DType type) = 0;
  virtual absl::Status Broadcast(void* data, int64_t count, DType type, int root) = 0;
  // Messages between two ranks arrive in order. Sending does not wait for the receiver.
  virtual absl::Status Send(const void* data, int64_t count, DType type, int to) = 0;
  virtual absl::Status Receive(void* data, int64_t count, DType type, int from) = 0;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_COMMUNICATOR_H_
