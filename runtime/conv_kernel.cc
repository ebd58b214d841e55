#include "runtime/conv_kernel.h"

#include <algorithm>
#include <dnnl.hpp>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "runtime/library_threads.h"

namespace tandem {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

// The library chooses layouts; what differs from the caller's is reordered on the way.
class Operand {
 public:
  Operand() = default;
  Operand(const Desc& outside, const Desc& inside, const dnnl::engine& engine, bool written)
      : outside_(outside, engine, nullptr), written_(written) {
    direct_ = outside == inside;
    if (direct_) return;
    inside_ = dnnl::memory(inside, engine);
    reorder_ = written ? dnnl::reorder(inside_, outside_) : dnnl::reorder(outside_, inside_);
  }
  dnnl::memory& Before(float* data, dnnl::stream& stream) {
    outside_.set_data_handle(data);
    if (direct_) return outside_;
    if (!written_) reorder_.execute(stream, outside_, inside_);
    return inside_;
  }
  void After(dnnl::stream& stream) {
    if (!direct_ && written_) reorder_.execute(stream, inside_, outside_);
  }

 private:
  dnnl::memory outside_, inside_;
  dnnl::reorder reorder_;
  bool direct_ = true;
  bool written_ = false;
};

double FlopsOf(const ConvShape& s) {
  double flops = 2.0 * static_cast<double>(s.batch * s.groups * s.in * s.out);
  for (const ConvShape::Spatial& d : s.spatial) flops *= static_cast<double>(d.y * d.taps);
  return flops;
}

class OneDnnConv : public ConvKernel {
 public:
  explicit OneDnnConv(const ConvShape& s)
      : flops_(FlopsOf(s)), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    const LibraryThreads threads(flops_);
    Dims x = {s.batch, s.groups * s.in}, f = {s.out, s.in}, y = {s.batch, s.groups * s.out};
    Dims x_strides = {s.x_batch_stride, s.x_channel_stride};
    Dims f_strides = {s.f_out_stride, s.f_in_stride};
    Dims y_strides = {s.y_batch_stride, s.y_channel_stride};
    if (s.groups > 1) {
      f.insert(f.begin(), s.groups);
      f_strides.insert(f_strides.begin(), s.f_group_stride);
    }
    Dims strides, dilations, low, high;
    for (const ConvShape::Spatial& d : s.spatial) {
      x.push_back(d.x), f.push_back(d.taps), y.push_back(d.y);
      x_strides.push_back(d.x_stride), f_strides.push_back(d.tap_stride);
      y_strides.push_back(d.y_stride);
      strides.push_back(d.stride), dilations.push_back(d.dilation - 1), low.push_back(d.pad);
      high.push_back(
          std::max<int64_t>(0, (d.y - 1) * d.stride + (d.taps - 1) * d.dilation + 1 - d.pad - d.x));
    }
    const auto type = dnnl::memory::data_type::f32;
    const auto any = [&](const Dims& dims) {
      return Desc(dims, type, dnnl::memory::format_tag::any);
    };
    const auto algorithm = dnnl::algorithm::convolution_direct;
    using Forward = dnnl::convolution_forward;
    const auto kind = s.target == ConvShape::Target::kY ? dnnl::prop_kind::forward_inference
                                                        : dnnl::prop_kind::forward_training;
    const Forward::primitive_desc forward(
        Forward::desc(kind, algorithm, any(x), any(f), any(y), strides, dilations, low, high),
        engine_);
    const Desc outside[3] = {Desc(x, type, x_strides), Desc(f, type, f_strides),
                             Desc(y, type, y_strides)};
    const auto operands = [&](const Desc& in_x, const Desc& in_f, const Desc& in_y) {
      using T = ConvShape::Target;
      x_ = Operand(outside[0], in_x, engine_, s.target == T::kX);
      f_ = Operand(outside[1], in_f, engine_, s.target == T::kF);
      y_ = Operand(outside[2], in_y, engine_, s.target == T::kY);
    };
    switch (s.target) {
      case ConvShape::Target::kY:
        primitive_ = Forward(forward);
        operands(forward.src_desc(), forward.weights_desc(), forward.dst_desc());
        x_arg_ = DNNL_ARG_SRC, f_arg_ = DNNL_ARG_WEIGHTS, y_arg_ = DNNL_ARG_DST;
        break;
      case ConvShape::Target::kX: {
        using Backward = dnnl::convolution_backward_data;
        const Backward::primitive_desc desc(
            Backward::desc(algorithm, any(x), any(f), any(y), strides, dilations, low, high),
            engine_, forward);
        primitive_ = Backward(desc);
        operands(desc.diff_src_desc(), desc.weights_desc(), desc.diff_dst_desc());
        x_arg_ = DNNL_ARG_DIFF_SRC, f_arg_ = DNNL_ARG_WEIGHTS, y_arg_ = DNNL_ARG_DIFF_DST;
        break;
      }
      case ConvShape::Target::kF: {
        using Backward = dnnl::convolution_backward_weights;
        const Backward::primitive_desc desc(
            Backward::desc(algorithm, any(x), any(f), any(y), strides, dilations, low, high),
            engine_, forward);
        primitive_ = Backward(desc);
        operands(desc.src_desc(), desc.diff_weights_desc(), desc.diff_dst_desc());
        x_arg_ = DNNL_ARG_SRC, f_arg_ = DNNL_ARG_DIFF_WEIGHTS, y_arg_ = DNNL_ARG_DIFF_DST;
        break;
      }
    }
  }

  absl::Status Run(float* x, float* f, float* y) override {
    const LibraryThreads threads(flops_);
    try {
      std::unordered_map<int, dnnl::memory> arguments;
      arguments.emplace(x_arg_, x_.Before(x, stream_));
      arguments.emplace(f_arg_, f_.Before(f, stream_));
      arguments.emplace(y_arg_, y_.Before(y, stream_));
      primitive_.execute(stream_, arguments);
      for (Operand* operand : {&x_, &f_, &y_}) operand->After(stream_);
      stream_.wait();
      return absl::OkStatus();
    } catch (const dnnl::error& e) {
      return absl::InternalError(absl::StrCat("oneDNN's convolution: ", e.what()));
    }
  }

 private:
  const double flops_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  Operand x_, f_, y_;
  int x_arg_ = 0, f_arg_ = 0, y_arg_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ConvKernel>> ConvKernel::Prepare(const ConvShape& shape) {
  for (const ConvShape::Spatial& d : shape.spatial) {
    if (d.pad < 0) return absl::UnimplementedError("oneDNN's convolution: negative padding");
  }
  if (shape.spatial.empty() || shape.spatial.size() > 3) {
    return absl::UnimplementedError("oneDNN's convolution: one to three spatial dims");
  }
  try {
    return std::unique_ptr<ConvKernel>(new OneDnnConv(shape));
  } catch (const dnnl::error& e) {
    return absl::UnimplementedError(absl::StrCat("oneDNN's convolution: ", e.what()));
  }
}

}  // namespace tandem
