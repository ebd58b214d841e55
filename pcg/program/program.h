// What one class of devices executes: kernels on local pieces, collectives, local copies, frees, in
// issue order. Simulator, runtime and verifier all read this and nothing else. The same Program
// serves every device of its class; device coordinates are a run-time input.
#ifndef TANDEM_PCG_PROGRAM_PROGRAM_H_
#define TANDEM_PCG_PROGRAM_PROGRAM_H_

#include <string>
#include <vector>

#include "pcg/dtype.h"
#include "pcg/graph/graph.h"
#include "pcg/ids.h"
#include "pcg/layout/layout.h"
#include "pcg/layout/reshard.h"

namespace tandem {

enum class BufferRole : uint8_t { kInput, kParameter, kState, kConstant, kActivation, kGradient };

// A local piece. `tensor` and `layout` are the claim "this buffer is that piece of that logical
// tensor of the PCG"; the verifier checks every claim and trusts none.
struct Buffer {
  std::string name;
  TensorId tensor;
  Layout layout;
  FactoredShape local_shape;
  DType dtype = DType::kF32;
  BufferRole role = BufferRole::kActivation;
  int64_t bytes = 0;
  bool operator==(const Buffer&) const = default;
};

enum class InstructionKind : uint8_t {
  kKernel,      // node's operator on local pieces
  kCollective,  // kAllGather, kAllReduce, kReduceScatter, kAllToAll over `axes` of the mesh; of
                // several values at once (bundle.h): outputs[i] is the step of inputs[i]
  kLocal,       // kSlice, kUnstack, kKeepFirst: a copy of a local buffer or of part of it
  kLoop,        // kAccumulate, kStack: runs each micro-batch, adds to / writes into `outputs[0]`,
                // which is valid after the loop. The first micro-batch's kAccumulate writes.
  kFree,        // inputs are dead from here
  kStoreState,  // inputs[0] becomes the stored value of state buffer outputs[0] at the step's end
};

struct Instruction {
  InstructionKind kind = InstructionKind::kKernel;
  std::string name;
  std::vector<BufferId> inputs;
  std::vector<BufferId> outputs;
  // kKernel
  NodeId node;     // of the PCG
  std::string op;  // repeated, so that the Program reads alone
  Attributes attributes;
  std::vector<std::vector<int>> size_axes;  // per size of the node's instance: mesh axes, ascending
  // steps
  StepKind step = StepKind::kSlice;
  std::vector<int> axes;
  Combiner combiner = Combiner::kSum;
  bool operator==(const Instruction&) const = default;
};

// Instructions [loop_begin, loop_end) run once a micro-batch; what is before and after, once a
// step. Without a temporal axis the loop is empty. Every buffer that is neither a source, an
// output, the loss nor stored is freed exactly once: inside the loop if it was made there by
// anything but kLoop.
struct Program {
  Mesh mesh;
  std::vector<int64_t> devices;  // the class
  std::vector<Buffer> buffers;
  std::vector<Instruction> instructions;
  int loop_begin = 0;
  int loop_end = 0;
  // Where the graph's inputs, outputs, loss and states are.
  std::vector<BufferId> inputs;
  std::vector<BufferId> outputs;
  BufferId loss;
  std::vector<BufferId> states;  // parameters and states, in graph order of sources
  const Buffer& buffer(BufferId id) const { return buffers[id.index()]; }
  bool operator==(const Program&) const = default;
};

}  // namespace tandem

#endif  // TANDEM_PCG_PROGRAM_PROGRAM_H_
