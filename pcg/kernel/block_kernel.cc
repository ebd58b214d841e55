#include "pcg/kernel/block_kernel.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tandem {
namespace {

class Compiler {
 public:
  Compiler(const NestStages& stages, const NestStage& stage, const BlockOptions& options)
      : stages_(stages), stage_(stage), options_(options) {}

  BlockKernel Run() {
    kernel_.out.tensor = stage_.target;
    kernel_.error = absl::StrCat("' out of range, computing '", Tensor(stage_.target).name, "'");
    CollectUsages();
    MakeLoops();
    ChooseInnermost();
    Emit();
    AllocateRegisters();
    return std::move(kernel_);
  }

 private:
  const NestTensor& Tensor(int id) const { return stages_.tensors[static_cast<size_t>(id)]; }
  const NestNode& Node(int id) const { return stage_.nodes[static_cast<size_t>(id)]; }

  // --- What depends on the loops.

  bool InRange(const IntAffine& affine, int64_t extent) const {
    const auto [low, high] = RangeOf(affine, stages_.extents);
    return low >= 0 && high < extent;
  }

  static size_t Indices(const NestNode& read) { return read.args.size() - (read.has_else ? 1 : 0); }

  bool IsAffine(int id, IntAffine& affine) const {
    const NestNode& node = Node(id);
    if (node.op == NestOp::kAffine) {
      affine = node.affine;
      return true;
    }
    if (node.op != NestOp::kConst ||
        node.number != static_cast<double>(static_cast<int64_t>(node.number))) {
      return false;
    }
    affine = {};
    affine.constant = static_cast<int64_t>(node.number);
    return true;
  }

  // Flat offset of the affine dims; the others' positions go to `gathered`, those of affine dims
  // that may leave their range to `checked`.
  IntAffine Flat(int tensor, const std::vector<int>& index, std::vector<size_t>& checked,
                 std::vector<size_t>& gathered) const {
    IntAffine flat;
    for (size_t d = 0; d < Tensor(tensor).dims.size(); ++d) {
      IntAffine affine;
      if (!IsAffine(index[d], affine)) {
        gathered.push_back(d);
        continue;
      }
      if (!InRange(affine, Tensor(tensor).dims[d])) checked.push_back(d);
      flat = Sum(flat, affine, Tensor(tensor).strides[d]);
    }
    return flat;
  }

  void CollectUsages() {
    std::vector<int> roots = stage_.guards;
    roots.insert(roots.end(), stage_.factors.begin(), stage_.factors.end());
    roots.insert(roots.end(), stage_.divisors.begin(), stage_.divisors.end());
    if (stage_.position >= 0) roots.push_back(stage_.position);
    std::vector<bool> seen(stage_.nodes.size(), false);
    for (int root : roots) Visit(root, seen);
    std::vector<size_t> checked, gathered;
    strided_.push_back(Flat(stage_.target, stage_.index, checked, gathered));
    usages_.push_back(strided_.back());
    for (size_t d : gathered) Visit(stage_.index[d], seen);
  }

  void Visit(int id, std::vector<bool>& seen) {
    if (seen[static_cast<size_t>(id)]) return;
    seen[static_cast<size_t>(id)] = true;
    const NestNode& node = Node(id);
    if (node.op == NestOp::kAffine) usages_.push_back(node.affine);
    if (node.op != NestOp::kRead) {
      for (int arg : node.args) Visit(arg, seen);
      return;
    }
    std::vector<size_t> checked, gathered;
    strided_.push_back(Flat(node.tensor, node.args, checked, gathered));
    usages_.push_back(strided_.back());
    for (size_t d : checked) {
      IntAffine affine;
      IsAffine(node.args[d], affine);
      usages_.push_back(std::move(affine));
    }
    for (size_t d : gathered) Visit(node.args[d], seen);
    if (node.has_else) Visit(node.args.back(), seen);
  }

  // --- Loops.

