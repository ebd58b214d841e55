// ONNX models to graphs. Real exports are read as they are: opsets from 7 on, weights inside,
// outside or missing, fixed or symbolic dims. What an exporter computes from constants (shapes,
// masks, positions, rotary tables) is computed here and kept as formulas of the indices; the batch
// that the export fixed is replaced wherever it flows. The result is a forward graph.
#ifndef TANDEM_MODELS_ONNX_IMPORTER_H_
#define TANDEM_MODELS_ONNX_IMPORTER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/graph/graph.h"

namespace tandem {

struct ImportOptions {
  int64_t global_batch = 0;             // 0 = as exported (1 where symbolic)
  std::map<std::string, int64_t> dims;  // symbolic dims by name
  int64_t default_dim = 0;  // for symbolic dims that nothing binds (noted); 0 = they are an error
  // Regular expressions (ECMAScript, searched) on initialiser names, for weights that are read in
  // several places: what is tied is one parameter, what is untied is one a place.
  std::vector<std::string> tie;
  std::vector<std::string> untie;
  // Likewise: initialisers that are parameters whatever their values look like.
  std::vector<std::string> train;
  // Operators beside the built-in ones, which nodes of other domains may name.
  std::vector<OpSpec> operators;
};

struct UnsupportedOp {
  std::string op;
  int count = 0;
  std::string example_node;
  std::string reason;  // and what can be done
  bool operator==(const UnsupportedOp&) const = default;
};

struct ImportReport {
  int opset = 0;
  std::string producer;
  int64_t nodes = 0;                      // of the file
  int64_t initializer_parameters = 0;     // elements of float initialisers of rank >= 1
  std::vector<std::string> initializers;  // names of the float ones, in the graph or not
  std::vector<UnsupportedOp> unsupported;
  std::vector<std::string> notes;  // what was taken for granted, one a line
};

// On unsupported operators the error names all of them, and the report lists them. Other errors
// name file, node, value and remedy.
absl::StatusOr<Graph> ImportOnnx(const std::string& path, const ImportOptions& options,
                                 ImportReport* report);
// `path` is for messages and for the folder of external data.
absl::StatusOr<Graph> ImportOnnxBytes(const std::string& bytes, const std::string& path,
                                      const ImportOptions& options, ImportReport* report);

}  // namespace tandem

#endif  // TANDEM_MODELS_ONNX_IMPORTER_H_
