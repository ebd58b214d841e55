#include "runtime/gemm_kernel.h"

#include <cblas.h>
#include <dnnl.h>

#include <algorithm>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/library_threads.h"

namespace tandem {
namespace {

// Blocks with less work than this cost more in calls than in arithmetic.
constexpr int64_t kSmallBlock = 16 * 16 * 16;

// Row-major c = a b + beta c; `transposed` operands are stored the other way round.
absl::Status CallGemm(bool a_transposed, bool b_transposed, int64_t m, int64_t n, int64_t k,
                      const double* a, int64_t lda, const double* b, int64_t ldb, double beta,
                      double* c, int64_t ldc) {
  const auto i = [](int64_t v) { return static_cast<blasint>(v); };
  cblas_dgemm(CblasRowMajor, a_transposed ? CblasTrans : CblasNoTrans,
              b_transposed ? CblasTrans : CblasNoTrans, i(m), i(n), i(k), 1.0, a, i(lda), b, i(ldb),
              beta, c, i(ldc));
  return absl::OkStatus();
}

absl::Status CallGemm(bool a_transposed, bool b_transposed, int64_t m, int64_t n, int64_t k,
                      const float* a, int64_t lda, const float* b, int64_t ldb, float beta,
                      float* c, int64_t ldc) {
  const dnnl_status_t status = dnnl_sgemm(a_transposed ? 'T' : 'N', b_transposed ? 'T' : 'N', m, n,
                                          k, 1.0f, a, lda, b, ldb, beta, c, ldc);
  if (status == dnnl_success) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("oneDNN's sgemm of ", m, " x ", n, " x ", k,
                                          " returned status ", static_cast<int>(status)));
}

// Takes the axis that a library call should run over: one with unit stride in one of `buffers`,
// else the longest.
Axis TakeInner(std::vector<Axis>& axes, std::initializer_list<size_t> buffers) {
  if (axes.empty()) return {};
  size_t best = 0;
  for (size_t i = 1; i < axes.size(); ++i) {
    if (axes[i].extent > axes[best].extent) best = i;
  }
  for (size_t buffer : buffers) {
    const auto unit = std::find_if(axes.begin(), axes.end(),
                                   [&](const Axis& a) { return a.strides[buffer] == 1; });
    if (unit == axes.end() || unit->extent * 4 < axes[best].extent) continue;
    best = static_cast<size_t>(unit - axes.begin());
    break;
  }
  const Axis axis = axes[best];
  axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(best));
  return axis;
}

// The distance between rows of a matrix whose columns are adjacent.
int64_t RowStride(const Axis& row, const Axis& column, size_t buffer) {
  return row.extent > 1 ? row.strides[buffer] : std::max<int64_t>(column.extent, 1);
}
bool Adjacent(const Axis& axis, size_t buffer) {
  return axis.extent == 1 || axis.strides[buffer] == 1;
}
bool IsMatrix(const Axis& row, const Axis& column, size_t buffer) {
  return Adjacent(column, buffer) && RowStride(row, column, buffer) >= column.extent;
}

}  // namespace

template <typename T>
GemmKernel<T>::GemmKernel(const GemmShape& shape) : shape_(shape) {
  static std::once_flag once;  // each rank has its own thread; a BLAS must not start more
  std::call_once(once, [] { openblas_set_num_threads(1); });
  Plan();
  const auto readable = [&](size_t buffer) {
    return Reads(buffer, buffer == 1 ? k_ : m_, buffer == 0 ? k_ : n_);
  };
  for (size_t buffer = 0; buffer < 3; ++buffer) {
    if (readable(buffer)) continue;
    Pack(buffer);
    Plan();
  }
  // All three in order merge into one matrix each.
  const bool loops = !k_loops_.empty() || Elements(loops_) > Elements(shape_.batch);
  if (!(readable(0) && readable(1) && readable(2)) ||
      (loops && m_.extent * n_.extent * k_.extent < kSmallBlock)) {
    for (size_t buffer = 0; buffer < 3; ++buffer) {
      if (!packing_[buffer].used) Pack(buffer);
    }
    Plan();
  }
}

template <typename T>
bool GemmKernel<T>::Reads(size_t buffer, const Axis& row, const Axis& column) const {
  return IsMatrix(row, column, buffer) || IsMatrix(column, row, buffer);
}