  void MakeLoops() {
    const auto outer = [&](int var) {
      return std::find(options_.outer_vars.begin(), options_.outer_vars.end(), var) !=
             options_.outer_vars.end();
    };
    for (int var : options_.outer_vars) kernel_.loops.push_back({var, Extent(var), false});
    outer_loops_ = kernel_.loops.size();
    for (const bool reduction : {false, true}) {
      const size_t first = kernel_.loops.size();
      for (int var : reduction ? stage_.reduce_vars : stage_.free_vars) {
        if (Extent(var) == 1 || outer(var)) continue;
        // Two loops are one if every use steps through them without a seam.
        const bool merges =
            kernel_.loops.size() > first &&
            std::all_of(usages_.begin(), usages_.end(), [&](const IntAffine& usage) {
              return usage.Coefficient(kernel_.loops.back().var) ==
                     usage.Coefficient(var) * Extent(var);
            });
        if (merges) {
          kernel_.loops.back().extent *= Extent(var);
          kernel_.loops.back().var = var;
        } else {
          kernel_.loops.push_back({var, Extent(var), reduction});
        }
      }
    }
    if (kernel_.loops.size() == outer_loops_) kernel_.loops.push_back({-1, 1, false});
  }

  int64_t Extent(int var) const { return stages_.extents[static_cast<size_t>(var)]; }

  // Long loops with unit strides first.
  void ChooseInnermost() {
    size_t best = outer_loops_;
    double best_score = -1;
    for (size_t l = outer_loops_; l < kernel_.loops.size(); ++l) {
      double score = 0;
      for (const IntAffine& access : strided_) {
        const int64_t stride = access.Coefficient(kernel_.loops[l].var);
        score += stride == 0 ? 0.9 : stride == 1 ? 1 : 0.35;
      }
      const double extent = static_cast<double>(std::min(kernel_.loops[l].extent, kBlock));
      score *= extent / (extent + 16);
      if (score >= best_score) {
        best_score = score;
        best = l;
      }
    }
    const BlockLoop inner = kernel_.loops[best];
    kernel_.loops.erase(kernel_.loops.begin() + static_cast<int64_t>(best));
    kernel_.loops.push_back(inner);
    inner_var_ = inner.var;
  }

  LoopAffine InLoops(const IntAffine& affine) const {
    LoopAffine out;
    out.base = affine.constant;
    for (const BlockLoop& loop : kernel_.loops) {
      out.coefficients.push_back(loop.var < 0 ? 0 : affine.Coefficient(loop.var));
    }
    return out;
  }

  // --- Byte code, in virtual registers.

  struct Register {
    int id = -1;
    bool uniform = true;
  };

  Register NewRegister(bool uniform) { return {kernel_.registers++, uniform}; }

  Register Constant(double value) {
    for (const auto& [reg, number] : kernel_.constants) {
      if (number == value && std::signbit(number) == std::signbit(value)) return {reg, true};
    }
    const Register reg = NewRegister(true);
    kernel_.constants.emplace_back(reg.id, value);
    return reg;
  }

  bool IsConstant(int reg) const {
    return std::any_of(kernel_.constants.begin(), kernel_.constants.end(),
                       [reg](const auto& entry) { return entry.first == reg; });
  }

  // All lanes of a uniform register (constants have them already).
  int Lanes(Register reg) {
    if (!reg.uniform || IsConstant(reg.id)) return reg.id;
    const auto it = broadcast_.find(reg.id);
    if (it != broadcast_.end()) return it->second;
    BlockInstruction instruction;
    instruction.kind = BlockInstruction::Kind::kBroadcast;
    instruction.a = reg.id;
    instruction.dst = NewRegister(false).id;
    kernel_.code.push_back(instruction);
    broadcast_.emplace(reg.id, instruction.dst);
    return instruction.dst;
  }

