#include "runtime/kernel.h"

#include <algorithm>
#include <set>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pcg/kernel/loop_nest.h"
#include "runtime/contraction_equation.h"
#include "runtime/contraction_hoist.h"
#include "runtime/conv_kernel.h"
#include "runtime/gemm_kernel.h"
#include "runtime/strided.h"

namespace tandem {
namespace {

size_t At(int index) { return static_cast<size_t>(index); }

// Local strides of tensors by (dim, factor).
class Strides {
 public:
  Strides(const OpInstance& op, const std::vector<int64_t>& extents) : op_(op), extents_(extents) {}

  int64_t Extent(int var) const { return extents_[At(op_.vars[At(var)].size)]; }
  int64_t Elements(int tensor) const {
    int64_t elements = 1;
    for (int size : Sizes(tensor)) elements *= extents_[At(size)];
    return elements;
  }
  int64_t OfPosition(int tensor, int position) const {
    const std::vector<int> sizes = Sizes(tensor);
    int64_t stride = 1;
    for (size_t p = At(position) + 1; p < sizes.size(); ++p) stride *= extents_[At(sizes[p])];
    return stride;
  }
  // 0 if the variable does not index the tensor.
  int64_t OfVar(int tensor, const std::vector<int>& vars, int var) const {
    const auto at = std::find(vars.begin(), vars.end(), var);
    return at == vars.end() ? 0 : OfPosition(tensor, static_cast<int>(at - vars.begin()));
  }
  int SizeAt(int tensor, int position) const { return Sizes(tensor)[At(position)]; }
  int64_t ExtentAt(int tensor, int position) const {
    return extents_[At(SizeAt(tensor, position))];
  }

