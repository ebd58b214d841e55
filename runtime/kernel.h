// An operator on one device's piece, prepared once and run many times: contractions and
// convolutions through libraries, everything else as loops over the operator's text. Which is which
// follows from the instance's structure (contraction_hoist.h), never from its name.
#ifndef TANDEM_RUNTIME_KERNEL_H_
#define TANDEM_RUNTIME_KERNEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pcg/instance/op_instance.h"
#include "pcg/kernel/loop_nest.h"

namespace tandem {

// T is float or double. Buffers are dense and row-major, local extents; outputs do not overlap
// inputs. One thread at a time.
template <typename T>
class Kernel {
 public:
  virtual ~Kernel() = default;
  // `scratch` holds intermediates between the stages of one run; kernels that run one after the
  // other share it. It grows as needed.
  virtual absl::Status Run(const std::vector<const T*>& inputs, const std::vector<T*>& outputs,
                           std::vector<T>& scratch) = 0;
  // "gemm", "loops+conv+loops": the stages in order.
  virtual std::string stages() const = 0;
  virtual int64_t scratch_elements() const = 0;

  // `piece` empty: the whole.
  static absl::StatusOr<std::unique_ptr<Kernel<T>>> Prepare(const OpInstance& op,
                                                            const PieceOfOp& piece);
};

extern template class Kernel<float>;
extern template class Kernel<double>;

}  // namespace tandem

#endif  // TANDEM_RUNTIME_KERNEL_H_
