// What happened, or would happen, on a device: spans on streams. Written by the simulator's
// timeline and by the runtime alike, so that one trace can show both.
#ifndef TANDEM_PCG_IO_RECORD_H_
#define TANDEM_PCG_IO_RECORD_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

enum class Stream : uint8_t { kCompute, kCommunication, kHost };

struct Span {
  std::string name;
  std::string category;  // kernel kind or collective kind
  Stream stream = Stream::kCompute;
  int level = 0;  // kCommunication: 0 inside a node, 1 across nodes
  int64_t device = 0;
  int instruction = -1;  // in the Program
  int micro_batch = 0;
  double start_seconds = 0;
  double end_seconds = 0;
};

struct Record {
  std::vector<Span> spans;  // by start, then stream
  double step_seconds = 0;
};

// Chrome trace event format, which Perfetto opens. One process a device, one thread a stream.
std::string TraceJson(const Record& record, const std::string& title);

}  // namespace tandem

#endif  // TANDEM_PCG_IO_RECORD_H_
