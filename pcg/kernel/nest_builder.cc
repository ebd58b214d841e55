// From an operator instance to stages: reductions are lifted out of expressions, guards of
// reductions are collected, and variables that they fix are replaced.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pcg/kernel/nest_exprs.h"
#include "pcg/kernel/nest_ir.h"
#include "pcg/kernel/nest_solver.h"

namespace tandem {
namespace {

constexpr double kMostElements = 0x1p35;  // 256 GiB of doubles: beyond it is a mistake

struct Lifted {
  int tensor = -1;
  std::vector<int> vars;
};

class StagesBuilder {
 public:
  StagesBuilder(const OpInstance& instance, const PieceOfOp& piece) : instance(instance) {
    for (size_t s = 0; s < instance.sizes.size(); ++s) {
      const int64_t whole = instance.sizes[s].extent;
      size_extents.push_back(s < piece.extents.size() ? piece.extents[s] : whole);
      size_offsets.push_back(s < piece.offsets.size() ? piece.offsets[s] : 0);
    }
    for (const LoopVar& var : instance.vars) {
      out.extents.push_back(size_extents[static_cast<size_t>(var.size)]);
    }
    int slots[3] = {0, 0, 0};
    for (size_t t = 0; t < instance.tensors.size(); ++t) {
      const int index = static_cast<int>(t);
      const auto kind = index < instance.num_inputs ? NestTensor::Kind::kInput
                        : index < instance.num_inputs + instance.num_outputs
                            ? NestTensor::Kind::kOutput
                            : NestTensor::Kind::kTemporary;
      std::vector<int64_t> dims;
      for (const std::vector<int>& dim : instance.tensors[t].dims) {
        for (int size : dim) dims.push_back(size_extents[static_cast<size_t>(size)]);
      }
      AddTensor(kind, slots[static_cast<int>(kind)]++, instance.tensors[t].name, std::move(dims));
    }
    next_temporary_ = slots[static_cast<int>(NestTensor::Kind::kTemporary)];
  }

  int AddTensor(NestTensor::Kind kind, int slot, std::string name, std::vector<int64_t> dims) {
    NestTensor tensor;
    tensor.kind = kind;
    tensor.slot = slot;
    tensor.name = std::move(name);
    tensor.strides.resize(dims.size());
    for (size_t d = dims.size(); d-- > 0;) {
      tensor.strides[d] = tensor.elements;
      tensor.elements *= dims[d];
    }
    tensor.dims = std::move(dims);
    out.tensors.push_back(std::move(tensor));
    return static_cast<int>(out.tensors.size()) - 1;
  }

  int AddTemporary(std::vector<int64_t> dims) {
    return AddTensor(NestTensor::Kind::kTemporary, next_temporary_++, "a reduction",
                     std::move(dims));
  }

  int64_t OffsetOf(int var) const {
    return size_offsets[static_cast<size_t>(instance.vars[static_cast<size_t>(var)].size)];
  }
  int64_t WholeExtent(int var) const {
    const int size = instance.vars[static_cast<size_t>(var)].size;
    return instance.sizes[static_cast<size_t>(size)].extent;
  }

  const OpInstance& instance;
  std::vector<int64_t> size_extents;
  std::vector<int64_t> size_offsets;
  NestStages out;
  std::map<int, Lifted> lifted;  // by expression

 private:
  int next_temporary_ = 0;
};

class StageBuilder {
 public:
  explicit StageBuilder(StagesBuilder& all, bool lenient) : all_(all) { stage_.lenient = lenient; }

  absl::Status Plain(int target, const std::vector<int>& vars, ExprId body) {
    stage_.target = target;
    stage_.free_vars = vars;
    for (int var : vars) stage_.index.push_back(Local(var));
    stage_.factors.push_back(Value(body));
    return Finish();
  }

