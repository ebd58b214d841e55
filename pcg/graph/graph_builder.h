// Building graphs in code: the zoo, tests, front ends. The first error sticks and is returned by
// Finish, so that models read as models.
#ifndef TANDEM_PCG_GRAPH_GRAPH_BUILDER_H_
#define TANDEM_PCG_GRAPH_GRAPH_BUILDER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pcg/graph/graph.h"

namespace tandem {

class GraphBuilder {
 public:
  // `batch`: extent of the leading dim of the inputs.
  GraphBuilder(std::string name, int64_t batch);

  TensorId Input(const std::string& name, const std::vector<int64_t>& shape,
                 DType dtype = DType::kF32);
  // `initializer` as Tensor::initializer, for example "normal(0.02)".
  TensorId Parameter(const std::string& name, const std::vector<int64_t>& shape,
                     const std::string& initializer = "normal(0.02)");
  TensorId State(const std::string& name, const std::vector<int64_t>& shape,
                 const std::string& initializer);
  // First output of the operator. Attribute "absent" is set for optional inputs left out at the
  // end.
  TensorId Op(const std::string& op, const std::vector<TensorId>& inputs,
              Attributes attributes = {});
  // Named node; the block number is set on all nodes until the next call of Block.
  TensorId Named(const std::string& name, const std::string& op,
                 const std::vector<TensorId>& inputs, Attributes attributes = {});
  void Block(int block) { block_ = block; }
  void Update(TensorId state, TensorId next) { graph_.updates.push_back({state, next}); }
  const std::vector<int64_t> Shape(TensorId id) const;

  absl::StatusOr<Graph> Finish(const std::vector<TensorId>& outputs);

 private:
  TensorId Source(const std::string& name, const std::vector<int64_t>& shape, TensorRole role,
                  DType dtype, const std::string& initializer);
  Graph graph_;
  absl::Status status_;
  int block_ = -1;
};

}  // namespace tandem

#endif  // TANDEM_PCG_GRAPH_GRAPH_BUILDER_H_
