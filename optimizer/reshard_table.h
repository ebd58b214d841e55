// All-pairs resharding costs between layouts of one tensor shape, remembered. The search asks for
// millions; a shape has tens to hundreds of layouts.
#ifndef TANDEM_OPTIMIZER_RESHARD_TABLE_H_
#define TANDEM_OPTIMIZER_RESHARD_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "optimizer/solver/problem.h"
#include "pcg/layout/layout.h"
#include "simulator/program_cost.h"

namespace tandem {

class ReshardCosts {
 public:
  static constexpr double kUnreachable = solver::kForbidden;  // seconds

  ReshardCosts(const Machine& machine, const Mesh& mesh);

  // `waits`: the value can wait for others and be sent with them (a gradient for its update, a
  // weight for its use), so that a small one pays its share of a bundle of kBundleBytes.
  int InternShape(const FactoredShape& shape, int64_t element_bytes, bool waits = false);
  int InternLayout(const Layout& layout);
  const Layout& LayoutOf(int id) const { return layouts_[static_cast<size_t>(id)]; }
  // Seconds a step of the cheapest sequence of steps, kUnreachable if there is none.
  double Seconds(int shape, int from, int to);
  const StepPricer& pricer() const { return pricer_; }

 private:
  struct Edge {
    int to = 0;
    double seconds = 0;
    bool temporal = false;  // changes the temporal axis
  };
  struct Shape {
    FactoredShape shape;
    int64_t element_bytes = 0;
    bool waits = false;
    std::map<int, std::vector<double>> from;     // distances by layout id, once computed
    std::map<int, std::vector<Edge>> edges;      // single steps by layout id, once computed
    std::map<std::pair<int, int>, double> made;  // from, to: where a partial value has to be made
  };
  const std::vector<double>& Distances(Shape& shape, int from);
  const std::vector<Edge>& Edges(Shape& shape, int from);
  double MadePartial(int shape, int from, int to);
  double LocalBytes(const Shape& shape, const Layout& layout) const;
  double StepSeconds(const Shape& shape, const ReshardStep& step, double before,
                     double after) const;

  Mesh mesh_;
  StepPricer pricer_;
  StepCost cost_;
  std::vector<Shape> shapes_;
  std::map<std::tuple<FactoredShape, int64_t, bool>, int> shape_ids_;
  std::vector<Layout> layouts_;
  std::map<Layout, int> layout_ids_;
};

// The costs of every mesh of one machine, made when first asked for: forms of a model and baselines
// reshard the same tensors.
class ReshardCache {
 public:
  ReshardCosts& Of(const Machine& machine, const Mesh& mesh);

 private:
  std::map<std::vector<std::pair<int64_t, bool>>, std::unique_ptr<ReshardCosts>> costs_;
};

}  // namespace tandem

#endif  // TANDEM_OPTIMIZER_RESHARD_TABLE_H_