  absl::Status Reduction(int target, const std::vector<int>& vars, const ExprNode& reduce) {
    stage_.target = target;
    stage_.reduction = reduce.name == "sum"    ? NestReduction::kSum
                       : reduce.name == "prod" ? NestReduction::kProd
                       : reduce.name == "max"  ? NestReduction::kMax
                       : reduce.name == "min"  ? NestReduction::kMin
                                               : NestReduction::kArgMax;
    std::vector<int> bound;
    for (const BoundVar& var : reduce.bound) bound.push_back(var.var);
    std::vector<ExprId> guards, factors, divisors;
    if (stage_.reduction == NestReduction::kArgMax) {
      factors.push_back(reduce.args[0]);
    } else {
      Product(reduce.args[0], guards, factors, divisors);
    }
    solved_ = SolveGuards(instance(), all_.out.extents, bound, vars, guards);
    for (int var : vars) (solved_.count(var) == 0 ? stage_.free_vars : fixed_free_).push_back(var);
    for (int var : bound) {
      if (solved_.count(var) == 0) stage_.reduce_vars.push_back(var);
    }
    stage_.scatter = !fixed_free_.empty();
    for (int var : vars) stage_.index.push_back(Local(var));
    for (const auto& [var, solution] : solved_) GuardSolved(var, solution);
    for (ExprId guard : guards) stage_.guards.push_back(Value(guard));
    for (ExprId factor : factors) stage_.factors.push_back(Value(factor));
    for (ExprId divisor : divisors) stage_.divisors.push_back(Value(divisor));
    if (negative_) stage_.factors.push_back(exprs_.Const(-1));
    if (stage_.reduction == NestReduction::kArgMax) {
      int position = exprs_.Const(0);
      for (int var : bound) {
        position = exprs_.Binary(NestOp::kMul, position,
                                 exprs_.Const(static_cast<double>(all_.WholeExtent(var))));
        position = exprs_.Binary(NestOp::kAdd, position, Logical(var));
      }
      stage_.position = position;
    }
    return Finish();
  }

 private:
  const OpInstance& instance() const { return all_.instance; }
  const ExprNode& expr(ExprId id) const { return all_.instance.exprs[id]; }

  absl::Status Finish() {
    if (!status_.ok()) return status_;
    all_.out.stages.push_back(std::move(stage_));
    return absl::OkStatus();
  }

  // --- Guards and factors of a reduction's body.

  bool IsIdentity(ExprId id) const {
    const ExprNode& node = expr(id);
    return node.kind == ExprKind::kNumber && node.number == Identity(stage_.reduction);
  }

  void Conjuncts(ExprId id, std::vector<ExprId>& guards) const {
    const ExprNode& node = expr(id);
    if (node.kind != ExprKind::kAnd) {
      guards.push_back(id);
      return;
    }
    for (ExprId arg : node.args) Conjuncts(arg, guards);
  }

  void Product(ExprId id, std::vector<ExprId>& guards, std::vector<ExprId>& factors,
               std::vector<ExprId>& divisors) {
    const ExprNode& node = expr(id);
    const bool sum = stage_.reduction == NestReduction::kSum;
    if (node.kind == ExprKind::kNoGrad) return Product(node.args[0], guards, factors, divisors);
    if (node.kind == ExprKind::kSelect && IsIdentity(node.args[2])) {
      Conjuncts(node.args[0], guards);
      return Product(node.args[1], guards, factors, divisors);
    }
    if (sum && node.kind == ExprKind::kMul) {
      Product(node.args[0], guards, factors, divisors);
      return Product(node.args[1], guards, factors, divisors);
    }
    if (sum && node.kind == ExprKind::kDiv) {
      divisors.push_back(node.args[1]);
      return Product(node.args[0], guards, factors, divisors);
    }
    if (sum && node.kind == ExprKind::kNeg) {
      negative_ = !negative_;
      return Product(node.args[0], guards, factors, divisors);
    }
    factors.push_back(id);
  }

  int64_t Extent(int var) const { return all_.out.extents[static_cast<size_t>(var)]; }

  // --- Variables that guards fix.

  // The fixed value must be an index of this piece, and, without a chain, divide evenly.
  void GuardSolved(int var, const Solution& solution) {
    const int local = Local(var);
    if (!exprs_.KnownInRange(local, Extent(var))) {
      NestNode node;
      node.op = NestOp::kInRange;
      node.number = static_cast<double>(Extent(var));
      node.args = {local};
      stage_.guards.push_back(exprs_.Add(std::move(node)));
    }
    if (solution.divisor > 1 && !solution.digit) {
      const int rest = exprs_.Binary(NestOp::kMod, Numerator(solution),
                                     exprs_.Const(static_cast<double>(solution.divisor)));
      stage_.guards.push_back(exprs_.Binary(NestOp::kEq, rest, exprs_.Const(0)));
    }
  }

  int Numerator(const Solution& solution) {
    int value = exprs_.Const(static_cast<double>(solution.constant));
    for (const auto& [var, coefficient] : solution.vars) {
      value =
          exprs_.Binary(NestOp::kAdd, value,
                        exprs_.Binary(NestOp::kMul, exprs_.Const(static_cast<double>(coefficient)),
                                      Logical(var)));
    }
    for (const auto& [coefficient, id] : solution.opaque) {
      int term = Value(id);
      if (coefficient != 1)
        term = exprs_.Binary(NestOp::kMul, exprs_.Const(static_cast<double>(coefficient)), term);
      value = solution.constant == 0 && solution.vars.empty() && solution.opaque.size() == 1
                  ? term
                  : exprs_.Binary(NestOp::kAdd, value, term);
    }
    return value;
  }

