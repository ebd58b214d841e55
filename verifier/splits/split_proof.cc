#include "verifier/splits/split_proof.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "verifier/certificates/statement.h"
#include "verifier/prover/match.h"
#include "verifier/prover/unfold.h"
#include "verifier/splits/split_refuter.h"

namespace tandem {
namespace {

using prover::Algebra;
using prover::Atom;
using prover::Guard;
using prover::LimitExceeded;
using prover::Matcher;
using prover::OpenBranch;
using prover::Poly;
using prover::Rational;
using prover::SizeBinding;
using prover::Solver;
using prover::Store;
using prover::TensorIndex;
using prover::Unfolder;
using prover::Value;

std::string ToString(const AxisPlacement& p) {
  switch (p.kind) {
    case AxisPlacement::Kind::kReplicated:
      return "replicated";
    case AxisPlacement::Kind::kSplit:
      return absl::StrCat("split(", p.dim, ".", p.factor, ")");
    case AxisPlacement::Kind::kPartial:
      return p.combiner == Combiner::kSum   ? "partial(sum)"
             : p.combiner == Combiner::kMax ? "partial(max)"
                                            : "partial(min)";
  }
  return "?";
}

// One row, sizes symbolic (or, `own_extents`, the instance's numbers for sizes not split).
class SplitProof {
 public:
  SplitProof(const OpInstance& op, const SplitRow& row, bool own_extents)
      : op_(op),
        row_(row),
        own_extents_(own_extents),
        algebra_(store_),
        solver_(algebra_),
        matcher_(algebra_, solver_) {}

  // Empty if proved, else why not.
  std::string Run() {
    degree_ = store_.Of(store_.Size("#degree"));
    device_ = store_.Fresh("device", degree_);
    BindSizes();
    if (!solver_.AssumptionsSatisfiable()) {
      return "the conditions on sizes are not shown satisfiable";
    }
    AddTensors();
    Unfolder whole(
        algebra_, solver_, op_, whole_,
        [this](int t, const TensorIndex& i, Guard c) { return Whole(t, i, c); }, store_.True());
    Unfolder piece(
        algebra_, solver_, op_, piece_,
        [this](int t, const TensorIndex& i, Guard c) { return Piece(t, i, c); },
        algebra_.Ranges({device_}));
    std::string why;
    for (int k = 0; k < op_.num_outputs && why.empty(); ++k) why = Compare(k, whole, piece);
    if (!why.empty()) return why;
    for (const Unfolder* u : {&whole, &piece}) {
      if (!u->out_of_range().empty()) return u->out_of_range()[0];
    }
    for (Poly extent : algebra_.unproved_extents()) {
      if (!solver_.Implied(store_.True(), store_.Ge(store_.Sub(extent, store_.Const(1))))) {
        return "a range of " + store_.ToString(extent) + " elements may be empty";
      }
    }
    return "";
  }

  Certificate MakeCertificate() const {
    Certificate c;
    c.subject = SplitStatement(op_, row_);
    for (const std::string& f : algebra_.facts()) c.facts.push_back(f);
    if (own_extents_) {
      std::string sizes;
      for (size_t i = 0; i < op_.sizes.size(); ++i) {
        absl::StrAppend(&sizes, " ", op_.sizes[i].name, "=", op_.sizes[i].extent);
      }
      c.assumptions.push_back("sizes" + sizes);
    }
    for (Guard g : solver_.assumptions()) c.assumptions.push_back(store_.ToString(g));
    c.queries = solver_.stats().queries;
    Seal(c);
    return c;
  }

 private:
  void BindSizes() {
    std::set<std::string> names;
    Poly zero = store_.Const(0);
    for (size_t i = 0; i < op_.sizes.size(); ++i) {
      const SizeVar& size = op_.sizes[i];
      bool split = static_cast<int>(i) == row_.size;
      std::string name = size.name;
      while (!names.insert(name).second) name += "'";
      if (split) {
        Poly m = store_.Of(store_.Size(name + "/P"));
        Poly n = store_.Mul(degree_, m);
        Poly base = row_.needs_offset ? store_.Mul(store_.Of(device_), m) : zero;
        whole_.push_back({{degree_, m}, n, zero});
        piece_.push_back({{m}, n, base});
        if (own_extents_) solver_.Assume(store_.Eq(store_.Sub(n, store_.Const(size.extent))));
        continue;
      }
      Poly n =
          size.constant || own_extents_ ? store_.Const(size.extent) : store_.Of(store_.Size(name));
      whole_.push_back({{n}, n, zero});
      piece_.push_back({{n}, n, zero});
    }
    // The operator exists only where its defined sizes are what their formulas say. A formula that
    // is plainly a size replaces it; any other becomes a condition.
    for (size_t i = 0; i < op_.sizes.size(); ++i) {
      const SizeVar& size = op_.sizes[i];
      if (!size.definition.valid() || size.constant || own_extents_) continue;
      Unfolder unfolder(algebra_, solver_, op_, whole_, nullptr, store_.True());
      Poly formula = unfolder.Formula(size.definition);
      if (static_cast<int>(i) != row_.size && store_.SizesAtLeast(formula, 1)) {
        whole_[i] = piece_[i] = {{formula}, formula, zero};
      } else if (static_cast<int>(i) == row_.size) {
        solver_.Assume(store_.Eq(store_.Sub(whole_[i].value, formula)));
      } else {
        solver_.Define(store_[whole_[i].value].terms[0].first[0], formula);
      }
    }
  }

