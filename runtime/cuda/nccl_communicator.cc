#include "runtime/cuda/nccl_communicator.h"

#include <cstring>

#include "runtime/cuda/cuda_status.h"

namespace tandem {
namespace {

absl::StatusOr<ncclDataType_t> NcclType(DType type) {
  switch (type) {
    case DType::kF64:
      return ncclFloat64;
    case DType::kF32:
    case DType::kTF32:
      return ncclFloat32;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kF16:
      return ncclFloat16;
    case DType::kI64:
      return ncclInt64;
    case DType::kI32:
      return ncclInt32;
    case DType::kBool:
      return ncclUint8;
  }
  return absl::InvalidArgumentError("NCCL: unknown element type");
}

ncclRedOp_t NcclOp(Combiner combiner) {
  switch (combiner) {
    case Combiner::kSum:
      return ncclSum;
    case Combiner::kMax:
      return ncclMax;
    case Combiner::kMin:
      return ncclMin;
  }
  return ncclSum;
}

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(cudaStream_t stream, int rank, int size)
      : stream_(stream), rank_(rank), size_(size) {}
  ~NcclCommunicator() override {
    if (comm_ != nullptr) ncclCommDestroy(comm_);
    if (token_ != nullptr) cudaFree(token_);
  }

  absl::Status Start(const ncclUniqueId& id) {
    if (absl::Status s = CudaStatus(cudaMalloc(&token_, sizeof(float)), "cudaMalloc"); !s.ok()) {
      return s;
    }
    return CudaStatus(ncclCommInitRank(&comm_, size_, id, rank_), "ncclCommInitRank");
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  absl::Status Barrier() override {
    if (absl::Status s = AllReduce(token_, 1, DType::kF32, Combiner::kSum); !s.ok()) return s;
    return CudaStatus(cudaStreamSynchronize(stream_), "barrier");
  }
  absl::Status AllReduce(void* data, int64_t count, DType type, Combiner combiner) override {
    return With(type, "all-reduce", [&](ncclDataType_t t) {
      return ncclAllReduce(data, data, Count(count), t, NcclOp(combiner), comm_, stream_);
    });
  }
  absl::Status AllGather(const void* send, int64_t count, void* receive, DType type) override {
    return With(type, "all-gather", [&](ncclDataType_t t) {
      return ncclAllGather(send, receive, Count(count), t, comm_, stream_);
    });
  }
  absl::Status ReduceScatter(const void* send, int64_t count, void* receive, DType type,
                             Combiner combiner) override {
    return With(type, "reduce-scatter", [&](ncclDataType_t t) {
      return ncclReduceScatter(send, receive, Count(count), t, NcclOp(combiner), comm_, stream_);
    });
  }
  absl::Status AllToAll(const void* send, int64_t count, void* receive, DType type) override {
    const int64_t bytes = count * DTypeBytes(type);
    return With(type, "all-to-all", [&](ncclDataType_t t) {
      ncclResult_t result = ncclGroupStart();
      for (int r = 0; r < size_ && result == ncclSuccess; ++r) {
        const char* from = static_cast<const char*>(send) + r * bytes;
        char* to = static_cast<char*>(receive) + r * bytes;
        result = ncclSend(from, Count(count), t, r, comm_, stream_);
        if (result == ncclSuccess) result = ncclRecv(to, Count(count), t, r, comm_, stream_);
      }
      const ncclResult_t end = ncclGroupEnd();
      return result == ncclSuccess ? end : result;
    });
  }
  absl::Status Broadcast(void* data, int64_t count, DType type, int root) override {
    return With(type, "broadcast", [&](ncclDataType_t t) {
      return ncclBroadcast(data, data, Count(count), t, root, comm_, stream_);
    });
  }
  absl::Status Send(const void* data, int64_t count, DType type, int to) override {
    return With(type, "send", [&](ncclDataType_t t) {
      return ncclSend(data, Count(count), t, to, comm_, stream_);
    });
  }
  absl::Status Receive(void* data, int64_t count, DType type, int from) override {
    return With(type, "receive", [&](ncclDataType_t t) {
      return ncclRecv(data, Count(count), t, from, comm_, stream_);
    });
  }

 private:
  static size_t Count(int64_t count) { return static_cast<size_t>(count); }
  template <typename Call>
  static absl::Status With(DType type, const char* what, Call call) {
    const absl::StatusOr<ncclDataType_t> t = NcclType(type);
    return t.ok() ? CudaStatus(call(*t), what) : t.status();
  }

  cudaStream_t stream_;
  int rank_;
  int size_;
  ncclComm_t comm_ = nullptr;
  void* token_ = nullptr;  // what a barrier reduces
};

}  // namespace

absl::StatusOr<std::string> NewNcclId() {
  ncclUniqueId id;
  if (absl::Status s = CudaStatus(ncclGetUniqueId(&id), "ncclGetUniqueId"); !s.ok()) return s;
  return std::string(id.internal, sizeof id.internal);
}

absl::StatusOr<std::unique_ptr<Communicator>> JoinNccl(cudaStream_t stream, int rank, int size,
                                                       const std::string& id) {
  ncclUniqueId unique;
  if (id.size() != sizeof unique.internal) {
    return absl::InvalidArgumentError("the communicator's id is not one that NCCL made");
  }
  std::memcpy(unique.internal, id.data(), id.size());
  auto communicator = std::make_unique<NcclCommunicator>(stream, rank, size);
  if (absl::Status s = communicator->Start(unique); !s.ok()) return s;
  return std::unique_ptr<Communicator>(std::move(communicator));
}

}  // namespace tandem