  Register Op(NestOp op, const std::vector<Register>& args) {
    bool uniform = true;
    for (const Register& arg : args) uniform = uniform && arg.uniform;
    std::vector<int> ids;
    for (const Register& arg : args) ids.push_back(uniform ? arg.id : Lanes(arg));
    BlockInstruction instruction;
    instruction.op = op;
    instruction.uniform = uniform;
    if (op == NestOp::kUniform) {
      instruction.table = static_cast<int>(kernel_.lists.size());
      kernel_.lists.push_back(ids);
    } else {
      instruction.a = ids[0];
      if (ids.size() > 1) instruction.b = ids[1];
      if (ids.size() > 2) instruction.c = ids[2];
    }
    const Register out = NewRegister(uniform);
    instruction.dst = out.id;
    kernel_.code.push_back(instruction);
    return out;
  }

  // Has a read without `else` that may be out of range: its value depends on where it is needed.
  bool Unsafe(int id) {
    const auto memo = unsafe_.find(id);
    if (memo != unsafe_.end()) return memo->second;
    const NestNode& node = Node(id);
    bool unsafe = false;
    if (node.op == NestOp::kRead && !node.has_else) {
      std::vector<size_t> checked, gathered;
      Flat(node.tensor, node.args, checked, gathered);
      unsafe = !checked.empty() || !gathered.empty();
    }
    for (int arg : node.args) unsafe = Unsafe(arg) || unsafe;
    unsafe_.emplace(id, unsafe);
    return unsafe;
  }

  Register Value(int id, Register mask) {
    const std::pair<int, int> key(id, Unsafe(id) ? mask.id : -1);
    const auto memo = values_.find(key);
    if (memo != values_.end()) return memo->second;
    const Register reg = Build(id, mask);
    values_.emplace(key, reg);
    return reg;
  }

  Register And(Register a, Register b) { return a.id < 0 ? b : Op(NestOp::kAnd, {a, b}); }

  Register Build(int id, Register mask) {
    const NestNode& node = Node(id);
    switch (node.op) {
      case NestOp::kConst:
        return Constant(node.number);
      case NestOp::kAffine: {
        if (node.affine.terms.empty()) return Constant(static_cast<double>(node.affine.constant));
        BlockInstruction instruction;
        instruction.kind = BlockInstruction::Kind::kIota;
        instruction.table = static_cast<int>(kernel_.affines.size());
        kernel_.affines.push_back(InLoops(node.affine));
        const Register out = NewRegister(kernel_.affines.back().coefficients.back() == 0);
        instruction.uniform = out.uniform;
        instruction.dst = out.id;
        kernel_.code.push_back(instruction);
        return out;
      }
      case NestOp::kRead:
        return Load(node, mask);
      case NestOp::kInRange:
        return Op(NestOp::kInRange, {Value(node.args[0], mask), Constant(node.number)});
      case NestOp::kSelect: {
        const Register condition = Value(node.args[0], mask);
        Register then_mask = mask, else_mask = mask;
        if (Unsafe(node.args[1])) then_mask = And(mask, condition);
        if (Unsafe(node.args[2])) else_mask = And(mask, Op(NestOp::kNot, {condition}));
        const Register then = Value(node.args[1], then_mask);
        const Register otherwise = Value(node.args[2], else_mask);
        return Op(NestOp::kSelect, {condition, then, otherwise});
      }
      default: {
        std::vector<Register> args;
        for (int arg : node.args) args.push_back(Value(arg, mask));
        return Op(node.op, args);
      }
    }
  }

  // Fills the dims of an access; true if it is the same in the whole innermost loop. `indices`: the
  // registers of gathered dims.
  bool Dims(int tensor, const std::vector<int>& index, Register mask, BlockAccess& access,
            std::vector<Register>& indices) {
    std::vector<size_t> checked, gathered;
    access.tensor = tensor;
    access.offset = InLoops(Flat(tensor, index, checked, gathered));
    bool uniform = access.offset.coefficients.back() == 0;
    for (size_t d : checked) {
      IntAffine affine;
      IsAffine(index[d], affine);
      access.checked.push_back({InLoops(affine), Tensor(tensor).dims[d]});
      uniform = uniform && access.checked.back().index.coefficients.back() == 0;
    }
    for (size_t d : gathered) {
      indices.push_back(Value(index[d], mask));
      access.gathered.push_back({-1, Tensor(tensor).strides[d], Tensor(tensor).dims[d]});
      uniform = uniform && indices.back().uniform;
    }
    return uniform;
  }

