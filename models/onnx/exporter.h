// What the program that wrote a file says about its tensors. PyTorch's exporter (since 2.5) lists
// the parameters and buffers of the model it exported; others are known by how they make up names.
// Internal to the importer.
#ifndef TANDEM_MODELS_ONNX_EXPORTER_H_
#define TANDEM_MODELS_ONNX_EXPORTER_H_

#include <map>
#include <string>

#include "onnx/onnx.pb.h"

namespace tandem {

class Exporter {
 public:
  explicit Exporter(const onnx::ModelProto& model);

  // The file says that the initialiser is a parameter of the model, or that it is a tensor of the
  // model but none (a buffer, a constant).
  bool IsParameter(const std::string& name) const { return KindOf(name) == Kind::kParameter; }
  bool IsBuffer(const std::string& name) const { return KindOf(name) == Kind::kBuffer; }
  // The name is the exporter's: the tensor was computed, or is a constant of the program.
  bool MadeUp(const std::string& name) const;
  // The name is certainly of a person's choice.
  bool Chosen(const std::string& name) const {
    return (!kinds_.empty() || torch_script_) && !MadeUp(name);
  }
  // What is read in several places is one tensor of the model: none were merged, or it shows which
  // (copies).
  bool exact() const { return exact_; }
  // Results of Identity nodes that are tensors of the model with the same values as an initialiser,
  // merged by PyTorch's older exporter: name to the initialiser's.
  const std::map<std::string, std::string>& copies() const { return copies_; }
  // The two are different tensors of the model, whatever their values.
  bool Apart(const std::string& a, const std::string& b) const;
  // The file lists parameters that it does not have under their names.
  bool lacks_parameters() const { return lacks_parameters_; }

 private:
  enum class Kind { kNone, kParameter, kBuffer };
  Kind KindOf(const std::string& name) const {
    const auto it = kinds_.find(name);
    return it == kinds_.end() ? Kind::kNone : it->second;
  }

  void FindCopies(const onnx::GraphProto& graph);
  void ReadSignature(const onnx::GraphProto& graph);

  std::map<std::string, Kind> kinds_;
  std::map<std::string, std::string> copies_;
  bool torch_script_ = false;  // PyTorch's older exporter, which lists nothing but keeps names
  bool exact_ = false;
  bool lacks_parameters_ = false;
};

}  // namespace tandem

#endif  // TANDEM_MODELS_ONNX_EXPORTER_H_
