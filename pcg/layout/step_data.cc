#include "pcg/layout/step_data.h"

#include <algorithm>
#include <limits>

namespace tandem {
namespace {

// A piece as a box: one interval a factor, factors of all dims in order.
struct Box {
  std::vector<int64_t> begin;
  std::vector<int64_t> extent;
};

Box PieceBox(const FactoredShape& shape, const Layout& layout, const Mesh& mesh,
             const std::vector<int64_t>& coords) {
  Box box;
  for (size_t d = 0; d < shape.size(); ++d) {
    for (size_t f = 0; f < shape[d].size(); ++f) {
      int64_t piece = 0;
      int64_t local = shape[d][f];
      for (int a : layout.SplitAxes(static_cast<int>(d), static_cast<int>(f))) {
        const int64_t degree = mesh.axes[static_cast<size_t>(a)].extent;
        piece = piece * degree + coords[static_cast<size_t>(a)];
        local /= degree;
      }
      box.begin.push_back(piece * local);
      box.extent.push_back(local);
    }
  }
  return box;
}

// The common part of two boxes, as positions in their row-major buffers. No extents if empty.
BlockCopy Overlap(const Box& source, const Box& target) {
  BlockCopy block;
  int64_t source_stride = 1;
  int64_t target_stride = 1;
  // Innermost first; reversed at the end.
  for (size_t i = source.begin.size(); i-- > 0;) {
    const int64_t begin = std::max(source.begin[i], target.begin[i]);
    const int64_t end =
        std::min(source.begin[i] + source.extent[i], target.begin[i] + target.extent[i]);
    if (end <= begin) return BlockCopy{0, 0, 0, {0}, {0}, {0}};
    block.source_offset += (begin - source.begin[i]) * source_stride;
    block.target_offset += (begin - target.begin[i]) * target_stride;
    const int64_t extent = end - begin;
    const bool merges = !block.extents.empty() &&
                        block.source_strides.back() * block.extents.back() == source_stride &&
                        block.target_strides.back() * block.extents.back() == target_stride;
    if (merges) {
      block.extents.back() *= extent;
    } else if (extent > 1) {
      block.extents.push_back(extent);
      block.source_strides.push_back(source_stride);
      block.target_strides.push_back(target_stride);
    }
    source_stride *= source.extent[i];
    target_stride *= target.extent[i];
  }
  std::reverse(block.extents.begin(), block.extents.end());
  std::reverse(block.source_strides.begin(), block.source_strides.end());
  std::reverse(block.target_strides.begin(), block.target_strides.end());
  return block;
}

bool Temporal(StepKind kind) {
  return kind == StepKind::kAccumulate || kind == StepKind::kStack || kind == StepKind::kUnstack;
}

}  // namespace

int64_t BlockCopy::Elements() const {
  int64_t elements = 1;
  for (int64_t e : extents) elements *= e;
  return elements;
}

bool Combines(StepKind kind) {
  return kind == StepKind::kAllReduce || kind == StepKind::kReduceScatter ||
         kind == StepKind::kAccumulate;
}

double Combine(Combiner combiner, double a, double b) {
  switch (combiner) {
    case Combiner::kSum:
      return a + b;
    case Combiner::kMax:
      return std::max(a, b);
    case Combiner::kMin:
      return std::min(a, b);
  }
  return a;
}

double Neutral(Combiner combiner) {
  switch (combiner) {
    case Combiner::kSum:
      return 0;
    case Combiner::kMax:
      return -std::numeric_limits<double>::infinity();
    case Combiner::kMin:
      return std::numeric_limits<double>::infinity();
  }
  return 0;
}

std::vector<BlockCopy> StepCopies(const FactoredShape& shape, const Mesh& mesh,
                                  const ReshardStep& step, const std::vector<int64_t>& coords) {
  const Box target = PieceBox(shape, step.after, mesh, coords);
  std::vector<BlockCopy> copies;
  const auto take = [&](int rank, const std::vector<int64_t>& from) {
    BlockCopy block = Overlap(PieceBox(shape, step.before, mesh, from), target);
    if (block.Elements() == 0) return;
    block.rank = rank;
    copies.push_back(std::move(block));
  };
  const bool own = step.kind == StepKind::kSlice || step.kind == StepKind::kKeepFirst;
  if (Temporal(step.kind) || own) {
    int rank = 0;
    if (own) {
      for (int a : step.axes) {
        rank = rank * static_cast<int>(mesh.axes[static_cast<size_t>(a)].extent) +
               static_cast<int>(coords[static_cast<size_t>(a)]);
      }
    }
    if (step.kind != StepKind::kKeepFirst || rank == 0) take(rank, coords);
    return copies;
  }
  int ranks = 1;
  for (int a : step.axes) ranks *= static_cast<int>(mesh.axes[static_cast<size_t>(a)].extent);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int64_t> from = coords;
    int rest = rank;
    for (size_t i = step.axes.size(); i-- > 0;) {
      const auto a = static_cast<size_t>(step.axes[i]);
      from[a] = rest % static_cast<int>(mesh.axes[a].extent);
      rest /= static_cast<int>(mesh.axes[a].extent);
    }
    take(rank, from);
  }
  return copies;
}

}  // namespace tandem
