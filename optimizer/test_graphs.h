// Small forward graphs for tests of the search.
#ifndef TANDEM_OPTIMIZER_TEST_GRAPHS_H_
#define TANDEM_OPTIMIZER_TEST_GRAPHS_H_

#include <string>
#include <vector>

#include "pcg/graph/graph.h"
#include "substitutions/apply.h"

namespace tandem {

// x[batch, width] -> relu layers -> logits[batch, classes].
Graph MlpGraph(int64_t batch, int64_t width, int64_t hidden, int64_t classes, int layers,
               bool bias = true);
// Token ids [batch, seq] -> embedding -> blocks of attention and MLP -> logits [batch, seq, vocab].
Graph TransformerGraph(int64_t batch, int64_t seq, int64_t heads, int64_t head_dim, int64_t vocab,
                       int blocks, bool bias = true);

// All built-in rules and rows taken as proved, for tests of the search alone.
ProvedRuleSet TrustingRules();

}  // namespace tandem

#endif  // TANDEM_OPTIMIZER_TEST_GRAPHS_H_
