#include "pcg/autodiff/gradient_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "pcg/language/op_parser.h"
#include "pcg/language/scalar_functions.h"

namespace tandem {
namespace {

enum Precedence { kOr, kAnd, kNot, kCompare, kSum, kTerm, kUnary, kPrimary };

std::string NumberText(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 64> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return std::string(buffer.data(), result.ptr);
}

// Same bytes on every machine: FNV-1a.
std::string HashText(const std::string& text) {
  uint64_t hash = 14695981039346656037u;
  for (unsigned char c : text) hash = (hash ^ c) * 1099511628211u;
  return absl::StrFormat("%08x", static_cast<uint32_t>(hash ^ (hash >> 32)));
}

class Names {
 public:
  Names() {
    for (const char* word :
         {"sum", "max", "min", "prod", "argmax", "select", "else", "and", "or", "not", "nograd",
          "size", "regroup", "inf", "operator", "int", "bool"}) {
      taken_.insert(word);
    }
    for (const ScalarFunction& f : ScalarFunctions()) taken_.insert(std::string(f.name));
  }
  // `prefix` where the wish itself is taken.
  std::string Fresh(const std::string& wish, const char* prefix = "") {
    std::string name;
    for (char c : wish) name += absl::ascii_isalnum(static_cast<unsigned char>(c)) ? c : '_';
    if (name.empty() || absl::ascii_isdigit(static_cast<unsigned char>(name[0]))) name = "s" + name;
    if (taken_.count(name) != 0) name = prefix + name;
    std::string unique = name;
    for (int i = 2; !taken_.insert(unique).second; ++i) unique = absl::StrCat(name, "_", i);
    return unique;
  }

 private:
  std::set<std::string> taken_;
};

class Writer {
 public:
  Writer(const OpInstance& op, const AdjointProgram& program) : op_(op), p_(program) {}

  absl::StatusOr<GradientOp> Write(const std::vector<int>& wanted, const std::string& base) {
    CollectOperands();
    FindUnits();
    FindDetermined();
    NameTensors();
    GradientOp result;
    std::vector<std::string> outputs;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (p_.gradients[i] < 0) continue;
      result.gradient_of.push_back(wanted[i]);
      outputs.push_back(Operand(p_.gradients[i]));
    }
    std::vector<std::string> inputs, equations;
    for (int t : operands_) {
      inputs.push_back(Operand(t));
      result.inputs.push_back(SourceOf(t));
    }
    for (const auto& e : p_.equations) equations.push_back(Equation(e));
    std::string head = absl::StrJoin(inputs, ", ");
    if (!attributes_.empty()) {
      absl::StrAppend(&head, "; ",
                      absl::StrJoin(attributes_, ", ",
                                    [](std::string* out, const auto& a) { out->append(a.first); }));
    }
    const std::string tail = absl::StrCat("(", head, ") -> ", absl::StrJoin(outputs, ", "),
                                          " {\n  ", absl::StrJoin(equations, ";\n  "), "\n}\n");
    const std::string name = absl::StrCat(base, "_", HashText(tail));
    const std::string text = absl::StrCat("operator ", name, tail);
    auto specs = ParseOperators(text, absl::StrCat("gradient of ", op_.op));
    if (!specs.ok()) {
      return absl::InternalError(
          absl::StrCat("operator ", op_.op,
                       ": its gradient's text is wrong: ", specs.status().message(), "\n", text));
    }
    result.spec = std::move((*specs)[0]);
    result.attributes = attributes_;
    return result;
  }

 private:
  const SizeVar& SizeOf(int size) const { return op_.sizes[static_cast<size_t>(size)]; }
  const InstanceOperand& TensorOf(int t) const { return p_.tensors[static_cast<size_t>(t)]; }
  int SizeOfVar(int var) const { return p_.exprs.vars()[static_cast<size_t>(var)].size; }

  template <typename Visit>
  void Walk(ExprId id, const Visit& visit) const {
    const ExprNode& node = p_.exprs[id];
    visit(node);
    for (ExprId arg : node.args) Walk(arg, visit);
  }

