// Which repeated region (layer) each node of a forward graph belongs to, read off the names of the
// parameters ("h.5.attn.weight", "layers_12/..."): nodes that read none belong where their data
// comes from, or goes to.
#ifndef TANDEM_MODELS_ONNX_BLOCK_TAGS_H_
#define TANDEM_MODELS_ONNX_BLOCK_TAGS_H_

#include <optional>
#include <string>
#include <utility>

#include "pcg/graph/graph.h"

namespace tandem {

// ("encoder.layer", 3) of "encoder.layer.3.output.bias"; nothing if no number stands alone.
std::optional<std::pair<std::string, int>> LayerOfName(const std::string& name);

// Sets Node::block. Blocks are numbered in order of first use, over all sequences of layers
// (encoder, then decoder); nodes before, between and after get -1.
void TagBlocks(Graph* graph);

}  // namespace tandem

#endif  // TANDEM_MODELS_ONNX_BLOCK_TAGS_H_