  Register Load(const NestNode& node, Register mask) {
    const std::vector<int> index(node.args.begin(),
                                 node.args.begin() + static_cast<int64_t>(Indices(node)));
    BlockAccess access;
    std::vector<Register> indices;
    bool uniform = Dims(node.tensor, index, mask, access, indices);
    const bool may_miss = !access.checked.empty() || !access.gathered.empty();
    access.lenient = stage_.lenient;
    Register otherwise, when;
    if (may_miss && node.has_else) otherwise = Value(node.args.back(), mask);
    if (may_miss && !node.has_else) when = mask;
    uniform = uniform && otherwise.uniform && when.uniform;  // an unused register is uniform
    const auto lanes = [&](Register reg) { return reg.id < 0 || uniform ? reg.id : Lanes(reg); };
    access.otherwise = lanes(otherwise);
    access.mask = lanes(when);
    for (size_t i = 0; i < indices.size(); ++i) access.gathered[i].reg = lanes(indices[i]);
    BlockInstruction instruction;
    instruction.kind = BlockInstruction::Kind::kLoad;
    instruction.uniform = uniform;
    instruction.table = static_cast<int>(kernel_.accesses.size());
    kernel_.accesses.push_back(std::move(access));
    const Register out = NewRegister(uniform);
    instruction.dst = out.id;
    kernel_.code.push_back(instruction);
    return out;
  }

  void Emit() {
    Register guard;
    for (int id : stage_.guards) guard = And(guard, Value(id, guard));
    const bool has_reduce_loop = !stage_.reduce_vars.empty();
    const bool accumulates = has_reduce_loop || stage_.scatter;
    if (accumulates || stage_.reduction == NestReduction::kArgMax)
      kernel_.reduction = stage_.reduction;
    if (guard.id >= 0 && guard.uniform && accumulates) {
      BlockInstruction skip;
      skip.kind = BlockInstruction::Kind::kSkip;
      skip.a = guard.id;
      kernel_.code.push_back(skip);
    }
    Register value;
    for (int id : stage_.factors) {
      const Register factor = Value(id, guard);
      value = value.id < 0 ? factor : Op(NestOp::kMul, {value, factor});
    }
    for (int id : stage_.divisors) value = Op(NestOp::kDiv, {value, Value(id, guard)});
    if (guard.id >= 0) {
      value = Op(NestOp::kSelect, {guard, value, Constant(Identity(stage_.reduction))});
    }
    if (stage_.position >= 0) kernel_.position = Lanes(Value(stage_.position, guard));
    std::vector<Register> indices;
    Dims(stage_.target, stage_.index, guard, kernel_.out, indices);
    kernel_.out.checked.clear();  // guards say so
    for (size_t i = 0; i < indices.size(); ++i) kernel_.out.gathered[i].reg = Lanes(indices[i]);
    if (stage_.scatter && guard.id >= 0) kernel_.store_mask = Lanes(guard);
    kernel_.value = Lanes(value);
  }

  // --- Registers: virtual ones are packed by last use.

  static void ForEachUse(const BlockKernel& kernel, const BlockInstruction& instruction,
                         const auto& use) {
    for (int reg : {instruction.a, instruction.b, instruction.c}) {
      if (reg >= 0) use(reg);
    }
    if (instruction.kind == BlockInstruction::Kind::kOp && instruction.table >= 0) {
      for (int reg : kernel.lists[static_cast<size_t>(instruction.table)]) use(reg);
    }
    if (instruction.kind != BlockInstruction::Kind::kLoad) return;
    const BlockAccess& access = kernel.accesses[static_cast<size_t>(instruction.table)];
    for (const BlockAccess::Gathered& gathered : access.gathered) use(gathered.reg);
    if (access.otherwise >= 0) use(access.otherwise);
    if (access.mask >= 0) use(access.mask);
  }