  void CollectOperands() {
    std::set<int> read, written;
    for (const auto& e : p_.equations) {
      written.insert(e.target);
      Walk(e.body, [&](const ExprNode& n) {
        if (n.kind == ExprKind::kRead) read.insert(n.ref);
      });
    }
    for (int t : read) {
      if (written.count(t) == 0) operands_.push_back(t);
    }
  }

  GradientOp::Operand SourceOf(int t) const {
    using Source = GradientOp::Source;
    if (t < op_.num_inputs) return {Source::kInput, t};
    if (t < op_.num_inputs + op_.num_outputs) return {Source::kOutput, t - op_.num_inputs};
    const auto& given = p_.output_gradients;
    const auto at = std::find(given.begin(), given.end(), t);
    return {Source::kOutputGradient, static_cast<int>(at - given.begin())};
  }

  std::vector<int> Signature() const {
    std::vector<int> all = operands_;
    for (int t : p_.gradients) {
      if (t >= 0) all.push_back(t);
    }
    return all;
  }

  void FindUnits() {
    for (int t : Signature()) {
      for (const auto& dim : TensorOf(t).dims) {
        for (int size : dim) {
          if (dim.size() > 1 && SizeOf(size).extent == 1) unit_.insert(size);
        }
      }
    }
  }

  // The parts of a dim that are written.
  std::vector<int> Parts(const std::vector<int>& dim) const {
    std::vector<int> parts;
    for (int size : dim) {
      if (unit_.count(size) == 0) parts.push_back(size);
    }
    return parts;
  }

  bool IsLiteral(int size) const {
    if (SizeOf(size).extent == 1 && unit_.count(size) != 0) return true;
    return SizeOf(size).constant && known_.count(size) == 0;
  }

  void FindDetermined() {
    FollowOperands();
    // Of several unknown parts of a dim, attributes give the major ones; the last one follows.
    for (int t : operands_) {
      for (const auto& dim : TensorOf(t).dims) {
        for (int size : Parts(dim)) {
          if (known_.count(size) != 0 || NumberNamed(size)) continue;
          given_.insert(size);
          known_.insert(size);
          FollowOperands();
        }
      }
    }
  }

  // Sizes that are alone unknown in some dim of an operand.
  void FollowOperands() {
    for (bool changed = true; changed;) {
      changed = false;
      for (int t : operands_) {
        for (const auto& dim : TensorOf(t).dims) {
          std::vector<int> open;
          for (int size : Parts(dim)) {
            if (known_.count(size) == 0 && !NumberNamed(size)) open.push_back(size);
          }
          if (open.size() == 1) changed = known_.insert(open[0]).second || changed;
        }
      }
    }
  }

  // A dim that the text of the forward operator writes as a number.
  bool NumberNamed(int size) const {
    const SizeVar& s = SizeOf(size);
    return s.constant &&
           (s.name.empty() || absl::ascii_isdigit(static_cast<unsigned char>(s.name[0])));
  }

  void NameTensors() {
    for (const auto& e : p_.equations) Name(e.target);
    for (int t : operands_) Name(t);
    for (int t : p_.gradients) {
      if (t >= 0) Name(t);
    }
  }

  void Name(int t) {
    if (tensor_names_.count(t) == 0) tensor_names_[t] = names_.Fresh(TensorOf(t).name);
  }

  // An attribute of the forward operator, under its name if that is free.
  std::string Attribute(const std::string& name) {
    const auto it = attribute_names_.find(name);
    if (it != attribute_names_.end()) return it->second;
    const std::string own = names_.Fresh(name, "with_");
    attributes_[own] = op_.attributes.at(name);
    return attribute_names_[name] = own;
  }

  // The attribute that fixes a size (the extent of a pooling window).
  bool IsAttribute(int size) const {
    const auto it = op_.attributes.find(SizeOf(size).name);
    return SizeOf(size).constant && known_.count(size) == 0 && it != op_.attributes.end() &&
           it->second == AttrValue(SizeOf(size).extent);
  }

