#include "runtime/check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem {
namespace {

template <typename Where>
void Note(Comparison& comparison, double value, double expected, Where where) {
  ++comparison.compared;
  double difference = std::abs(value - expected);
  if (value == expected) difference = 0;  // infinities
  if (std::isnan(difference)) difference = std::numeric_limits<double>::infinity();
  const double scaled = std::isinf(difference) ? difference : difference / (1 + std::abs(expected));
  comparison.max_abs_difference = std::max(comparison.max_abs_difference, difference);
  comparison.equal &= scaled <= kCheckTolerance;
  if (comparison.worst.empty() || scaled > comparison.max_scaled_difference) {
    comparison.max_scaled_difference = scaled;
    comparison.worst = absl::StrCat(where(), ": ", value, ", expected ", expected);
  }
}

absl::Status ComparePiece(Comparison& comparison, const std::string& name, const ResultPiece& piece,
                          const HostTensor& expected) {
  for (size_t i = 0; i < piece.values.size(); ++i) {
    const auto at = static_cast<size_t>(piece.indices[i]);
    if (at >= expected.data.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", name, "' has an element ", at, ", the expected value only ", expected.data.size(),
          " elements (", absl::StrJoin(expected.shape, "x"), ")"));
    }
    Note(comparison, piece.values[i], expected.data[at],
         [&] { return absl::StrCat("'", name, "'[", at, "] on rank ", piece.rank); });
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SerialRun> RunSerially(const Graph& graph, const Sources& sources, int64_t steps) {
  std::map<TensorId, HostTensor> values;
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (graph.tensors[t].producer.valid()) continue;
    values[TensorId(static_cast<int64_t>(t))] = sources.Whole(graph.tensors[t], 1);
  }
  SerialRun run;
  std::vector<TensorId> wanted;
  if (graph.loss) wanted.push_back(*graph.loss);
  for (const StateUpdate& update : graph.updates) wanted.push_back(update.next);
  for (int64_t step = 1; step <= steps; ++step) {
    for (auto& [id, value] : values) {
      if (graph.tensor(id).role == TensorRole::kStepInput) {
        value = sources.Whole(graph.tensor(id), step);
      }
    }
    if (step == steps) wanted.insert(wanted.end(), graph.outputs.begin(), graph.outputs.end());
    auto results = EvaluateGraph(graph, values, wanted);
    if (!results.ok()) return results.status();
    if (graph.loss) run.losses.push_back(results->at(*graph.loss).data.at(0));
    if (step == steps) {
      for (TensorId output : graph.outputs) run.outputs.push_back(results->at(output));
    }
    for (const StateUpdate& update : graph.updates) {
      values[update.state] = results->at(update.next);
    }
  }
  for (auto& [id, value] : values) {
    const TensorRole role = graph.tensor(id).role;
    if (role != TensorRole::kParameter && role != TensorRole::kState) continue;
    run.states.emplace(graph.tensor(id).name, std::move(value));
  }
  return run;
}

absl::StatusOr<Comparison> CompareWithSerial(const Graph& graph, const ExecutionResult& result,
                                             const SerialRun& serial) {
  Comparison comparison;
  if (result.losses.size() != serial.losses.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the run has ", result.losses.size(), " losses, the serial one ", serial.losses.size()));
  }
  for (size_t s = 0; s < serial.losses.size(); ++s) {
    Note(comparison, result.losses[s], serial.losses[s],
         [&] { return absl::StrCat("the loss of step ", s + 1); });
  }
  std::map<int, HostTensor> outputs;
  for (size_t k = 0; k < serial.outputs.size(); ++k) {
    outputs[static_cast<int>(k)] = serial.outputs[k];
  }
  if (graph.outputs.size() != serial.outputs.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the run has ", graph.outputs.size(), " outputs, the serial one ", serial.outputs.size()));
  }
  std::set<std::string> seen;
  for (const ResultPiece& piece : result.outputs) {
    for (size_t k = 0; k < graph.outputs.size(); ++k) {
      if (graph.outputs[k] != piece.tensor) continue;
      const std::string& name = graph.tensor(piece.tensor).name;
      if (absl::Status s = ComparePiece(comparison, name, piece, serial.outputs[k]); !s.ok()) {
        return s;
      }
    }
  }
  for (const ResultPiece& piece : result.states) {
    const std::string& name = graph.tensor(piece.tensor).name;
    const auto expected = serial.states.find(name);
    if (expected == serial.states.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("state '", name, "' is not one of the serial graph's"));
    }
    seen.insert(name);
    if (absl::Status s = ComparePiece(comparison, name, piece, expected->second); !s.ok()) return s;
  }
  for (const auto& [name, value] : serial.states) {
    if (seen.count(name) > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("state '", name, "' of the serial graph has no place in the Program"));
  }
  return comparison;
}

absl::StatusOr<Comparison> CompareOutputs(const Graph& graph, const ExecutionResult& result,
                                          const std::map<int, HostTensor>& expected) {
  Comparison comparison;
  for (const auto& [k, value] : expected) {
    if (static_cast<size_t>(k) >= graph.outputs.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("output_", k,
                       ".pb cannot be compared: the plan does not keep the model's "
                       "outputs; plan with --outputs keep, or leave the file out"));
    }
    const TensorId output = graph.outputs.at(static_cast<size_t>(k));
    const Tensor& tensor = graph.tensor(output);
    if (PlainShape(tensor.shape) != value.shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          "output_", k, ".pb has shape ", absl::StrJoin(value.shape, "x"), ", the model's '",
          tensor.name, "' is ", absl::StrJoin(PlainShape(tensor.shape), "x")));
    }
    for (const ResultPiece& piece : result.first_outputs) {
      if (piece.tensor != output) continue;
      if (absl::Status s = ComparePiece(comparison, tensor.name, piece, value); !s.ok()) return s;
    }
  }
  return comparison;
}

}  // namespace tandem
