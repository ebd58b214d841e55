// The zoo: known models by name, built from operators, at their published sizes; and small ones of
// the same kind that run in a moment.
#ifndef TANDEM_MODELS_ZOO_H_
#define TANDEM_MODELS_ZOO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pcg/graph/graph.h"

namespace tandem {

struct ZooEntry {
  std::string name;
  std::string description;
  int64_t default_batch = 1;
};
const std::vector<ZooEntry>& ZooEntries();

// batch 0 = the entry's default. NotFound lists the names.
absl::StatusOr<Graph> ZooModel(absl::string_view name, int64_t batch = 0);

// The families, for other sizes.
absl::StatusOr<Graph> BuildMlp(const std::string& name, int64_t batch, int64_t width,
                               const std::vector<int64_t>& hidden, int64_t classes);
struct ResNetSize {
  std::vector<int> blocks = {3, 4, 6, 3};
  int64_t stem = 64;  // channels after the first convolution
  bool bottleneck = true;
  int64_t image = 224;
  int64_t classes = 1000;
};
// Training form: batch normalisation over the batch, running statistics as state.
absl::StatusOr<Graph> BuildResNet(const std::string& name, int64_t batch, const ResNetSize& size);
struct BertSize {
  int64_t layers = 24;
  int64_t width = 1024;
  int64_t heads = 16;
  int64_t feed_forward = 4096;
  int64_t sequence = 512;
  int64_t vocabulary = 30522;
};
// Token ids to logits over the vocabulary; the head is tied to the embedding.
absl::StatusOr<Graph> BuildBert(const std::string& name, int64_t batch, const BertSize& size);

}  // namespace tandem

#endif  // TANDEM_MODELS_ZOO_H_