  // A size where a range or a dim is expected. Names are given, attributes declared, on first use.
  std::string Size(int size) {
    if (IsAttribute(size)) return Attribute(SizeOf(size).name);
    if (IsLiteral(size)) return absl::StrCat(SizeOf(size).extent);
    const auto it = size_names_.find(size);
    if (it != size_names_.end()) return it->second;
    const std::string name = names_.Fresh(SizeOf(size).name);
    if (known_.count(size) == 0 || given_.count(size) != 0) attributes_[name] = SizeOf(size).extent;
    return size_names_[size] = name;
  }

  std::string Operand(int t) {
    std::vector<std::string> dims;
    for (const auto& dim : TensorOf(t).dims) {
      std::vector<std::string> parts;
      for (int size : Parts(dim)) parts.push_back(Size(size));
      const std::string joined = absl::StrJoin(parts, ", ");
      dims.push_back(parts.empty()       ? "1"
                     : parts.size() == 1 ? joined
                                         : absl::StrCat("(", joined, ")"));
    }
    const ElementKind kind = TensorOf(t).kind;
    return absl::StrCat(tensor_names_.at(t), "[", absl::StrJoin(dims, ", "), "]",
                        kind == ElementKind::kInt    ? ": int"
                        : kind == ElementKind::kBool ? ": bool"
                                                     : "");
  }

  std::string Var(int var) {
    const auto it = var_names_.find(var);
    if (it != var_names_.end()) return it->second;
    return var_names_[var] = scope_.Fresh(p_.exprs.vars()[static_cast<size_t>(var)].name, "i");
  }

  std::string Equation(const AdjointProgram::Equation& e) {
    scope_ = names_;
    var_names_.clear();
    // Every size has its name before variables take theirs.
    for (int var : e.vars) Size(SizeOfVar(var));
    Walk(e.body, [&](const ExprNode& n) {
      if (n.kind == ExprKind::kSize) Size(n.ref);
      if (n.kind == ExprKind::kAttr) Attribute(n.name.substr(1));
      for (const BoundVar& b : n.bound) Size(SizeOfVar(b.var));
    });
    scope_ = names_;
    const bool gradient =
        std::find(p_.gradients.begin(), p_.gradients.end(), e.target) != p_.gradients.end();
    std::vector<std::string> index;
    size_t next = 0;
    for (const auto& dim : TensorOf(e.target).dims) {
      std::vector<std::string> parts;
      const std::string unused = Var(e.vars[next]);
      for (int size : dim) {
        const int var = e.vars[next++];
        if (gradient && unit_.count(size) != 0) continue;
        parts.push_back(Var(var));
        if (!gradient) absl::StrAppend(&parts.back(), ": ", Size(size));
      }
      if (parts.empty()) parts.push_back(unused);
      const std::string joined = absl::StrJoin(parts, ", ");
      index.push_back(gradient && parts.size() > 1 ? absl::StrCat("(", joined, ")") : joined);
    }
    return absl::StrCat(tensor_names_.at(e.target), "[", absl::StrJoin(index, ", "),
                        "] = ", Text(e.body, kOr));
  }

  std::string Text(ExprId id, Precedence required) {
    Precedence own = kPrimary;
    const std::string text = Bare(p_.exprs[id], own);
    return own < required ? absl::StrCat("(", text, ")") : text;
  }

  std::string Binary(const ExprNode& node, absl::string_view sign, Precedence own) {
    const auto right = static_cast<Precedence>(own + 1);
    return absl::StrCat(Text(node.args[0], own == kCompare ? right : own), " ", sign, " ",
                        Text(node.args[1], right));
  }

