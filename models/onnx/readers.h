// What an initialiser is used for, by the nodes that read it. Internal to the importer.
#ifndef TANDEM_MODELS_ONNX_READERS_H_
#define TANDEM_MODELS_ONNX_READERS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "onnx/onnx.pb.h"

namespace tandem {

// Nodes that read a value: (node, operand). An Identity is no reader: what reads its result reads
// the value, unless the result is one of `apart`, a tensor of its own.
using Readers = std::map<std::string, std::vector<std::pair<int, int>>>;
Readers ReadersOf(const onnx::GraphProto& graph, const std::map<std::string, std::string>& apart);

// Dims of more than one element.
size_t WideDims(const std::vector<int64_t>& dims);

// Everything computed from the value ends in sines and cosines. Start with depth 0, nothing seen.
bool LeadsToRotation(const onnx::GraphProto& graph, const Readers& readers,
                     const std::string& value, int depth, std::set<std::string>* seen);
// Something reads the value, and only operators of these names do.
bool OnlyReadBy(const onnx::GraphProto& graph, const Readers& readers, const std::string& value,
                const std::vector<std::string>& ops);
// Added to what becomes the operand of a softmax, and read by nothing else. Start with depth 0.
bool LeadsToSoftmax(const onnx::GraphProto& graph, const Readers& readers, const std::string& value,
                    int depth);
// Multiplies rows that were looked up, and nothing else: how much each counts in a bag.
bool WeighsRows(const onnx::GraphProto& graph, const Readers& readers, const std::string& value);
// Every reader needs the values themselves: scales, bounds, paddings.
bool IsSetting(const onnx::GraphProto& graph, const Readers& readers, const std::string& value);
// How often matrices are read where whole layers are applied several times, by the same operator
// each time; copies with the same bytes count as one matrix. Vectors that are read as often belong
// to those layers.
std::set<size_t> SharedLayers(const onnx::GraphProto& graph, const Readers& readers);

}  // namespace tandem

#endif  // TANDEM_MODELS_ONNX_READERS_H_