 private:
  std::vector<int> Sizes(int tensor) const {
    std::vector<int> sizes;
    for (const auto& dim : op_.tensors[At(tensor)].dims) {
      sizes.insert(sizes.end(), dim.begin(), dim.end());
    }
    return sizes;
  }
  const OpInstance& op_;
  const std::vector<int64_t>& extents_;
};

GemmShape ShapeOf(const GemmEquation& gemm, const Strides& strides) {
  const auto axes = [&](const std::vector<int>& vars) {
    std::vector<Axis> result;
    for (int v : vars) {
      result.push_back(
          {strides.Extent(v),
           {strides.OfVar(gemm.a, gemm.a_vars, v), strides.OfVar(gemm.b, gemm.b_vars, v),
            strides.OfVar(gemm.out, gemm.out_vars, v)}});
    }
    return result;
  };
  return {axes(gemm.batch), axes(gemm.m), axes(gemm.n), axes(gemm.k)};
}

// Whole windows only: a library knows nothing of a piece's place in the whole.
bool WindowsAreWhole(const OpInstance& op, const ConvolutionEquation& conv, const Strides& strides,
                     const PieceOfOp& piece) {
  const auto whole = [&](int size) {
    return piece.offsets[At(size)] == 0 && piece.extents[At(size)] == op.sizes[At(size)].extent;
  };
  return std::all_of(conv.windows.begin(), conv.windows.end(), [&](const Window& w) {
    return whole(strides.SizeAt(conv.x, w.x_position)) && whole(op.vars[At(w.y_var)].size) &&
           whole(op.vars[At(w.tap_var)].size);
  });
}

// Absent if a class of variables is not one strided axis, as the library wants it.
absl::StatusOr<ConvShape> ShapeOf(const OpInstance& op, const ConvolutionEquation& conv,
                                  const Strides& strides, const PieceOfOp& piece) {
  const absl::Status no = absl::UnimplementedError("not a library's convolution");
  if (!WindowsAreWhole(op, conv, strides, piece)) return no;
  const auto one = [&](const std::vector<int>& vars, Axis& axis) {
    std::vector<Axis> axes;
    for (int v : vars) {
      axes.push_back({strides.Extent(v),
                      {strides.OfVar(conv.x, conv.x_vars, v), strides.OfVar(conv.f, conv.f_vars, v),
                       strides.OfVar(conv.y, conv.y_vars, v)}});
    }
    // Ordered by any buffer they move in.
    axes = MergedAxes(axes, axes.empty() || axes[0].strides[0] != 0 ? 0 : 1);
    if (axes.size() > 1) return false;
    if (axes.size() == 1) axis = axes[0];
    return true;
  };
  Axis batch, group, in, out;
  if (!one(conv.batch, batch) || !one(conv.group, group) || !one(conv.in, in) ||
      !one(conv.out, out)) {
    return no;
  }
  ConvShape s;
  s.target = static_cast<ConvShape::Target>(conv.target);
  s.batch = batch.extent, s.groups = group.extent, s.in = in.extent, s.out = out.extent;
  // A stride that is never taken: what a dense buffer of the same extents would have.
  const auto channel = [&](const Axis& c, size_t buffer, int64_t& stride) {
    stride = c.extent > 1 ? c.strides[buffer] : group.extent > 1 ? group.strides[buffer] : 1;
    return group.extent == 1 || group.strides[buffer] == stride * c.extent;
  };
  if (!channel(in, 0, s.x_channel_stride) || !channel(out, 2, s.y_channel_stride)) return no;
  const auto or_one = [](int64_t stride) { return stride == 0 ? 1 : stride; };
  s.x_batch_stride = or_one(batch.strides[0]), s.y_batch_stride = or_one(batch.strides[2]);
  s.f_group_stride = or_one(group.strides[1]), s.f_out_stride = or_one(out.strides[1]);
  s.f_in_stride = or_one(in.strides[1]);
  for (const Window& w : conv.windows) {
    ConvShape::Spatial d;
    d.x = strides.ExtentAt(conv.x, w.x_position);
    d.taps = strides.Extent(w.tap_var), d.y = strides.Extent(w.y_var);
    d.stride = w.stride, d.dilation = w.dilation, d.pad = w.pad;
    d.x_stride = strides.OfPosition(conv.x, w.x_position);
    d.tap_stride = strides.OfVar(conv.f, conv.f_vars, w.tap_var);
    d.y_stride = strides.OfVar(conv.y, conv.y_vars, w.y_var);
    s.spatial.push_back(d);
  }
  return s;
}

// Part of an instance as an instance: some equations, and the tensors they touch.
struct Part {
  OpInstance op;
  std::vector<int> inputs, outputs;  // tensors of the whole
};

Part PartOf(const OpInstance& whole, const std::vector<InstanceEquation>& equations,
            const std::set<int>& read_later) {
  std::set<int> written, read;
  std::vector<ExprId> open;
  for (const InstanceEquation& e : equations) {
    written.insert(e.target);
    open.push_back(e.body);
  }
  while (!open.empty()) {
    const ExprNode& e = whole.exprs[open.back()];
    open.pop_back();
    if (e.kind == ExprKind::kRead) read.insert(e.ref);
    open.insert(open.end(), e.args.begin(), e.args.end());
  }
  Part part;
  part.op = whole;
  part.op.equations = equations;
  part.op.tensors.clear();
  std::vector<int> position(whole.tensors.size(), -1);
  const auto add = [&](int tensor) {
    position[At(tensor)] = static_cast<int>(part.op.tensors.size());
    part.op.tensors.push_back(whole.tensors[At(tensor)]);
  };
  for (int t : read) {
    if (written.count(t) > 0) continue;
    part.inputs.push_back(t);
    add(t);
  }
  for (int t : written) {
    const bool output = t >= whole.num_inputs && t < whole.num_inputs + whole.num_outputs;
    if (output || read_later.count(t) > 0) part.outputs.push_back(t);
  }
  for (int t : part.outputs) add(t);
  for (int t : written) {
    if (position[At(t)] < 0) add(t);
  }
  part.op.num_inputs = static_cast<int>(part.inputs.size());
  part.op.num_outputs = static_cast<int>(part.outputs.size());
  for (InstanceEquation& e : part.op.equations) e.target = position[At(e.target)];
  for (ExprNode& e : part.op.exprs.nodes) {
    if (e.kind == ExprKind::kRead) e.ref = position[At(e.ref)];
  }
  return part;
}

template <typename T>
class StagedKernel : public Kernel<T> {
 public:
  absl::Status Prepare(const OpInstance& op, const PieceOfOp& piece, bool libraries) {
    op_ = HoistContractions(op, libraries && std::is_same_v<T, float>);
    const Strides strides(op_, piece.extents);
    // Which tensors each equation's followers read.
    const std::vector<std::set<int>> later = ReadLater();
    std::vector<InstanceEquation> loops;
    for (size_t i = 0; i < op_.equations.size(); ++i) {
      const InstanceEquation& equation = op_.equations[i];
      Stage stage;
      if (const auto gemm = AsGemm(op_, equation)) {
        stage.name = "gemm";
        stage.inputs = {gemm->a, gemm->b};
        stage.outputs = {gemm->out};
        stage.gemm = std::make_unique<GemmKernel<T>>(ShapeOf(*gemm, strides));
      } else if (const auto conv = AsConvolution(op_, equation);
                 conv && libraries && std::is_same_v<T, float>) {
        if (absl::Status s = AddConvolution(*conv, strides, piece, stage); !s.ok()) return s;
      } else {
        loops.push_back(equation);
        continue;
      }
      if (absl::Status s = AddLoops(loops, later[i], piece); !s.ok()) return s;
      stages_.push_back(std::move(stage));
    }
    if (absl::Status s = AddLoops(loops, {}, piece); !s.ok()) return s;
    PlaceIntermediates(strides);
    return absl::OkStatus();
  }

