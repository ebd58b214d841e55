#include "models/load_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/zoo.h"
#include "pcg/io/file_io.h"
#include "pcg/program/plan.h"

namespace tandem {
namespace {

// Text has no control characters but white space in its first bytes.
bool LooksLikeText(const std::string& bytes) {
  const size_t n = std::min<size_t>(bytes.size(), 512);
  for (size_t i = 0; i < n; ++i) {
    const auto c = static_cast<unsigned char>(bytes[i]);
    if (c < 32 && c != '\n' && c != '\r' && c != '\t') return false;
  }
  return true;
}

bool InZoo(const std::string& name) {
  return std::any_of(ZooEntries().begin(), ZooEntries().end(),
                     [&](const ZooEntry& entry) { return entry.name == name; });
}

absl::StatusOr<Graph> WithOperators(Graph graph, const LoadOptions& options,
                                    const std::string& path) {
  if (graph.nodes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a model without nodes; is the file empty or of another kind?"));
  }
  for (const OpSpec& spec : options.operators) {
    if (absl::Status s = graph.operators.Add(spec); !s.ok()) return s;
  }
  if (options.global_batch != 0 && graph.batch != 0 && options.global_batch != graph.batch) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the model is written for a batch of ", graph.batch, ", not ",
                     options.global_batch, "; change the shapes of its inputs and its `batch`"));
  }
  if (!options.dims.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": no symbolic dim '", options.dims.begin()->first, "'; all dims are fixed"));
  }
  return graph;
}

// A text model may use the operators of the command line, so they are put into the text's own.
absl::StatusOr<Graph> FromTextWith(const std::string& text, const LoadOptions& options,
                                   const std::string& path) {
  std::string whole = text;
  for (const OpSpec& spec : options.operators) {
    std::string quoted;
    for (char c : spec.text) {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c == '\n' ? std::string("\\n") : std::string(1, c);
    }
    absl::StrAppend(&whole, "\noperators: \"", quoted, "\"");
  }
  return GraphFromText(whole, path);
}

}  // namespace

absl::StatusOr<Graph> LoadModel(const std::string& path, const LoadOptions& options,
                                ImportReport* report) {
  ImportReport unread;
  if (report == nullptr) report = &unread;
  *report = ImportReport();
  if (options.global_batch < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a batch of ", options.global_batch, "; it must be positive"));
  }
  if (InZoo(path)) {
    auto graph = ZooModel(path, options.global_batch);
    if (!graph.ok()) return graph;
    return WithOperators(*std::move(graph), options, path);
  }
  auto bytes = ReadFile(path);
  if (!bytes.ok()) {
    if (!absl::IsNotFound(bytes.status())) return bytes.status();
    std::vector<std::string> names;
    for (const ZooEntry& entry : ZooEntries()) names.push_back(entry.name);
    return absl::NotFoundError(absl::StrCat(bytes.status().message(), "; give a file, or one of ",
                                            absl::StrJoin(names, ", ")));
  }
  if (absl::EndsWith(path, ".onnx")) return ImportOnnxBytes(*bytes, path, options, report);
  if (absl::EndsWith(path, ".textproto") || (LooksLikeText(*bytes) && !bytes->empty())) {
    auto graph = FromTextWith(*bytes, options, path);
    if (!graph.ok()) return graph;
    return WithOperators(*std::move(graph), options, path);
  }
  auto graph = ParseGraph(*bytes, path);
  if (graph.ok() && !graph->nodes.empty()) {
    return WithOperators(*std::move(graph), options, path);
  }
  if (absl::EndsWith(path, ".pb")) {
    // ONNX files are called .pb too.
    auto imported = ImportOnnxBytes(*bytes, path, options, report);
    if (imported.ok() || !report->unsupported.empty() || graph.ok()) return imported;
    return graph;
  }
  return ImportOnnxBytes(*bytes, path, options, report);
}

}  // namespace tandem
