#include "pcg/io/record.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pcg/io/utf8.h"

namespace tandem {
namespace {

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : ValidUtf8(text)) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += absl::StrFormat("\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// Threads in the order in which they are shown: host, compute, communication by level.
int ThreadOf(const Span& span) {
  switch (span.stream) {
    case Stream::kHost:
      return 0;
    case Stream::kCompute:
      return 1;
    case Stream::kCommunication:
      return 2 + span.level;
  }
  return 1;
}

std::string ThreadName(int thread) {
  if (thread == 0) return "host";
  if (thread == 1) return "compute";
  return absl::StrCat("communication, level ", thread - 2);
}

std::string Metadata(const char* what, int64_t device, int thread, const std::string& name) {
  return absl::StrCat("{\"name\":\"", what, "\",\"ph\":\"M\",\"pid\":", device, ",\"tid\":", thread,
                      ",\"args\":{\"name\":", Quoted(name), "}}");
}

}  // namespace

std::string TraceJson(const Record& record, const std::string& title) {
  std::map<int64_t, std::map<int, bool>> threads;
  for (const Span& span : record.spans) threads[span.device][ThreadOf(span)] = true;
  std::string out = absl::StrCat(
      "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"title\":", Quoted(title),
      ",\"step_seconds\":", absl::StrFormat("%.9g", record.step_seconds), "},\"traceEvents\":[");
  const char* separator = "\n";
  const auto append = [&](const std::string& event) {
    absl::StrAppend(&out, separator, event);
    separator = ",\n";
  };
  for (const auto& [device, of_device] : threads) {
    append(Metadata("process_name", device, 0, absl::StrCat("device ", device)));
    for (const auto& [thread, used] : of_device) {
      append(Metadata("thread_name", device, thread, ThreadName(thread)));
      append(absl::StrCat("{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":", device,
                          ",\"tid\":", thread, ",\"args\":{\"sort_index\":", thread, "}}"));
    }
  }
  for (const Span& span : record.spans) {
    // Microseconds, to the picosecond.
    append(absl::StrCat("{\"name\":", Quoted(span.name), ",\"cat\":", Quoted(span.category),
                        ",\"ph\":\"X\",\"pid\":", span.device, ",\"tid\":", ThreadOf(span),
                        absl::StrFormat(",\"ts\":%.6f,\"dur\":%.6f", 1e6 * span.start_seconds,
                                        1e6 * std::max(0.0, span.end_seconds - span.start_seconds)),
                        ",\"args\":{\"instruction\":", span.instruction,
                        ",\"micro_batch\":", span.micro_batch, "}}"));
  }
  return absl::StrCat(out, "\n]}\n");
}

}  // namespace tandem
