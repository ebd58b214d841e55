// Which sizes of two graphs are one size: a tensor's factor and the sizes of all operators that
// read or write it, and factors of sources that both graphs have. What a theorem about the graphs
// quantifies over.
#ifndef TANDEM_VERIFIER_EQUALITY_SIZE_CLASSES_H_
#define TANDEM_VERIFIER_EQUALITY_SIZE_CLASSES_H_

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/graph/graph.h"
#include "pcg/instance/op_instance.h"

namespace tandem {

// Where a name used in an attribute ("$n") can be read off: a factor of a source tensor's dim.
struct NamedFactor {
  std::string tensor;
  int dim = 0;
  int factor = 0;
};

class SizeClasses {
 public:
  struct Class {
    int64_t extent = 1;     // in the graphs at hand
    bool constant = false;  // fixed by an operator's text or an attribute
    bool source = false;    // a factor of a source
    // Given by nothing but an attribute's list (what a reshape or a fill makes), in both graphs?
    bool listed = false;
    bool listed_in_both = false;
    std::string name;
    // A formula that determines it: of an operator's sizes, or an attribute that is a symbol.
    struct Definition {
      int side = 0, node = 0;
      ExprId formula;                      // in the instance; or
      std::optional<ExprArena> attribute;  // its own arena
      ExprId attribute_root;
    };
    std::vector<Definition> definitions;
  };

  // Errors: a source of one name and two shapes; an operator whose factors do not line up with its
  // tensors' (call PropagateFactors first).
  static absl::StatusOr<SizeClasses> Of(const Graph& source, const Graph& target);

  int OfTensor(int side, TensorId tensor, int dim, int factor) const;
  int OfSize(int side, int node, int size) const;
  const std::vector<Class>& classes() const { return classes_; }
  // Products that must be equal for the operators to exist: a reshape keeps the number of elements.
  struct SameCount {
    std::vector<int> a, b;  // classes
  };
  const std::vector<SameCount>& same_counts() const { return same_counts_; }
  // Some operator regroups in a way same_counts() does not express: trust only the extents at hand.
  bool only_own_extents() const { return only_own_extents_; }
  const OpInstance& instance(int side, int node) const {
    return instances_[static_cast<size_t>(side)][static_cast<size_t>(node)];
  }

 private:
  SizeClasses() = default;
  int Find(int slot) const;
  void Unite(int a, int b) { parent_[static_cast<size_t>(Find(a))] = Find(b); }
  void MergeListed();
  void CountElements(const Graph& graph, int side, int node);

  std::array<std::vector<OpInstance>, 2> instances_;
  // First slot of each tensor's factor and each node's sizes.
  std::array<std::vector<std::vector<std::vector<int>>>, 2> tensor_slots_;
  std::array<std::vector<int>, 2> node_slots_;
  mutable std::vector<int> parent_;
  std::vector<int> class_of_;  // by slot
  std::vector<Class> classes_;
  std::vector<SameCount> same_counts_;
  bool only_own_extents_ = false;
};

}  // namespace tandem

#endif  // TANDEM_VERIFIER_EQUALITY_SIZE_CLASSES_H_