template <typename T>
void GemmKernel<T>::Plan() {
  std::vector<Axis> m = MergedAxes(shape_.m, 2);
  std::vector<Axis> n = MergedAxes(shape_.n, 2);
  std::vector<Axis> k = MergedAxes(shape_.k, 0);
  n_ = TakeInner(n, {2, 1});
  m_ = TakeInner(m, {2, 0});
  k_ = TakeInner(k, {0, 1});
  loops_ = MergedAxes(shape_.batch, 2);
  loops_.insert(loops_.end(), m.begin(), m.end());
  loops_.insert(loops_.end(), n.begin(), n.end());
  k_loops_ = std::move(k);
}

template <typename T>
void GemmKernel<T>::Pack(size_t buffer) {
  // Dense in the order batch, then rows, then columns.
  std::vector<Axis>* order[3] = {&shape_.batch, buffer == 1 ? &shape_.k : &shape_.m,
                                 buffer == 0 ? &shape_.k : &shape_.n};
  Packing& packing = packing_[buffer];
  packing.used = true;
  int64_t stride = 1;
  for (size_t c = 3; c-- > 0;) {
    for (size_t i = order[c]->size(); i-- > 0;) {
      Axis& axis = (*order[c])[i];
      if (axis.extent == 1) continue;
      packing.axes.insert(packing.axes.begin(),
                          Axis{axis.extent, {axis.strides[buffer], stride, 0}});
      axis.strides[buffer] = stride;
      stride *= axis.extent;
    }
  }
  packing.data.resize(static_cast<size_t>(stride));
}

template <typename T>
absl::Status GemmKernel<T>::Run(const T* a, const T* b, T* c) {
  const T* operands[2] = {a, b};
  for (size_t buffer = 0; buffer < 2; ++buffer) {
    Packing& packing = packing_[buffer];
    if (!packing.used) continue;
    CopyStrided(packing.axes, operands[buffer], 0, packing.data.data(), 1);
    operands[buffer] = packing.data.data();
  }
  T* out = packing_[2].used ? packing_[2].data.data() : c;
  // c is written by rows, or (as the transposed product) by columns.
  const bool rows = IsMatrix(m_, n_, 2);
  const bool a_by_rows = IsMatrix(m_, k_, 0);
  const bool b_by_rows = IsMatrix(k_, n_, 1);
  const int64_t lda = a_by_rows ? RowStride(m_, k_, 0) : RowStride(k_, m_, 0);
  const int64_t ldb = b_by_rows ? RowStride(k_, n_, 1) : RowStride(n_, k_, 1);
  const int64_t ldc = rows ? RowStride(m_, n_, 2) : RowStride(n_, m_, 2);
  const LibraryThreads threads(2.0 * static_cast<double>(m_.extent * n_.extent * k_.extent));
  absl::Status status;
  ForEachPoint(loops_, [&](int64_t block_a, int64_t block_b, int64_t block_c) {
    T beta = 0;
    ForEachPoint(k_loops_, [&](int64_t k_a, int64_t k_b, int64_t) {
      if (!status.ok()) return;
      const T* pa = operands[0] + block_a + k_a;
      const T* pb = operands[1] + block_b + k_b;
      status = rows ? CallGemm(!a_by_rows, !b_by_rows, m_.extent, n_.extent, k_.extent, pa, lda, pb,
                               ldb, beta, out + block_c, ldc)
                    : CallGemm(b_by_rows, a_by_rows, n_.extent, m_.extent, k_.extent, pb, ldb, pa,
                               lda, beta, out + block_c, ldc);
      beta = 1;
    });
  });
  if (packing_[2].used) CopyStrided(packing_[2].axes, static_cast<const T*>(out), 1, c, 0);
  return status;
}

template <typename T>
std::string GemmKernel<T>::packed() const {
  std::string names;
  for (size_t buffer = 0; buffer < 3; ++buffer) {
    if (packing_[buffer].used) names += "abc"[buffer];
  }
  return names;
}

template <typename T>
int64_t GemmKernel<T>::calls() const {
  return Elements(loops_) * Elements(k_loops_);
}

template class GemmKernel<float>;
template class GemmKernel<double>;

}  // namespace tandem