  absl::Status Run(const std::vector<const T*>& inputs, const std::vector<T*>& outputs,
                   std::vector<T>& scratch) override {
    if (static_cast<int64_t>(scratch.size()) < scratch_elements_) {
      scratch.resize(static_cast<size_t>(scratch_elements_));
    }
    const auto data = [&](int tensor) -> T* {
      if (tensor < op_.num_inputs) return const_cast<T*>(inputs[At(tensor)]);
      if (tensor < op_.num_inputs + op_.num_outputs) return outputs[At(tensor - op_.num_inputs)];
      return scratch.data() + places_[At(tensor)];
    };
    for (Stage& stage : stages_) {
      absl::Status status;
      if (stage.gemm != nullptr) {
        status =
            stage.gemm->Run(data(stage.inputs[0]), data(stage.inputs[1]), data(stage.outputs[0]));
      } else if (stage.conv != nullptr) {
        if constexpr (std::is_same_v<T, float>) {
          status =
              stage.conv->Run(data(stage.inputs[0]), data(stage.inputs[1]), data(stage.inputs[2]));
        }
      } else {
        std::vector<const T*> from;
        std::vector<T*> to;
        for (int t : stage.inputs) from.push_back(data(t));
        for (int t : stage.outputs) to.push_back(data(t));
        status = stage.loops->template Run<T>(from, to);
      }
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  std::string stages() const override {
    return absl::StrJoin(stages_, "+", [](std::string* out, const Stage& s) { *out += s.name; });
  }
  int64_t scratch_elements() const override { return scratch_elements_; }

 private:
  struct Stage {
    std::string name;
    std::vector<int> inputs, outputs;  // conv: inputs are x, f, y
    std::unique_ptr<GemmKernel<T>> gemm;
    std::unique_ptr<ConvKernel> conv;
    std::unique_ptr<LoopNest> loops;
  };

  // Tensors read by equations from each position on.
  std::vector<std::set<int>> ReadLater() const {
    std::vector<std::set<int>> later(op_.equations.size());
    std::set<int> read;
    for (size_t i = op_.equations.size(); i-- > 0;) {
      Reads(op_.equations[i].body, read);
      later[i] = read;
    }
    return later;
  }
  void Reads(ExprId id, std::set<int>& read) const {
    const ExprNode& e = op_.exprs[id];
    if (e.kind == ExprKind::kRead) read.insert(e.ref);
    for (ExprId arg : e.args) Reads(arg, read);
  }

  absl::Status AddConvolution(const ConvolutionEquation& conv, const Strides& strides,
                              const PieceOfOp& piece, Stage& stage) {
    absl::StatusOr<ConvShape> shape = ShapeOf(op_, conv, strides, piece);
    if (!shape.ok()) return shape.status();
    absl::StatusOr<std::unique_ptr<ConvKernel>> kernel = ConvKernel::Prepare(*shape);
    if (!kernel.ok()) return kernel.status();
    stage.name = "conv";
    stage.inputs = {conv.x, conv.f, conv.y};
    stage.conv = *std::move(kernel);
    return absl::OkStatus();
  }

  // The equations gathered so far become one stage; a library's stage comes next.
  absl::Status AddLoops(std::vector<InstanceEquation>& equations, const std::set<int>& later,
                        const PieceOfOp& piece) {
    if (equations.empty()) return absl::OkStatus();
    Part part = PartOf(op_, equations, later);
    absl::StatusOr<LoopNest> nest = LoopNest::Compile(part.op, piece);
    if (!nest.ok()) return nest.status();
    Stage stage;
    stage.name = "loops";
    stage.inputs = std::move(part.inputs);
    stage.outputs = std::move(part.outputs);
    stage.loops = std::make_unique<LoopNest>(*std::move(nest));
    stages_.push_back(std::move(stage));
    equations.clear();
    return absl::OkStatus();
  }

  // Intermediates that pass between stages get a place each.
  void PlaceIntermediates(const Strides& strides) {
    places_.assign(op_.tensors.size(), -1);
    for (const Stage& stage : stages_) {
      for (const std::vector<int>* tensors : {&stage.inputs, &stage.outputs}) {
        for (int t : *tensors) {
          if (t < op_.num_inputs + op_.num_outputs || places_[At(t)] >= 0) continue;
          places_[At(t)] = scratch_elements_;
          scratch_elements_ += (strides.Elements(t) + 15) / 16 * 16;
        }
      }
    }
  }

  OpInstance op_;
  std::vector<Stage> stages_;
  std::vector<int64_t> places_;  // per tensor: offset in the scratch
  int64_t scratch_elements_ = 0;
};

}  // namespace

template <typename T>
absl::StatusOr<std::unique_ptr<Kernel<T>>> Kernel<T>::Prepare(const OpInstance& op,
                                                              const PieceOfOp& piece) {
  PieceOfOp whole = piece;
  if (whole.extents.empty()) {
    for (const SizeVar& size : op.sizes) whole.extents.push_back(size.extent);
  }
  if (whole.offsets.empty()) whole.offsets.assign(op.sizes.size(), 0);
  auto kernel = std::make_unique<StagedKernel<T>>();
  absl::Status status = kernel->Prepare(op, whole, /*libraries=*/true);
  if (absl::IsUnimplemented(status)) {
    // A convolution that the library does not have: windows are expanded instead.
    kernel = std::make_unique<StagedKernel<T>>();
    status = kernel->Prepare(op, whole, /*libraries=*/false);
  }
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat("operator ", op.op, ": ", status.message()));
  }
  return std::unique_ptr<Kernel<T>>(std::move(kernel));
}

template class Kernel<float>;
template class Kernel<double>;

}  // namespace tandem
