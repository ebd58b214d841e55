#include "runtime/index_use.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem {
namespace {

class Uses {
 public:
  explicit Uses(const OpInstance& op) : op_(op), as_value(op.sizes.size(), false) {
    for (const InstanceEquation& equation : op.equations) Visit(equation.body);
  }

 private:
  size_t SizeOf(int var) const {
    return static_cast<size_t>(op_.vars[static_cast<size_t>(var)].size);
  }

  // A plain index over its own size stays local; anything else is computed from logical indices.
  void VisitIndex(ExprId id, const std::vector<int>& sizes) {
    const ExprNode& e = op_.exprs[id];
    if (e.kind == ExprKind::kTuple) {
      for (size_t f = 0; f < e.args.size(); ++f) {
        VisitIndex(e.args[f], {f < sizes.size() ? sizes[f] : -1});
      }
      return;
    }
    if (e.kind == ExprKind::kVar && sizes.size() == 1 &&
        SizeOf(e.ref) == static_cast<size_t>(sizes[0])) {
      return;
    }
    for (int size : sizes) {
      if (size >= 0) as_value[static_cast<size_t>(size)] = true;
    }
    Visit(id);
  }

  void Visit(ExprId id) {
    const ExprNode& e = op_.exprs[id];
    if (e.kind == ExprKind::kVar) as_value[SizeOf(e.ref)] = true;
    if (e.kind == ExprKind::kReduce && e.name == "argmax") {
      for (const BoundVar& b : e.bound) as_value[SizeOf(b.var)] = true;  // its result is an index
    }
    if (e.kind != ExprKind::kRead) {
      for (ExprId arg : e.args) Visit(arg);
      return;
    }
    const auto& dims = op_.tensors[static_cast<size_t>(e.ref)].dims;
    for (size_t d = 0; d < dims.size(); ++d) VisitIndex(e.args[d], dims[d]);
    if (e.has_else) Visit(e.args.back());
  }

  const OpInstance& op_;

 public:
  std::vector<bool> as_value;
};

std::string AttributeText(const AttrValue& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) return absl::StrCat(*i);
  if (const auto* d = std::get_if<double>(&value)) {
    return absl::StrCat("d", absl::Hex(absl::bit_cast<uint64_t>(*d)));
  }
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
    return absl::StrCat("[", absl::StrJoin(*list, ","), "]");
  }
  return absl::StrCat("'", std::get<std::string>(value), "'");
}

}  // namespace

std::vector<bool> SizesUsedAsValues(const OpInstance& op) { return Uses(op).as_value; }

PieceOfOp PieceAt(const OpInstance& op, const std::vector<std::vector<int>>& size_axes,
                  const std::vector<int64_t>& mesh_extents, const std::vector<int64_t>& coords) {
  const std::vector<bool> as_value = SizesUsedAsValues(op);
  PieceOfOp piece;
  for (size_t s = 0; s < op.sizes.size(); ++s) {
    int64_t extent = op.sizes[s].extent;
    int64_t at = 0;
    for (int a : size_axes[s]) {
      extent /= mesh_extents[static_cast<size_t>(a)];
      at = at * mesh_extents[static_cast<size_t>(a)] + coords[static_cast<size_t>(a)];
    }
    piece.extents.push_back(extent);
    piece.offsets.push_back(as_value[s] ? at * extent : 0);
  }
  return piece;
}

std::string KernelKey(const OpInstance& op, const PieceOfOp& piece) {
  std::string key = op.op;
  for (const auto& [name, value] : op.attributes) {
    absl::StrAppend(&key, ";", name, "=", AttributeText(value));
  }
  for (const InstanceOperand& tensor : op.tensors) {
    absl::StrAppend(&key, ";");
    for (const auto& dim : tensor.dims) absl::StrAppend(&key, "(", absl::StrJoin(dim, ","), ")");
  }
  for (size_t s = 0; s < op.sizes.size(); ++s) {
    absl::StrAppend(&key, ";", op.sizes[s].extent, ":", piece.extents[s], "@", piece.offsets[s]);
  }
  return key;
}

}  // namespace tandem
