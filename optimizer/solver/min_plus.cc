#include "optimizer/solver/min_plus.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tandem::solver {
namespace {

// Columns [begin, cols), one at a time.
inline void ScalarColumns(const double* table, int32_t rows, int32_t cols, const double* row_cost,
                          int32_t begin, double* out) {
  for (int32_t c = begin; c < cols; ++c) {
    double least = table[c] - row_cost[0];
    for (int32_t r = 1; r < rows; ++r) {
      least = std::min(least, table[static_cast<int64_t>(r) * cols + c] - row_cost[r]);
    }
    out[c] = least;
  }
}

double ScalarLeastSum(const double* a, const double* b, int32_t n, int32_t* index) {
  double least = a[0] + b[0];
  *index = 0;
  for (int32_t k = 1; k < n; ++k) {
    const double sum = a[k] + b[k];
    if (sum < least) {
      least = sum;
      *index = k;
    }
  }
  return least;
}

#if defined(__x86_64__)

// Keeps sixteen (then four) columns in registers and walks down the rows.
__attribute__((target("avx2"))) void Avx2Columns(const double* table, int32_t rows, int32_t cols,
                                                 const double* row_cost, double* out) {
  int32_t c = 0;
  for (; c + 16 <= cols; c += 16) {
    const double* p = table + c;
    __m256d q = _mm256_broadcast_sd(row_cost);
    __m256d m0 = _mm256_sub_pd(_mm256_loadu_pd(p), q);
    __m256d m1 = _mm256_sub_pd(_mm256_loadu_pd(p + 4), q);
    __m256d m2 = _mm256_sub_pd(_mm256_loadu_pd(p + 8), q);
    __m256d m3 = _mm256_sub_pd(_mm256_loadu_pd(p + 12), q);
    for (int32_t r = 1; r < rows; ++r) {
      p += cols;
      q = _mm256_broadcast_sd(row_cost + r);
      m0 = _mm256_min_pd(m0, _mm256_sub_pd(_mm256_loadu_pd(p), q));
      m1 = _mm256_min_pd(m1, _mm256_sub_pd(_mm256_loadu_pd(p + 4), q));
      m2 = _mm256_min_pd(m2, _mm256_sub_pd(_mm256_loadu_pd(p + 8), q));
      m3 = _mm256_min_pd(m3, _mm256_sub_pd(_mm256_loadu_pd(p + 12), q));
    }
    _mm256_storeu_pd(out + c, m0);
    _mm256_storeu_pd(out + c + 4, m1);
    _mm256_storeu_pd(out + c + 8, m2);
    _mm256_storeu_pd(out + c + 12, m3);
  }
  for (; c + 4 <= cols; c += 4) {
    const double* p = table + c;
    __m256d m = _mm256_sub_pd(_mm256_loadu_pd(p), _mm256_broadcast_sd(row_cost));
    for (int32_t r = 1; r < rows; ++r) {
      p += cols;
      m = _mm256_min_pd(m, _mm256_sub_pd(_mm256_loadu_pd(p), _mm256_broadcast_sd(row_cost + r)));
    }
    _mm256_storeu_pd(out + c, m);
  }
  ScalarColumns(table, rows, cols, row_cost, c, out);
}

// First the least value, four lanes at a time, then the first place that holds it.
__attribute__((target("avx2"))) double Avx2LeastSum(const double* a, const double* b, int32_t n,
                                                    double* sums, int32_t* index) {
  __m256d m = _mm256_add_pd(_mm256_loadu_pd(a), _mm256_loadu_pd(b));
  _mm256_storeu_pd(sums, m);
  int32_t k = 4;
  for (; k + 4 <= n; k += 4) {
    const __m256d sum = _mm256_add_pd(_mm256_loadu_pd(a + k), _mm256_loadu_pd(b + k));
    _mm256_storeu_pd(sums + k, sum);
    m = _mm256_min_pd(m, sum);
  }
  __m128d half = _mm_min_pd(_mm256_castpd256_pd128(m), _mm256_extractf128_pd(m, 1));
  half = _mm_min_sd(half, _mm_unpackhi_pd(half, half));
  double least = _mm_cvtsd_f64(half);
  for (; k < n; ++k) {
    sums[k] = a[k] + b[k];
    least = std::min(least, sums[k]);
  }
  const __m256d all = _mm256_set1_pd(least);
  for (k = 0; k + 4 <= n; k += 4) {
    const int mask = _mm256_movemask_pd(_mm256_cmp_pd(_mm256_loadu_pd(sums + k), all, _CMP_EQ_OQ));
    if (mask != 0) {
      *index = k + __builtin_ctz(static_cast<unsigned>(mask));
      return least;
    }
  }
  while (k < n - 1 && sums[k] != least) ++k;
  *index = k;
  return least;
}

void Sse2Columns(const double* table, int32_t rows, int32_t cols, const double* row_cost,
                 double* out) {
  int32_t c = 0;
  for (; c + 4 <= cols; c += 4) {
    const double* p = table + c;
    __m128d q = _mm_set1_pd(row_cost[0]);
    __m128d m0 = _mm_sub_pd(_mm_loadu_pd(p), q);
    __m128d m1 = _mm_sub_pd(_mm_loadu_pd(p + 2), q);
    for (int32_t r = 1; r < rows; ++r) {
      p += cols;
      q = _mm_set1_pd(row_cost[r]);
      m0 = _mm_min_pd(m0, _mm_sub_pd(_mm_loadu_pd(p), q));
      m1 = _mm_min_pd(m1, _mm_sub_pd(_mm_loadu_pd(p + 2), q));
    }
    _mm_storeu_pd(out + c, m0);
    _mm_storeu_pd(out + c + 2, m1);
  }
  ScalarColumns(table, rows, cols, row_cost, c, out);
}

bool HasAvx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

#endif

}  // namespace

void ColumnMinima(const double* table, int32_t rows, int32_t cols, const double* row_cost,
                  double* out) {
#if defined(__x86_64__)
  if (HasAvx2()) {
    Avx2Columns(table, rows, cols, row_cost, out);
  } else {
    Sse2Columns(table, rows, cols, row_cost, out);
  }
#else
  ScalarColumns(table, rows, cols, row_cost, 0, out);
#endif
}

double LeastSum(const double* a, const double* b, int32_t n, double* sums, int32_t* index) {
#if defined(__x86_64__)
  if (n >= 4 && HasAvx2()) return Avx2LeastSum(a, b, n, sums, index);
#else
  (void)sums;
#endif
  return ScalarLeastSum(a, b, n, index);
}

}  // namespace tandem::solver
