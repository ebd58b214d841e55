#include "runtime/library_threads.h"

#include <algorithm>

// Of libgomp, which oneDNN brings: threads of the calling thread's parallel regions.
extern "C" void omp_set_num_threads(int threads);

namespace tandem {
namespace {

constexpr double kFlopsWorthThreads = 4e6;  // some 100 microseconds of one core

thread_local int share = 1;

}  // namespace

void SetLibraryThreads(int threads) {
  share = std::max(1, threads);
  omp_set_num_threads(1);
}

LibraryThreads::LibraryThreads(double flops) {
  omp_set_num_threads(flops >= kFlopsWorthThreads ? share : 1);
}
LibraryThreads::~LibraryThreads() { omp_set_num_threads(1); }

}  // namespace tandem
