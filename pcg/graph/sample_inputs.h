// Values for the inputs of operator samples: seeded, the same in every run.
#ifndef TANDEM_PCG_GRAPH_SAMPLE_INPUTS_H_
#define TANDEM_PCG_GRAPH_SAMPLE_INPUTS_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "pcg/graph/interpreter.h"
#include "pcg/graph/operator_samples.h"

namespace tandem {

class SampleRandom {
 public:
  double Uniform() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state_ >> 11) / 9007199254740992.0;
  }
  // Indices below `index_below`; with 0, numbers from (-1, 1), or (0.5, 1.5) if `positive`.
  HostTensor Tensor(const FactoredShape& shape, int64_t index_below, bool positive) {
    HostTensor tensor;
    tensor.shape = PlainShape(shape);
    for (int64_t i = ElementCount(shape); i > 0; --i) {
      const double u = Uniform();
      tensor.data.push_back(index_below > 0 ? std::floor(u * static_cast<double>(index_below))
                            : positive      ? 0.5 + u
                                            : 2 * u - 1);
    }
    return tensor;
  }

 private:
  uint64_t state_ = 12345;
};

inline std::vector<HostTensor> InputsOf(const OperatorSample& sample, SampleRandom& random) {
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    const int64_t below = i < sample.index_below.size() ? sample.index_below[i] : 0;
    inputs.push_back(random.Tensor(sample.inputs[i], below, sample.positive));
  }
  return inputs;
}

inline std::vector<const HostTensor*> Pointers(const std::vector<HostTensor>& tensors) {
  std::vector<const HostTensor*> out;
  for (const HostTensor& tensor : tensors) out.push_back(&tensor);
  return out;
}

}  // namespace tandem

#endif  // TANDEM_PCG_GRAPH_SAMPLE_INPUTS_H_