  void AllocateRegisters() {
    const size_t count = static_cast<size_t>(kernel_.registers);
    std::vector<size_t> last(count, 0);
    for (size_t i = 0; i < kernel_.code.size(); ++i) {
      ForEachUse(kernel_, kernel_.code[i], [&](int reg) { last[static_cast<size_t>(reg)] = i; });
    }
    const size_t never = kernel_.code.size() + 1;
    for (const auto& [reg, number] : kernel_.constants) last[static_cast<size_t>(reg)] = never;
    for (int reg : {kernel_.value, kernel_.position, kernel_.store_mask}) {
      if (reg >= 0) last[static_cast<size_t>(reg)] = never;
    }
    for (const BlockAccess::Gathered& gathered : kernel_.out.gathered) {
      last[static_cast<size_t>(gathered.reg)] = never;
    }
    std::vector<int> physical(count, -1);
    std::vector<int> free;
    int next = 0;
    for (const auto& [reg, number] : kernel_.constants) physical[static_cast<size_t>(reg)] = next++;
    for (size_t i = 0; i < kernel_.code.size(); ++i) {
      // Operands end before the result begins: in place is fine, lanes are independent.
      std::set<int> ended;
      ForEachUse(kernel_, kernel_.code[i], [&](int reg) {
        if (last[static_cast<size_t>(reg)] == i &&
            kernel_.code[i].kind == BlockInstruction::Kind::kOp &&
            kernel_.code[i].op != NestOp::kUniform) {
          ended.insert(physical[static_cast<size_t>(reg)]);
        }
      });
      std::set<int> ended_after;
      ForEachUse(kernel_, kernel_.code[i], [&](int reg) {
        if (last[static_cast<size_t>(reg)] == i)
          ended_after.insert(physical[static_cast<size_t>(reg)]);
      });
      free.insert(free.end(), ended.begin(), ended.end());
      const int dst = kernel_.code[i].dst;
      if (dst >= 0) {
        int chosen = next;
        if (free.empty()) {
          ++next;
        } else {
          chosen = free.back();
          free.pop_back();
        }
        physical[static_cast<size_t>(dst)] = chosen;
      }
      for (int reg : ended_after) {
        if (ended.count(reg) == 0) free.push_back(reg);
      }
    }
    Rename(physical);
    kernel_.registers = next;
  }

  void Rename(const std::vector<int>& physical) {
    const auto rename = [&](int& reg) {
      if (reg >= 0) reg = physical[static_cast<size_t>(reg)];
    };
    for (BlockInstruction& instruction : kernel_.code) {
      rename(instruction.dst);
      rename(instruction.a);
      rename(instruction.b);
      rename(instruction.c);
    }
    for (std::vector<int>& list : kernel_.lists) {
      for (int& reg : list) rename(reg);
    }
    for (BlockAccess& access : kernel_.accesses) {
      for (BlockAccess::Gathered& gathered : access.gathered) rename(gathered.reg);
      rename(access.otherwise);
      rename(access.mask);
    }
    for (auto& [reg, number] : kernel_.constants) rename(reg);
    for (BlockAccess::Gathered& gathered : kernel_.out.gathered) rename(gathered.reg);
    rename(kernel_.value);
    rename(kernel_.position);
    rename(kernel_.store_mask);
  }

  const NestStages& stages_;
  const NestStage& stage_;
  const BlockOptions& options_;
  BlockKernel kernel_;
  size_t outer_loops_ = 0;
  int inner_var_ = -1;
  std::vector<IntAffine> usages_;   // everything that a merged loop must step through
  std::vector<IntAffine> strided_;  // offsets into tensors
  std::map<int, int> broadcast_;
  std::map<std::pair<int, int>, Register> values_;
  std::map<int, bool> unsafe_;
};

}  // namespace

BlockKernel CompileBlockKernel(const NestStages& stages, const NestStage& stage,
                               const BlockOptions& options) {
  return Compiler(stages, stage, options).Run();
}

}  // namespace tandem