  // A loop variable's logical value.
  int Logical(int var) {
    const auto memo = logical_.find(var);
    if (memo != logical_.end()) return memo->second;
    int node = 0;
    const auto it = solved_.find(var);
    if (it == solved_.end()) {
      IntAffine affine;
      affine.constant = all_.OffsetOf(var);
      affine.terms = {{var, 1}};
      node = exprs_.Affine(std::move(affine));
    } else {
      node = Numerator(it->second);
      if (it->second.divisor > 1) {
        node = exprs_.Binary(NestOp::kFloorDiv, node,
                             exprs_.Const(static_cast<double>(it->second.divisor)));
      }
      if (it->second.modulus > 0) {
        node = exprs_.Binary(NestOp::kMod, node,
                             exprs_.Const(static_cast<double>(it->second.modulus)));
      }
    }
    logical_.emplace(var, node);
    return node;
  }

  int Local(int var) {
    const int64_t offset = all_.OffsetOf(var);
    const int logical = Logical(var);
    return offset == 0
               ? logical
               : exprs_.Binary(NestOp::kSub, logical, exprs_.Const(static_cast<double>(offset)));
  }

  int Index(ExprId id, int size) {
    const ExprNode& node = expr(id);
    const bool plain =
        node.kind == ExprKind::kVar && instance().vars[static_cast<size_t>(node.ref)].size == size;
    return plain ? Local(node.ref) : Value(id);
  }

  int Read(const ExprNode& expression) {
    NestNode node;
    node.op = NestOp::kRead;
    node.tensor = expression.ref;
    node.has_else = expression.has_else;
    const InstanceOperand& operand = instance().tensors[static_cast<size_t>(expression.ref)];
    for (size_t d = 0; d < operand.dims.size(); ++d) {
      const ExprNode& index = expr(expression.args[d]);
      if (index.kind == ExprKind::kTuple) {
        for (size_t f = 0; f < operand.dims[d].size(); ++f) {
          node.args.push_back(Index(index.args[f], operand.dims[d][f]));
        }
      } else {
        node.args.push_back(Index(expression.args[d], operand.dims[d][0]));
      }
    }
    if (expression.has_else) node.args.push_back(Value(expression.args.back()));
    return exprs_.Add(std::move(node));
  }

  // A reduction inside an expression: a temporary over the variables it depends on.
  int Lift(ExprId id) {
    auto it = all_.lifted.find(id.value);
    if (it == all_.lifted.end()) {
      Lifted lifted;
      std::vector<int64_t> dims;
      for (int var : FreeVarsOf(instance(), id)) {
        lifted.vars.push_back(var);
        dims.push_back(Extent(var));
      }
      lifted.tensor = all_.AddTemporary(std::move(dims));
      absl::Status status = StageBuilder(all_, stage_.lenient || select_depth_ > 0)
                                .Reduction(lifted.tensor, lifted.vars, expr(id));
      if (!status.ok()) status_ = status;
      it = all_.lifted.emplace(id.value, std::move(lifted)).first;
    }
    NestNode node;
    node.op = NestOp::kRead;
    node.tensor = it->second.tensor;
    for (int var : it->second.vars) node.args.push_back(Local(var));
    return exprs_.Add(std::move(node));
  }

  int Value(ExprId id) {
    const auto memo = values_.find(id.value);
    if (memo != values_.end()) return memo->second;
    const int node = Build(id);
    values_.emplace(id.value, node);
    return node;
  }