  std::string Bare(const ExprNode& node, Precedence& own) {
    const auto binary = [&](absl::string_view sign, Precedence precedence) {
      own = precedence;
      return Binary(node, sign, precedence);
    };
    const auto list = [&] {
      std::vector<std::string> parts;
      for (ExprId arg : node.args) parts.push_back(Text(arg, kOr));
      return absl::StrJoin(parts, ", ");
    };
    switch (node.kind) {
      case ExprKind::kNumber:
        if (std::signbit(node.number)) own = kSum;
        return NumberText(node.number);
      case ExprKind::kVar:
        return unit_.count(SizeOfVar(node.ref)) != 0 ? "0" : Var(node.ref);
      case ExprKind::kSize:
        return IsLiteral(node.ref) || IsAttribute(node.ref)
                   ? Size(node.ref)
                   : absl::StrCat("size(", Size(node.ref), ")");
      case ExprKind::kRead:
        return Read(node, own);
      case ExprKind::kAdd:
        return binary("+", kSum);
      case ExprKind::kSub:
        return binary("-", kSum);
      case ExprKind::kMul:
        return binary("*", kTerm);
      case ExprKind::kDiv:
        return binary("/", kTerm);
      case ExprKind::kFloorDiv:
        return binary("//", kTerm);
      case ExprKind::kMod:
        return binary("%", kTerm);
      case ExprKind::kCompare:
        return binary(node.name, kCompare);
      case ExprKind::kAnd:
        return binary("and", kAnd);
      case ExprKind::kOr:
        return binary("or", kOr);
      case ExprKind::kNot:
        own = kNot;
        return absl::StrCat("not ", Text(node.args[0], kNot));
      case ExprKind::kNeg:
        own = kSum;  // a * (-b)
        return absl::StrCat("-", Text(node.args[0], kUnary));
      case ExprKind::kCall:
        return absl::StrCat(node.name, "(", list(), ")");
      case ExprKind::kSelect:
        return absl::StrCat("select(", list(), ")");
      case ExprKind::kNoGrad:
        return Text(node.args[0], kOr);
      case ExprKind::kReduce: {
        std::vector<std::string> bound;
        for (const BoundVar& b : node.bound) {
          const int size = SizeOfVar(b.var);
          if (unit_.count(size) == 0) bound.push_back(absl::StrCat(Var(b.var), ": ", Size(size)));
        }
        if (bound.empty()) return Text(node.args[0], kPrimary);
        own = kOr;
        return absl::StrCat(node.name, "(", absl::StrJoin(bound, ", "), ") ",
                            Text(node.args[0], kTerm));
      }
      case ExprKind::kAttr:
        return Attribute(node.name.substr(1));  // symbolic_attribute.h writes "$name"
      case ExprKind::kTuple:
        break;
    }
    return "?";
  }

  std::string Read(const ExprNode& node, Precedence& own) {
    const auto& dims = TensorOf(node.ref).dims;
    std::vector<std::string> index;
    for (size_t d = 0; d < dims.size(); ++d) {
      const ExprNode& at = p_.exprs[node.args[d]];
      if (at.kind != ExprKind::kTuple) {
        index.push_back(Text(node.args[d], kOr));
        continue;
      }
      std::vector<std::string> parts;
      for (size_t f = 0; f < dims[d].size(); ++f) {
        if (unit_.count(dims[d][f]) == 0) parts.push_back(Text(at.args[f], kOr));
      }
      index.push_back(parts.empty()       ? "0"
                      : parts.size() == 1 ? parts[0]
                                          : absl::StrCat("(", absl::StrJoin(parts, ", "), ")"));
    }
    std::string text =
        absl::StrCat(tensor_names_.at(node.ref), "[", absl::StrJoin(index, ", "), "]");
    if (!node.has_else) return text;
    own = kOr;
    return absl::StrCat(text, " else ", Text(node.args.back(), kUnary));
  }

  const OpInstance& op_;
  const AdjointProgram& p_;
  std::vector<int> operands_;
  std::set<int> unit_;   // sizes of extent 1 inside tuple dims
  std::set<int> known_;  // sizes that the operands' shapes tell, with what is given_
  std::set<int> given_;  // parts of operands' dims that attributes tell
  std::map<int, std::string> tensor_names_, size_names_, var_names_;
  std::map<std::string, std::string> attribute_names_;  // forward -> own
  Names names_, scope_;                                 // of the operator; of one equation
  Attributes attributes_;
};

}  // namespace

absl::StatusOr<GradientOp> GradientOperator(const OpInstance& op, const AdjointProgram& program,
                                            const std::vector<int>& wanted,
                                            const std::string& base) {
  return Writer(op, program).Write(wanted, base);
}

}  // namespace tandem
