#include "pcg/kernel/contraction.h"

#include <algorithm>
#include <set>
#include <utility>

namespace tandem {
namespace {

constexpr int64_t kPieceElements = 1 << 20;  // of a side that is written out
constexpr int64_t kFewestProducts = 512;

class ContractionCompiler {
 public:
  ContractionCompiler(const NestStages& stages, const NestStage& stage)
      : stages_(stages), stage_(stage) {}

  std::optional<ContractionKernel> Run() {
    if (!Applies() || !ChooseGroups()) return std::nullopt;
    std::vector<int> batch, m, n;
    for (int var : stage_.free_vars) {
      const bool left = vars_[0].count(var) != 0, right = vars_[1].count(var) != 0;
      (left == right ? batch : left ? m : n).push_back(var);
    }
    std::vector<int> k = stage_.reduce_vars;
    kernel_.m = Elements(m);
    kernel_.n = Elements(n);
    kernel_.k = Elements(k);
    if (kernel_.m < 2 || kernel_.n < 2 || kernel_.k < 2 ||
        kernel_.m * kernel_.n * kernel_.k < kFewestProducts) {
      return std::nullopt;
    }
    Output(batch, m, n);
    kernel_.lhs = Side(0, batch, m, k);
    kernel_.rhs = Side(1, batch, n, k);
    return std::move(kernel_);
  }

 private:
  int64_t Extent(int var) const { return stages_.extents[static_cast<size_t>(var)]; }
  int64_t Elements(const std::vector<int>& vars) const {
    int64_t product = 1;
    for (int var : vars) product *= Extent(var);
    return product;
  }

  bool Applies() const {
    if (stage_.reduction != NestReduction::kSum || stage_.reduce_vars.empty() || stage_.scatter ||
        !stage_.divisors.empty() || stage_.factors.size() < 2) {
      return false;
    }
    return std::all_of(stage_.index.begin(), stage_.index.end(), [&](int index) {
      return stage_.nodes[static_cast<size_t>(index)].op == NestOp::kAffine;
    });
  }

  // The two factors with the most elements lead; the others go where no variable is added.
  bool ChooseGroups() {
    std::vector<std::pair<int, std::set<int>>> factors;
    for (int factor : stage_.factors) factors.emplace_back(factor, VarsOf(stage_, factor));
    const auto elements = [&](const std::set<int>& vars) {
      return Elements({vars.begin(), vars.end()});
    };
    std::stable_sort(factors.begin(), factors.end(), [&](const auto& a, const auto& b) {
      return elements(a.second) > elements(b.second);
    });
    for (size_t side = 0; side < 2; ++side) {
      groups_[side] = {factors[side].first};
      vars_[side] = factors[side].second;
    }
    for (size_t i = 2; i < factors.size(); ++i) {
      const size_t side = Fits(factors[i].second, 1) ? 1 : 0;
      if (!Fits(factors[i].second, side)) return false;
      groups_[side].push_back(factors[i].first);
    }
    for (int guard : stage_.guards) {
      const std::set<int> vars = VarsOf(stage_, guard);
      // In both sides, if it can: either may read out of range where it fails.
      if (!Fits(vars, 0) && !Fits(vars, 1)) return false;
      for (size_t side = 0; side < 2; ++side) {
        if (Fits(vars, side)) guards_[side].push_back(guard);
      }
    }
    return true;
  }

  bool Fits(const std::set<int>& vars, size_t side) const {
    return std::includes(vars_[side].begin(), vars_[side].end(), vars.begin(), vars.end());
  }

  const NestNode& Node(int id) const { return stage_.nodes[static_cast<size_t>(id)]; }

  // Row-major offsets of all values of `vars` under an affine offset.
  std::vector<int64_t> Offsets(const std::vector<int>& vars, const IntAffine& affine) const {
    std::vector<int64_t> out = {0};
    for (int var : vars) {
      const int64_t step = affine.Coefficient(var);
      std::vector<int64_t> next;
      next.reserve(out.size() * static_cast<size_t>(Extent(var)));
      for (int64_t base : out) {
        for (int64_t i = 0; i < Extent(var); ++i) next.push_back(base + i * step);
      }
      out = std::move(next);
    }
    return out;
  }

