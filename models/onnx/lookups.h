// Tensors that an exporter computed from a parameter by looking rows up or cutting a part out, as
// it does where the places are constants: positions, segments, relative distances. Internal to the
// importer.
#ifndef TANDEM_MODELS_ONNX_LOOKUPS_H_
#define TANDEM_MODELS_ONNX_LOOKUPS_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace tandem {

// values[dims] = table[places[the dims looked up], the other dims]
struct Lookup {
  std::vector<double> table;  // rows x the other dims
  int64_t rows = 0;
  std::vector<int64_t> looked_up;     // dims, ascending
  std::vector<int64_t> row_shape;     // of the other dims, ascending
  std::vector<int64_t> places_shape;  // extents of the dims looked up
  std::vector<double> places;
};

// The smallest table that the values are rows of, if it has no more than half of their elements.
// Rows have several elements, so that single numbers that happen to be equal are not taken for one.
std::optional<Lookup> FindLookup(const std::vector<int64_t>& shape,
                                 const std::vector<double>& values);

// The dim along which `part` is the beginning of `whole` and shorter, if there is one.
std::optional<size_t> BeginningOf(const std::vector<int64_t>& part_shape,
                                  const std::vector<double>& part,
                                  const std::vector<int64_t>& whole_shape,
                                  const std::vector<double>& whole);

}  // namespace tandem

#endif  // TANDEM_MODELS_ONNX_LOOKUPS_H_
