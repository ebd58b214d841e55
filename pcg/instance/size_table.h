// The sizes of an operator applied to shapes, while they are worked out. Internal to op_instance.
//
// A *base size* is what a name of the text stands for: a size, one dim of a group, a part of a
// tuple, a defined size, a constant. ResolveSizes (op_sizes.h) finds its extent, RefineFactors
// (op_factors.h) its factors.
#ifndef TANDEM_PCG_INSTANCE_SIZE_TABLE_H_
#define TANDEM_PCG_INSTANCE_SIZE_TABLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pcg/instance/op_instance.h"
#include "pcg/language/op_spec.h"

namespace tandem {

struct BaseSize {
  std::string name;
  int64_t extent = -1;     // -1 = not known (yet)
  bool constant = false;   // the text or an attribute fixes it
  ExprId definition;       // in the spec, when it depends on other sizes
  std::string known_from;  // "dim 1 of 'lhs'", for messages
  Factors factors;         // filled by RefineFactors
};

// One dim of one operand. `bases` are its parts, major to minor.
struct OperandDim {
  std::vector<int> bases;
  Factors given;       // factors the caller knows; {extent} for what is inferred
  bool unit = false;   // a broadcast dim of extent 1 under a larger size: read at 0
  bool linked = true;  // false: its factors contradict those of the size; it keeps them for itself
};

struct ResolvedOperand {
  bool present = true;
  // Per dim of the signature: the operand's dims it covers (a group covers any number).
  std::vector<std::vector<OperandDim>> dims;
  // Per dim of the signature: how many leading dims of a broadcast group are missing.
  std::vector<int> missing;
};

struct SizeTable {
  std::vector<BaseSize> bases;
  std::map<std::string, std::vector<int>, std::less<>> names;             // size or group -> bases
  std::map<std::string, std::vector<int64_t>, std::less<>> permutations;  // by attribute
  std::vector<ResolvedOperand> inputs;  // one a signature input, absent ones included
  std::vector<ResolvedOperand> outputs;
  std::map<std::string, ResolvedOperand, std::less<>> intermediates;
  Attributes attributes;  // effective ones: defaults filled in

  // Operand or intermediate by name; null if there is none (or an absent input).
  const ResolvedOperand* Operand(const OpSpec& spec, absl::string_view name) const;
  // The bases of a range of the text: a size, a group, an attribute or a number.
  absl::StatusOr<std::vector<int>> RangeBases(const OpSpec& spec, const std::string& range);
  // The base that a constant range ("3" or an attribute's name) stands for; made on first use.
  absl::StatusOr<int> ConstantBase(const OpSpec& spec, const std::string& range);
  absl::StatusOr<double> AttributeNumber(const OpSpec& spec, const std::string& name) const;
};

// An error of the operator: its name comes first.
absl::Status OpError(const OpSpec& spec, absl::string_view message);

}  // namespace tandem

#endif  // TANDEM_PCG_INSTANCE_SIZE_TABLE_H_