  void Output(const std::vector<int>& batch, const std::vector<int>& m, const std::vector<int>& n) {
    IntAffine flat;
    const NestTensor& target = stages_.tensors[static_cast<size_t>(stage_.target)];
    for (size_t d = 0; d < stage_.index.size(); ++d) {
      flat = Sum(flat, Node(stage_.index[d]).affine, target.strides[d]);
    }
    kernel_.target = stage_.target;
    kernel_.out_base = flat.constant;
    for (int var : batch) {
      kernel_.batch_extents.push_back(Extent(var));
      kernel_.out_batch_steps.push_back(flat.Coefficient(var));
    }
    kernel_.out_m = Offsets(m, flat);
    kernel_.out_n = Offsets(n, flat);
  }

  // The flat offset of a group that is one read which is never out of range.
  bool PlainRead(size_t side, int& tensor, IntAffine& flat) const {
    if (groups_[side].size() != 1 || !guards_[side].empty()) return false;
    const NestNode& node = Node(groups_[side][0]);
    if (node.op != NestOp::kRead) return false;
    tensor = node.tensor;
    const NestTensor& read = stages_.tensors[static_cast<size_t>(tensor)];
    for (size_t d = 0; d < read.dims.size(); ++d) {
      const NestNode& index = Node(node.args[d]);
      IntAffine affine = index.affine;
      if (index.op == NestOp::kConst) affine.constant = static_cast<int64_t>(index.number);
      if (index.op != NestOp::kAffine && index.op != NestOp::kConst) return false;
      const auto [low, high] = RangeOf(affine, stages_.extents);
      if (low < 0 || high >= read.dims[d]) return false;
      flat = Sum(flat, affine, read.strides[d]);
    }
    return true;
  }

  ContractionSide Side(size_t side, const std::vector<int>& batch, const std::vector<int>& rows,
                       const std::vector<int>& k) const {
    ContractionSide out;
    out.vars = rows;
    IntAffine flat;
    const int64_t first = Extent(rows[0]);
    out.chunk = first;
    if (!PlainRead(side, out.tensor, flat)) {
      out.tensor = -1;
      // Written out densely: [first row variable's piece, other rows, k], the batch outside.
      std::vector<int> order = rows;
      order.insert(order.end(), k.begin(), k.end());
      int64_t stride = 1;
      flat = {};
      for (size_t i = order.size(); i-- > 0;) {
        IntAffine term;
        term.terms = {{order[i], stride}};
        flat = Sum(flat, term, 1);
        stride *= Extent(order[i]);
      }
      out.chunk =
          std::clamp<int64_t>(kPieceElements / std::max<int64_t>(stride / first, 1), 1, first);
      out.fill = Fill(side, batch, order, flat);
    }
    out.base = flat.constant;
    for (int var : batch) out.batch_steps.push_back(flat.Coefficient(var));
    out.rows = Offsets(rows, flat);
    out.depth = Offsets(k, flat);
    return out;
  }

  BlockKernel Fill(size_t side, const std::vector<int>& batch, const std::vector<int>& order,
                   const IntAffine& flat) const {
    NestStage fill = stage_;
    fill.reduction = NestReduction::kSum;  // what a failing guard gives
    fill.reduce_vars.clear();
    fill.free_vars = batch;
    fill.free_vars.insert(fill.free_vars.end(), order.begin(), order.end());
    fill.guards = guards_[side];
    fill.factors = groups_[side];
    fill.divisors.clear();
    fill.index.clear();
    // The piece is one flat dim; RunContraction points the target at a buffer.
    BlockOptions options;
    options.outer_vars = batch;
    options.outer_vars.push_back(order[0]);
    NestNode node;
    node.op = NestOp::kAffine;
    node.affine = flat;
    fill.nodes.push_back(node);
    fill.index = {static_cast<int>(fill.nodes.size()) - 1};
    NestStages around = stages_;
    NestTensor buffer;
    buffer.name = "a piece of a product";
    buffer.dims = {RangeOf(flat, stages_.extents).second + 1};
    buffer.strides = {1};
    around.stages.clear();
    around.tensors.push_back(buffer);
    fill.target = static_cast<int>(around.tensors.size()) - 1;
    return CompileBlockKernel(around, fill, options);
  }

