// The inner loop of message passing: the least entry of every column of a table after a cost has
// been taken from every row. Exact: only sums, differences and minima of doubles, so every machine
// and every vector width gives the same bits.
#ifndef OPTIMIZER_SOLVER_MIN_PLUS_H_
#define OPTIMIZER_SOLVER_MIN_PLUS_H_

#include <cstdint>

namespace tandem::solver {

// The least entry of every column of a table after a cost has been taken from every row:
// out[c] = min over r of table[r * cols + c] - row_cost[r], for 0 <= c < cols; rows >= 1.
void ColumnMinima(const double* table, int32_t rows, int32_t cols, const double* row_cost,
                  double* out);

// The least of a[k] + b[k] over 0 <= k < n, and in *index where it is first; n >= 1. `sums` is
// scratch of n entries.
double LeastSum(const double* a, const double* b, int32_t n, double* sums, int32_t* index);

}  // namespace tandem::solver

#endif  // OPTIMIZER_SOLVER_MIN_PLUS_H_
