#include "models/onnx/lookups.h"

#include <cstddef>
#include <map>
#include <utility>

namespace tandem {
namespace {

constexpr size_t kMostDims = 5;
constexpr size_t kMostElements = size_t{1} << 22;

// Values as rows: the dims of `looked_up` (bits) before the others, each in their order.
Lookup AsRows(const std::vector<int64_t>& shape, const std::vector<double>& values,
              size_t looked_up) {
  Lookup result;
  std::vector<size_t> order;
  for (size_t d = 0; d < shape.size(); ++d) {
    if ((looked_up >> d & 1) == 0) continue;
    order.push_back(d);
    result.looked_up.push_back(static_cast<int64_t>(d));
    result.places_shape.push_back(shape[d]);
  }
  for (size_t d = 0; d < shape.size(); ++d) {
    if ((looked_up >> d & 1) != 0) continue;
    order.push_back(d);
    result.row_shape.push_back(shape[d]);
  }
  std::vector<size_t> stride(shape.size(), 1);
  for (size_t d = shape.size() - 1; d > 0; --d) {
    stride[d - 1] = stride[d] * static_cast<size_t>(shape[d]);
  }
  std::vector<int64_t> at(shape.size(), 0);
  result.table.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    size_t from = 0;
    for (size_t k = 0; k < order.size(); ++k) from += static_cast<size_t>(at[k]) * stride[order[k]];
    result.table.push_back(values[from]);
    for (size_t k = order.size(); k-- > 0;) {
      if (++at[k] < shape[order[k]]) break;
      at[k] = 0;
    }
  }
  return result;
}

// Keeps one of equal rows.
void Unite(Lookup* lookup) {
  size_t row = 1;
  for (int64_t extent : lookup->row_shape) row *= static_cast<size_t>(extent);
  std::map<std::vector<double>, int64_t> seen;
  std::vector<double> table;
  for (size_t at = 0; at < lookup->table.size(); at += row) {
    const auto begin = lookup->table.begin() + static_cast<int64_t>(at);
    std::vector<double> values(begin, begin + static_cast<int64_t>(row));
    const auto [it, first] = seen.emplace(values, static_cast<int64_t>(seen.size()));
    if (first) table.insert(table.end(), values.begin(), values.end());
    lookup->places.push_back(static_cast<double>(it->second));
  }
  lookup->rows = static_cast<int64_t>(seen.size());
  lookup->table = std::move(table);
}

}  // namespace

std::optional<Lookup> FindLookup(const std::vector<int64_t>& shape,
                                 const std::vector<double>& values) {
  if (shape.size() < 2 || shape.size() > kMostDims || values.size() > kMostElements) {
    return std::nullopt;
  }
  for (double value : values) {
    if (value != value) return std::nullopt;
  }
  std::optional<Lookup> best;
  for (size_t looked_up = 1; looked_up + 1 < size_t{1} << shape.size(); ++looked_up) {
    size_t row = 1;
    bool useful = true;  // dims of one element stay in the row
    for (size_t d = 0; d < shape.size(); ++d) {
      if ((looked_up >> d & 1) == 0) row *= static_cast<size_t>(shape[d]);
      useful = useful && (shape[d] > 1 || (looked_up >> d & 1) == 0);
    }
    if (!useful || row < 2) continue;
    Lookup lookup = AsRows(shape, values, looked_up);
    Unite(&lookup);
    if (2 * lookup.table.size() > values.size()) continue;
    // Of equal tables the one that looks fewer dims up.
    if (!best || lookup.table.size() < best->table.size() ||
        (lookup.table.size() == best->table.size() && lookup.places.size() < best->places.size())) {
      best = std::move(lookup);
    }
  }
  return best;
}

std::optional<size_t> BeginningOf(const std::vector<int64_t>& part_shape,
                                  const std::vector<double>& part,
                                  const std::vector<int64_t>& whole_shape,
                                  const std::vector<double>& whole) {
  if (part_shape.size() != whole_shape.size() || part.empty()) return std::nullopt;
  std::optional<size_t> dim;
  for (size_t d = 0; d < part_shape.size(); ++d) {
    if (part_shape[d] == whole_shape[d]) continue;
    if (dim || part_shape[d] > whole_shape[d]) return std::nullopt;
    dim = d;
  }
  if (!dim) return std::nullopt;
  size_t inner = 1;
  for (size_t d = *dim + 1; d < part_shape.size(); ++d) {
    inner *= static_cast<size_t>(part_shape[d]);
  }
  const size_t short_run = inner * static_cast<size_t>(part_shape[*dim]);
  const size_t long_run = inner * static_cast<size_t>(whole_shape[*dim]);
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] != whole[i / short_run * long_run + i % short_run]) return std::nullopt;
  }
  return dim;
}

}  // namespace tandem
