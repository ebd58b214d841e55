// Builds operator instances by hand, for tests of what is derived from them: no parser between the
// equation meant and the equation read.
#ifndef TANDEM_PCG_INSTANCE_INSTANCE_BUILDER_H_
#define TANDEM_PCG_INSTANCE_INSTANCE_BUILDER_H_

#include <string>
#include <utility>
#include <vector>

#include "pcg/instance/op_instance.h"

namespace tandem {

class InstanceBuilder {
 public:
  OpInstance op;

  int Size(std::string name, int64_t extent) {
    op.sizes.push_back({std::move(name), extent, false, ExprId()});
    return static_cast<int>(op.sizes.size()) - 1;
  }
  int Var(int size) {
    op.vars.push_back({op.sizes[static_cast<size_t>(size)].name + "_", size});
    return static_cast<int>(op.vars.size()) - 1;
  }
  // Inputs first, then outputs, then intermediates. One size a dim, or several factors.
  int Input(std::string name, std::vector<std::vector<int>> dims,
            ElementKind kind = ElementKind::kFloat) {
    ++op.num_inputs;
    return Tensor(std::move(name), std::move(dims), kind);
  }
  int Output(std::string name, std::vector<std::vector<int>> dims,
             ElementKind kind = ElementKind::kFloat) {
    ++op.num_outputs;
    return Tensor(std::move(name), std::move(dims), kind);
  }
  int Tensor(std::string name, std::vector<std::vector<int>> dims,
             ElementKind kind = ElementKind::kFloat) {
    op.tensors.push_back({std::move(name), kind, std::move(dims)});
    return static_cast<int>(op.tensors.size()) - 1;
  }
  void Equation(int target, std::vector<int> vars, ExprId body) {
    op.equations.push_back({target, std::move(vars), body});
  }

  ExprId Number(double value) {
    ExprNode e;
    e.number = value;
    return op.exprs.Add(std::move(e));
  }
  ExprId V(int var) { return Leaf(ExprKind::kVar, var); }
  ExprId N(int size) { return Leaf(ExprKind::kSize, size); }
  ExprId Of(ExprKind kind, std::vector<ExprId> args, std::string name = "") {
    ExprNode e;
    e.kind = kind;
    e.args = std::move(args);
    e.name = std::move(name);
    return op.exprs.Add(std::move(e));
  }
  ExprId Call(std::string name, std::vector<ExprId> args) {
    return Of(ExprKind::kCall, std::move(args), std::move(name));
  }
  ExprId ReadAt(int tensor, std::vector<ExprId> index) {
    const ExprId id = Of(ExprKind::kRead, std::move(index));
    op.exprs.nodes.back().ref = tensor;
    return id;
  }
  ExprId ReadOr(int tensor, std::vector<ExprId> index, ExprId otherwise) {
    index.push_back(otherwise);
    const ExprId id = ReadAt(tensor, std::move(index));
    op.exprs.nodes.back().has_else = true;
    return id;
  }
  // The tensor at plain variables, one a dim.
  ExprId Read(int tensor, const std::vector<int>& vars) {
    std::vector<ExprId> index;
    for (int v : vars) index.push_back(V(v));
    return ReadAt(tensor, std::move(index));
  }
  ExprId Reduce(std::string name, const std::vector<int>& vars, ExprId body) {
    const ExprId id = Of(ExprKind::kReduce, {body}, std::move(name));
    for (int v : vars) op.exprs.nodes.back().bound.push_back({"", "", v});
    return id;
  }
  ExprId Sum(const std::vector<int>& vars, ExprId body) { return Reduce("sum", vars, body); }
  ExprId Add(ExprId a, ExprId b) { return Of(ExprKind::kAdd, {a, b}); }
  ExprId Sub(ExprId a, ExprId b) { return Of(ExprKind::kSub, {a, b}); }
  ExprId Mul(ExprId a, ExprId b) { return Of(ExprKind::kMul, {a, b}); }
  ExprId Div(ExprId a, ExprId b) { return Of(ExprKind::kDiv, {a, b}); }
  ExprId Compare(ExprId a, std::string how, ExprId b) {
    return Of(ExprKind::kCompare, {a, b}, std::move(how));
  }
  ExprId Select(ExprId c, ExprId a, ExprId b) { return Of(ExprKind::kSelect, {c, a, b}); }

 private:
  ExprId Leaf(ExprKind kind, int ref) {
    ExprNode e;
    e.kind = kind;
    e.ref = ref;
    return op.exprs.Add(std::move(e));
  }
};

}  // namespace tandem

#endif  // TANDEM_PCG_INSTANCE_INSTANCE_BUILDER_H_
