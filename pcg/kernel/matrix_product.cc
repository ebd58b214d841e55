// Blocked matrix product over gathered rows: pack panels, multiply tiles in registers.
#include <algorithm>
#include <vector>

#include "pcg/kernel/contraction.h"

namespace tandem {
namespace {

constexpr int64_t kTileRows = 4;
constexpr int64_t kBlockRows = 64;
constexpr int64_t kBlockCols = 256;
constexpr int64_t kBlockDepth = 256;

// 64 bytes of elements: eight doubles or sixteen floats, however wide the machine's registers are.
typedef double DoubleRow __attribute__((vector_size(64)));
typedef float FloatRow __attribute__((vector_size(64)));
template <typename T>
struct RowOf;
template <>
struct RowOf<double> {
  using type = DoubleRow;
};
template <>
struct RowOf<float> {
  using type = FloatRow;
};

template <typename T>
constexpr int64_t TileCols() {
  return static_cast<int64_t>(64 / sizeof(T));
}

// tile[4][cols] = sum over depth of a[p][4] * b[p][cols].
template <typename T>
inline __attribute__((always_inline)) void TileBody(const T* a, const T* b, int64_t depth,
                                                    T* tile) {
  using Row = typename RowOf<T>::type;
  Row sums[kTileRows] = {};
  for (int64_t p = 0; p < depth; ++p) {
    Row row;
    __builtin_memcpy(&row, b + p * TileCols<T>(), sizeof(row));
    for (int64_t i = 0; i < kTileRows; ++i) sums[i] += a[p * kTileRows + i] * row;
  }
  __builtin_memcpy(tile, sums, sizeof(sums));
}

// Versions are chosen while the program is loaded, when a sanitizer is not there yet.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define TANDEM_TILE_VERSIONS
#else
#define TANDEM_TILE_VERSIONS __attribute__((target_clones("avx512f", "avx2", "default")))
#endif

// The same operations in the same order on every machine (no fused multiply-add): only their number
// at a time differs.
TANDEM_TILE_VERSIONS void Tile(const double* a, const double* b, int64_t depth, double* tile) {
  TileBody(a, b, depth, tile);
}
TANDEM_TILE_VERSIONS void Tile(const float* a, const float* b, int64_t depth, float* tile) {
  TileBody(a, b, depth, tile);
}

// panels[panel][p][width] of rows gathered by offsets; missing rows are 0.
template <typename T>
void Pack(const T* from, const int64_t* rows, int64_t row_count, const int64_t* depth,
          int64_t depth_count, int64_t width, T* panels) {
  for (int64_t first = 0; first < row_count; first += width) {
    for (int64_t r = 0; r < width; ++r) {
      T* to = panels + first * depth_count + r;
      if (first + r >= row_count) {
        for (int64_t p = 0; p < depth_count; ++p) to[p * width] = 0;
        continue;
      }
      const T* row = from + rows[first + r];
      for (int64_t p = 0; p < depth_count; ++p) to[p * width] = row[depth[p]];
    }
  }
}

}  // namespace

template <typename T>
void Multiply(const MatrixProduct<T>& product) {
  constexpr int64_t kCols = TileCols<T>();
  const auto rounded = [](int64_t value, int64_t to) { return (value + to - 1) / to * to; };
  std::vector<T> a(static_cast<size_t>(rounded(std::min(product.m, kBlockRows), kTileRows) *
                                       std::min(product.k, kBlockDepth)));
  std::vector<T> b(static_cast<size_t>(rounded(std::min(product.n, kBlockCols), kCols) *
                                       std::min(product.k, kBlockDepth)));
  alignas(64) T tile[kTileRows * kCols];
  for (int64_t n = 0; n < product.n; n += kBlockCols) {
    const int64_t cols = std::min(kBlockCols, product.n - n);
    for (int64_t k = 0; k < product.k; k += kBlockDepth) {
      const int64_t depth = std::min(kBlockDepth, product.k - k);
      Pack(product.b, product.b_rows + n, cols, product.b_depth + k, depth, kCols, b.data());
      for (int64_t m = 0; m < product.m; m += kBlockRows) {
        const int64_t rows = std::min(kBlockRows, product.m - m);
        Pack(product.a, product.a_rows + m, rows, product.a_depth + k, depth, kTileRows, a.data());
        for (int64_t j = 0; j < cols; j += kCols) {
          const int64_t j_end = std::min(kCols, cols - j);
          for (int64_t i = 0; i < rows; i += kTileRows) {
            Tile(a.data() + i * depth, b.data() + j * depth, depth, tile);
            const int64_t i_end = std::min(kTileRows, rows - i);
            for (int64_t r = 0; r < i_end; ++r) {
              T* out = product.out + product.out_rows[m + i + r];
              const int64_t* columns = product.out_cols + n + j;
              const T* sums = tile + r * kCols;
              if (k == 0) {
                for (int64_t c = 0; c < j_end; ++c) out[columns[c]] = sums[c];
              } else {
                for (int64_t c = 0; c < j_end; ++c) out[columns[c]] += sums[c];
              }
            }
          }
        }
      }
    }
  }
}

template void Multiply<double>(const MatrixProduct<double>&);
template void Multiply<float>(const MatrixProduct<float>&);

}  // namespace tandem
