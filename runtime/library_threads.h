// How many threads a library's kernel may use: a rank's share of the cores where the work pays for
// waking them, else the rank's own thread alone.
#ifndef TANDEM_RUNTIME_LIBRARY_THREADS_H_
#define TANDEM_RUNTIME_LIBRARY_THREADS_H_

namespace tandem {

// Of the calling thread, for all kernels it prepares and runs; 1 until it is called.
void SetLibraryThreads(int threads);

// While in scope, the calling thread's library calls use the share if `flops` are enough for it.
// The same work must be given when a kernel is prepared and when it runs.
class LibraryThreads {
 public:
  explicit LibraryThreads(double flops);
  ~LibraryThreads();
  LibraryThreads(const LibraryThreads&) = delete;
  LibraryThreads& operator=(const LibraryThreads&) = delete;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_LIBRARY_THREADS_H_