  void AddTensors() {
    for (int t = 0; t < op_.num_inputs; ++t) {
      prover::TensorData data;
      data.name = op_.input(t).name;
      for (const auto& dim : op_.input(t).dims) {
        std::vector<Poly> digits;
        for (int size : dim) {
          const auto& d = whole_[static_cast<size_t>(size)].digits;
          digits.insert(digits.end(), d.begin(), d.end());
        }
        data.dims.push_back(std::move(digits));
      }
      if (In(t).kind == AxisPlacement::Kind::kPartial)
        data.dims.insert(data.dims.begin(), {degree_});
      tensors_.push_back(store_.AddTensor(std::move(data)));
    }
  }

  const AxisPlacement& In(int t) const { return row_.inputs[static_cast<size_t>(t)]; }

  // SUM (max, min) over the device coordinate of v.
  Value Combine(Combiner combiner, Atom device, Value v) {
    if (combiner == Combiner::kSum) return algebra_.Sum({device}, v);
    Rational sign(combiner == Combiner::kMax ? 1 : -1);
    OpenBranch branch{{device}, algebra_.Ranges({device}), algebra_.Scale(v, sign)};
    return algebra_.Scale(algebra_.Max({branch}), sign);
  }

  Value Whole(int t, const TensorIndex& index, Guard) {
    if (In(t).kind != AxisPlacement::Kind::kPartial) return Read(t, index);
    Atom q = store_.Fresh("q", degree_);
    TensorIndex at = index;
    at.insert(at.begin(), {store_.Of(q)});
    return Combine(In(t).combiner, q, Read(t, at));
  }

  Value Piece(int t, const TensorIndex& index, Guard context) {
    TensorIndex at = index;
    Poly p = store_.Of(device_);
    if (In(t).kind == AxisPlacement::Kind::kPartial) at.insert(at.begin(), {p});
    if (In(t).kind == AxisPlacement::Kind::kSplit) {
      auto d = static_cast<size_t>(In(t).dim);
      const auto& dim = op_.input(t).dims[d];
      std::vector<Poly> extents;
      for (int size : dim) {
        const auto& e = piece_[static_cast<size_t>(size)].digits;
        extents.insert(extents.end(), e.begin(), e.end());
      }
      if (at[d].size() != extents.size()) {
        at[d] = *Unflatten(store_, solver_, at[d][0], extents, context, /*divide=*/true);
      }
      at[d].insert(at[d].begin() + In(t).factor, p);
    }
    return Read(t, at);
  }

  Value Read(int t, const TensorIndex& index) {
    return algebra_.Read(tensors_[static_cast<size_t>(t)], index);
  }

  std::string Compare(int k, Unfolder& whole, Unfolder& piece) {
    const AxisPlacement& placement = row_.outputs[static_cast<size_t>(k)];
    bool split = placement.kind == AxisPlacement::Kind::kSplit;
    TensorIndex index, local;
    std::vector<Guard> ranges;
    auto extents = piece.Extents(op_.num_inputs + k);
    for (size_t d = 0; d < extents.size(); ++d) {
      local.emplace_back();
      for (Poly extent : extents[d]) {
        Atom o = store_.Fresh("o", extent);
        bool one = store_.Constant(extent) == 1;
        local[d].push_back(one ? store_.Const(0) : store_.Of(o));
        ranges.push_back(store_.InRange(local[d].back(), extent));
      }
      index.push_back(local[d]);
      if (split && placement.dim == static_cast<int>(d)) {
        index[d].insert(index[d].begin() + placement.factor, store_.Of(device_));
      }
    }
    bool partial = placement.kind == AxisPlacement::Kind::kPartial;
    if (!partial) ranges.push_back(algebra_.Ranges({device_}));
    Value expected = whole.Output(k, index);
    Value got = piece.Output(k, local);
    if (partial) got = Combine(placement.combiner, device_, got);
    if (matcher_.Equal(store_.And(ranges), expected, got)) return "";
    return op_.output(k).name + ": " + matcher_.why();
  }