  int Build(ExprId id) {
    const ExprNode& node = expr(id);
    switch (node.kind) {
      case ExprKind::kNumber:
        return exprs_.Const(node.number);
      case ExprKind::kVar:
        return Logical(node.ref);
      case ExprKind::kSize:
        return exprs_.Const(
            static_cast<double>(instance().sizes[static_cast<size_t>(node.ref)].extent));
      case ExprKind::kRead:
        return Read(node);
      case ExprKind::kReduce:
        return Lift(id);
      case ExprKind::kNoGrad:
        return Value(node.args[0]);
      case ExprKind::kNeg:
        return exprs_.Unary(NestOp::kNeg, Value(node.args[0]));
      case ExprKind::kNot:
        return exprs_.Unary(NestOp::kNot, Value(node.args[0]));
      case ExprKind::kSelect: {
        NestNode select;
        select.op = NestOp::kSelect;
        select.args = {Value(node.args[0])};
        ++select_depth_;
        select.args.push_back(Value(node.args[1]));
        select.args.push_back(Value(node.args[2]));
        --select_depth_;
        return exprs_.Add(std::move(select));
      }
      case ExprKind::kCompare:
        return exprs_.Binary(Comparison(node.name), Value(node.args[0]), Value(node.args[1]));
      case ExprKind::kCall:
        return Call(node);
      case ExprKind::kAttr:
      case ExprKind::kTuple:
        status_ = absl::InvalidArgumentError("an attribute or tuple is not a value of an instance");
        return exprs_.Const(0);
      default: {
        static constexpr std::pair<ExprKind, NestOp> kBinary[] = {
            {ExprKind::kAdd, NestOp::kAdd},           {ExprKind::kSub, NestOp::kSub},
            {ExprKind::kMul, NestOp::kMul},           {ExprKind::kDiv, NestOp::kDiv},
            {ExprKind::kFloorDiv, NestOp::kFloorDiv}, {ExprKind::kMod, NestOp::kMod},
            {ExprKind::kAnd, NestOp::kAnd},           {ExprKind::kOr, NestOp::kOr}};
        for (const auto& [kind, op] : kBinary) {
          if (kind != node.kind) continue;
          const int left = Value(node.args[0]);  // in order: a stage's nodes are deterministic
          return exprs_.Binary(op, left, Value(node.args[1]));
        }
        status_ = absl::InternalError("unknown expression");
        return exprs_.Const(0);
      }
    }
  }

  static NestOp Comparison(const std::string& name) {
    if (name == "==") return NestOp::kEq;
    if (name == "!=") return NestOp::kNe;
    if (name == "<") return NestOp::kLt;
    if (name == "<=") return NestOp::kLe;
    if (name == ">") return NestOp::kGt;
    return NestOp::kGe;
  }

  int Call(const ExprNode& node) {
    static const auto* const kFunctions = new std::map<std::string, NestOp>{
        {"exp", NestOp::kExp},        {"log", NestOp::kLog},     {"sqrt", NestOp::kSqrt},
        {"rsqrt", NestOp::kRsqrt},    {"tanh", NestOp::kTanh},   {"erf", NestOp::kErf},
        {"sin", NestOp::kSin},        {"cos", NestOp::kCos},     {"abs", NestOp::kAbs},
        {"sign", NestOp::kSign},      {"floor", NestOp::kFloor}, {"pow", NestOp::kPow},
        {"max", NestOp::kMax},        {"min", NestOp::kMin},     {"isnan", NestOp::kIsNan},
        {"uniform", NestOp::kUniform}};
    const auto it = kFunctions->find(node.name);
    if (it == kFunctions->end()) {
      status_ = absl::InvalidArgumentError(absl::StrCat("unknown function '", node.name, "'"));
      return exprs_.Const(0);
    }
    NestNode call;
    call.op = it->second;
    for (ExprId arg : node.args) call.args.push_back(Value(arg));
    return exprs_.Add(std::move(call));
  }

  StagesBuilder& all_;
  NestStage stage_;
  NestExprs exprs_{&stage_.nodes, &all_.out.extents};
  std::map<int, Solution> solved_;
  std::vector<int> fixed_free_;
  std::map<int, int> logical_;
  std::map<int, int> values_;
  absl::Status status_;
  bool negative_ = false;
  int select_depth_ = 0;
};

}  // namespace

absl::StatusOr<NestStages> BuildStages(const OpInstance& instance, const PieceOfOp& piece) {
  for (const std::vector<int64_t>* list : {&piece.extents, &piece.offsets}) {
    if (!list->empty() && list->size() != instance.sizes.size()) {
      return absl::InvalidArgumentError(absl::StrCat("a piece of operator '", instance.op,
                                                     "' gives ", list->size(), " values for ",
                                                     instance.sizes.size(), " sizes"));
    }
  }
  StagesBuilder builder(instance, piece);
  for (const InstanceEquation& equation : instance.equations) {
    ExprId body = equation.body;
    while (instance.exprs[body].kind == ExprKind::kNoGrad) body = instance.exprs[body].args[0];
    StageBuilder stage(builder, /*lenient=*/false);
    absl::Status status =
        instance.exprs[body].kind == ExprKind::kReduce
            ? stage.Reduction(equation.target, equation.vars, instance.exprs[body])
            : stage.Plain(equation.target, equation.vars, body);
    if (!status.ok()) return status;
  }
  double elements = 0;
  for (const NestTensor& tensor : builder.out.tensors) {
    double product = 1;
    for (int64_t dim : tensor.dims) product *= static_cast<double>(dim);
    elements += product;
  }
  if (elements > kMostElements) {
    return absl::ResourceExhaustedError(absl::StrCat("operator '", instance.op, "' needs ",
                                                     elements,
                                                     " elements at once; evaluate pieces of it"));
  }
  return std::move(builder.out);
}

}  // namespace tandem
