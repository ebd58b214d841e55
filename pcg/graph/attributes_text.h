// A list of attributes as a key: equal texts, equal lists. Every digit of every number counts, and
// whatever a name or text holds, it cannot be taken for what stands behind it.
#ifndef TANDEM_PCG_GRAPH_ATTRIBUTES_TEXT_H_
#define TANDEM_PCG_GRAPH_ATTRIBUTES_TEXT_H_

#include <string>

#include "pcg/language/op_spec.h"

namespace tandem {

std::string AttributesText(const Attributes& attributes);

}  // namespace tandem

#endif  // TANDEM_PCG_GRAPH_ATTRIBUTES_TEXT_H_