  const OpInstance& op_;
  const SplitRow& row_;
  bool own_extents_;
  Store store_;
  Algebra algebra_;
  Solver solver_;
  Matcher matcher_;
  Poly degree_;
  Atom device_;
  std::vector<SizeBinding> whole_, piece_;
  std::vector<int> tensors_;
};

// The only place where the prover's exceptions are caught (on the side of splits).
struct Attempt {
  std::string why_not;  // empty: proved
  Certificate certificate;
};

Attempt TryToProve(const OpInstance& op, const SplitRow& row, bool own_extents) {
  try {
    SplitProof proof(op, row, own_extents);
    std::string why = proof.Run();
    if (!why.empty()) return {why, {}};
    return {"", proof.MakeCertificate()};
  } catch (const LimitExceeded& e) {
    return {e.what(), {}};
  }
}

}  // namespace

std::string SplitStatement(const OpInstance& op, const SplitRow& row) {
  std::string text = InstanceStatement(op);
  absl::StrAppend(&text, "split ");
  if (row.size >= 0 && row.size < static_cast<int>(op.sizes.size())) {
    absl::StrAppend(&text, op.sizes[static_cast<size_t>(row.size)].name);
  } else {
    absl::StrAppend(&text, "nothing");
  }
  absl::StrAppend(&text, row.needs_offset ? ", with offsets:" : ":");
  for (const AxisPlacement& p : row.inputs) absl::StrAppend(&text, " ", ToString(p));
  absl::StrAppend(&text, " ->");
  for (const AxisPlacement& p : row.outputs) absl::StrAppend(&text, " ", ToString(p));
  return text + "\n";
}

std::string RowName(const std::string& split_statement) {
  const size_t first = split_statement.find('\n');
  const size_t last = split_statement.rfind("\nsplit ");
  if (first == std::string::npos || last == std::string::npos) return split_statement;
  std::string op = split_statement.substr(0, first), row = split_statement.substr(last + 1);
  if (op.rfind("operator ", 0) == 0) op = op.substr(9);
  while (!row.empty() && row.back() == '\n') row.pop_back();
  return absl::StrCat(op, ": ", row);
}

Verdict ProveSplit(const OpInstance& op, const SplitRow& row) {
  if (auto mismatch = prover::ShapeMismatch(op, row)) {
    Counterexample e;
    for (const SizeVar& size : op.sizes) e.sizes.emplace_back(size.name, size.extent);
    e.degree = 2;
    e.what = *mismatch;
    return Refuted{std::move(e)};
  }
  Attempt attempt = TryToProve(op, row, /*own_extents=*/false);
  prover::RefuteOptions options;
  if (attempt.why_not.empty()) {
    // A prover that distrusts itself: a few numbers, also for what is proved.
    options.samples = 3;
    auto check = prover::RefuteSplit(op, row, options);
    if (check.counterexample) {
      return Unknown{"proved, but numbers disagree: " + ToString(*check.counterexample)};
    }
    return Proved{std::move(attempt.certificate)};
  }
  auto refutation = prover::RefuteSplit(op, row, options);
  if (refutation.counterexample) return Refuted{*refutation.counterexample};
  options.own_extents = true;
  refutation = prover::RefuteSplit(op, row, options);
  if (refutation.counterexample) return Refuted{*refutation.counterexample};
  Attempt numeric = TryToProve(op, row, /*own_extents=*/true);
  if (numeric.why_not.empty()) return Proved{std::move(numeric.certificate)};
  return Unknown{attempt.why_not};
}

const Verdict& SplitProver::Prove(const OpInstance& op, const SplitRow& row) {
  std::string key = SplitStatement(op, row);
  auto it = verdicts_.find(key);
  if (it == verdicts_.end()) {
    std::string own = key;
    for (const SizeVar& size : op.sizes) absl::StrAppend(&own, size.extent, ",");
    it = verdicts_.find(own);
    if (it != verdicts_.end()) return it->second;
    if (book_ != nullptr) {
      if (auto stored = book_->Find(key)) {
        return verdicts_.emplace(key, Proved{*std::move(stored)}).first->second;
      }
    }
    ++proofs_;
    Verdict verdict = ProveSplit(op, row);
    // What was proved for these extents only is remembered for these extents only.
    bool general = true;
    if (const auto* proved = std::get_if<Proved>(&verdict)) {
      for (const std::string& a : proved->certificate.assumptions) {
        general = general && a.rfind("sizes ", 0) != 0;
      }
    }
    if (IsUnknown(verdict)) general = false;
    it = verdicts_.emplace(general ? key : own, std::move(verdict)).first;
  }
  return it->second;
}

CertificateBook SplitProver::Certificates() const {
  CertificateBook book;
  for (const auto& [key, verdict] : verdicts_) {
    const auto* proved = std::get_if<Proved>(&verdict);
    if (proved == nullptr) continue;
    const Certificate& c = proved->certificate;
    book.Add(CertificateKind::kRow, RowName(c.subject), c);
  }
  return book;
}

}  // namespace tandem
