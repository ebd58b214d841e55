// Small ONNX models for tests, written down in a line a node.
#ifndef TANDEM_MODELS_ONNX_MODEL_BUILDER_H_
#define TANDEM_MODELS_ONNX_MODEL_BUILDER_H_

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "onnx/onnx.pb.h"

namespace tandem {

class OnnxModelBuilder {
 public:
  using Value = std::variant<int64_t, float, std::vector<int64_t>, std::string>;

  explicit OnnxModelBuilder(int opset = 17) {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(opset);
    model_.mutable_graph()->set_name("test");
  }

  // Dims: numbers, or names of symbols.
  void Input(const std::string& name, const std::vector<std::string>& dims,
             int type = onnx::TensorProto::FLOAT) {
    Port(model_.mutable_graph()->add_input(), name, dims, type);
  }
  void Output(const std::string& name) {
    Port(model_.mutable_graph()->add_output(), name, {}, onnx::TensorProto::FLOAT);
    model_.mutable_graph()->mutable_output(model_.graph().output_size() - 1)->clear_type();
  }
  onnx::TensorProto* Floats(const std::string& name, const std::vector<int64_t>& shape,
                            const std::vector<float>& values) {
    onnx::TensorProto* tensor = model_.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    for (int64_t extent : shape) tensor->add_dims(extent);
    for (float value : values) tensor->add_float_data(value);
    return tensor;
  }
  // Values that differ: 0.01, 0.02, ... with changing sign.
  onnx::TensorProto* Weights(const std::string& name, const std::vector<int64_t>& shape,
                             float scale = 0.01F) {
    int64_t elements = 1;
    for (int64_t extent : shape) elements *= extent;
    std::vector<float> values;
    for (int64_t i = 0; i < elements; ++i) {
      values.push_back(scale * static_cast<float>(i % 17 + 1) * (i % 3 == 1 ? -1.F : 1.F));
    }
    return Floats(name, shape, values);
  }
  onnx::TensorProto* Ints(const std::string& name, const std::vector<int64_t>& shape,
                          const std::vector<int64_t>& values) {
    onnx::TensorProto* tensor = model_.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::INT64);
    for (int64_t extent : shape) tensor->add_dims(extent);
    for (int64_t value : values) tensor->add_int64_data(value);
    return tensor;
  }
  // A weight whose data is in weights.bin, which is not there.
  void Missing(const std::string& name, const std::vector<int64_t>& shape,
               int type = onnx::TensorProto::FLOAT) {
    onnx::TensorProto* tensor = model_.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(type);
    for (int64_t extent : shape) tensor->add_dims(extent);
    tensor->set_data_location(onnx::TensorProto::EXTERNAL);
    auto* location = tensor->add_external_data();
    location->set_key("location");
    location->set_value("weights.bin");
    auto* offset = tensor->add_external_data();
    offset->set_key("offset");
    offset->set_value(std::to_string(4096 * ++missing_));
  }
  onnx::NodeProto* Node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs,
                        const std::map<std::string, Value>& attributes = {}) {
    onnx::NodeProto* node = model_.mutable_graph()->add_node();
    node->set_op_type(op);
    node->set_name("node_" + outputs[0]);
    for (const auto& input : inputs) node->add_input(input);
    for (const auto& output : outputs) node->add_output(output);
    for (const auto& [name, value] : attributes) {
      onnx::AttributeProto* attribute = node->add_attribute();
      attribute->set_name(name);
      if (const auto* i = std::get_if<int64_t>(&value)) {
        attribute->set_type(onnx::AttributeProto::INT);
        attribute->set_i(*i);
      } else if (const auto* f = std::get_if<float>(&value)) {
        attribute->set_type(onnx::AttributeProto::FLOAT);
        attribute->set_f(*f);
      } else if (const auto* s = std::get_if<std::string>(&value)) {
        attribute->set_type(onnx::AttributeProto::STRING);
        attribute->set_s(*s);
      } else {
        attribute->set_type(onnx::AttributeProto::INTS);
        for (int64_t x : std::get<std::vector<int64_t>>(value)) attribute->add_ints(x);
      }
    }
    return node;
  }
  // Says that PyTorch's older exporter wrote the file, which names nodes after modules.
  void OlderTorch() {
    model_.set_producer_name("pytorch");
    for (auto& node : *model_.mutable_graph()->mutable_node()) {
      if (node.name().rfind("node_", 0) == 0) node.set_name("/" + node.name());
    }
  }
  // What its newer one says of the model's tensors, a line each ("p_w: PARAMETER target='w'"). The
  // field is newer than the schema that this is built with.
  void Signature(const std::string& lines) {
    model_.set_producer_name("pytorch");
    onnx::StringStringEntryProto entry;
    entry.set_key("pkg.torch.export.ExportedProgram.graph_signature");
    entry.set_value("\n# inputs\n" + lines + "\n");
    const std::string bytes = entry.SerializeAsString();
    std::string field = "\x82\x01";  // 16, of bytes
    size_t left = bytes.size();
    for (; left >= 128; left /= 128) field += static_cast<char>(left % 128 + 128);
    field += static_cast<char>(left);
    model_.mutable_graph()->MergeFromString(field + bytes);
  }
  onnx::ModelProto& model() { return model_; }
  std::string Bytes() const { return model_.SerializeAsString(); }

 private:
  static void Port(onnx::ValueInfoProto* port, const std::string& name,
                   const std::vector<std::string>& dims, int type) {
    port->set_name(name);
    auto* tensor = port->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (const std::string& dim : dims) {
      auto* entry = tensor->mutable_shape()->add_dim();
      const bool number = dim.find_first_not_of("-0123456789") == std::string::npos;
      if (number) {
        entry->set_dim_value(std::stoll(dim));
      } else {
        entry->set_dim_param(dim);
      }
    }
  }

  onnx::ModelProto model_;
  int missing_ = 0;
};

}  // namespace tandem

#endif  // TANDEM_MODELS_ONNX_MODEL_BUILDER_H_