  const NestStages& stages_;
  const NestStage& stage_;
  ContractionKernel kernel_;
  std::vector<int> groups_[2], guards_[2];
  std::set<int> vars_[2];
};

}  // namespace

std::optional<ContractionKernel> CompileContraction(const NestStages& stages,
                                                    const NestStage& stage) {
  return ContractionCompiler(stages, stage).Run();
}

namespace {

// A side's elements for one batch element and one range of its first row variable.
template <typename T>
class SideReader {
 public:
  SideReader(const ContractionSide& side, const NestStages& stages, const std::vector<T*>& arrays,
             int64_t rows, int64_t depth)
      : side_(side), stages_(stages), arrays_(arrays) {
    rows_per_value_ = rows / static_cast<int64_t>(FirstExtent());
    if (side_.fill.has_value()) {
      buffer_.resize(static_cast<size_t>(side_.chunk * rows_per_value_ * depth));
    }
  }

  int64_t FirstExtent() const { return stages_.extents[static_cast<size_t>(side_.vars[0])]; }
  int64_t rows_per_value() const { return rows_per_value_; }

  // Pointer to which rows[first..] and depth offsets are relative.
  absl::Status Prepare(const std::vector<int64_t>& batch, int64_t begin, int64_t end,
                       const T** data) {
    if (!side_.fill.has_value()) {
      int64_t offset = side_.base;
      for (size_t b = 0; b < batch.size(); ++b) offset += side_.batch_steps[b] * batch[b];
      *data = arrays_[static_cast<size_t>(side_.tensor)] + offset;
      return absl::OkStatus();
    }
    std::vector<OuterRange> outer;
    for (int64_t b : batch) outer.push_back({b, b + 1});
    outer.push_back({begin, end});
    // The kernel writes at the offsets of the whole: shift them to the piece's.
    const int64_t shift = side_.rows[static_cast<size_t>(begin * rows_per_value_)];
    std::vector<T*> arrays = arrays_;
    arrays.push_back(buffer_.data() - shift);
    absl::Status status = RunBlockKernel<T>(*side_.fill, stages_, arrays, outer);
    *data = buffer_.data() - shift;
    return status;
  }

 private:
  const ContractionSide& side_;
  const NestStages& stages_;
  const std::vector<T*>& arrays_;
  int64_t rows_per_value_ = 1;
  std::vector<T> buffer_;
};

}  // namespace

template <typename T>
absl::Status RunContraction(const ContractionKernel& kernel, const NestStages& stages,
                            const std::vector<T*>& arrays) {
  SideReader<T> lhs(kernel.lhs, stages, arrays, kernel.m, kernel.k);
  SideReader<T> rhs(kernel.rhs, stages, arrays, kernel.n, kernel.k);
  std::vector<int64_t> batch(kernel.batch_extents.size(), 0);
  MatrixProduct<T> product;
  product.k = kernel.k;
  product.a_depth = kernel.lhs.depth.data();
  product.b_depth = kernel.rhs.depth.data();
  for (;;) {
    int64_t out = kernel.out_base;
    for (size_t b = 0; b < batch.size(); ++b) out += kernel.out_batch_steps[b] * batch[b];
    product.out = arrays[static_cast<size_t>(kernel.target)] + out;
    for (int64_t n = 0; n < rhs.FirstExtent(); n += kernel.rhs.chunk) {
      const int64_t n_end = std::min(n + kernel.rhs.chunk, rhs.FirstExtent());
      absl::Status status = rhs.Prepare(batch, n, n_end, &product.b);
      if (!status.ok()) return status;
      const int64_t n_row = n * rhs.rows_per_value();
      product.n = (n_end - n) * rhs.rows_per_value();
      product.b_rows = kernel.rhs.rows.data() + n_row;
      product.out_cols = kernel.out_n.data() + n_row;
      for (int64_t m = 0; m < lhs.FirstExtent(); m += kernel.lhs.chunk) {
        const int64_t m_end = std::min(m + kernel.lhs.chunk, lhs.FirstExtent());
        status = lhs.Prepare(batch, m, m_end, &product.a);
        if (!status.ok()) return status;
        const int64_t m_row = m * lhs.rows_per_value();
        product.m = (m_end - m) * lhs.rows_per_value();
        product.a_rows = kernel.lhs.rows.data() + m_row;
        product.out_rows = kernel.out_m.data() + m_row;
        Multiply(product);
      }
    }
    size_t level = batch.size();
    while (level > 0 && ++batch[level - 1] == kernel.batch_extents[level - 1]) batch[--level] = 0;
    if (level == 0) return absl::OkStatus();
  }
}

template absl::Status RunContraction<double>(const ContractionKernel&, const NestStages&,
                                             const std::vector<double*>&);
template absl::Status RunContraction<float>(const ContractionKernel&, const NestStages&,
                                            const std::vector<float*>&);

}  // namespace tandem
