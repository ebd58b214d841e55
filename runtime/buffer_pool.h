// Memory of one rank: aligned blocks, reused after they are given back, with the peak of what was
// live at once.
#ifndef TANDEM_RUNTIME_BUFFER_POOL_H_
#define TANDEM_RUNTIME_BUFFER_POOL_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <utility>

namespace tandem {

template <typename T>
class BufferPool {
 public:
  class Block {
   public:
    T* data() const { return data_.get(); }
    bool alive() const { return data_ != nullptr; }
    int64_t elements() const { return elements_; }

   private:
    friend class BufferPool;
    struct Free {
      void operator()(T* p) const { std::free(p); }
    };
    std::unique_ptr<T, Free> data_;
    int64_t elements_ = 0;
    int64_t capacity_ = 0;
  };

  // Uninitialised. Throws std::bad_alloc, as new does.
  Block Take(int64_t elements) {
    Block block;
    // The smallest free block that is not wastefully large.
    const int64_t wanted = (std::max<int64_t>(elements, 1) + kUnit - 1) / kUnit * kUnit;
    const auto fit = free_.lower_bound(wanted);
    if (fit != free_.end() && fit->first <= wanted + wanted / 2) {
      block = std::move(fit->second);
      free_.erase(fit);
    } else {
      const auto bytes = static_cast<size_t>(wanted) * sizeof(T);
      block.data_.reset(static_cast<T*>(std::aligned_alloc(64, bytes)));
      if (block.data_ == nullptr) throw std::bad_alloc();
      block.capacity_ = wanted;
    }
    block.elements_ = elements;
    live_bytes_ += elements * static_cast<int64_t>(sizeof(T));
    peak_bytes_ = std::max(peak_bytes_, live_bytes_);
    return block;
  }

  void Give(Block& block) {
    if (!block.alive()) return;
    live_bytes_ -= block.elements_ * static_cast<int64_t>(sizeof(T));
    const int64_t capacity = block.capacity_;
    free_.emplace(capacity, std::move(block));
    block = Block();
  }

  // Memory that is in use beside the blocks (scratch of a kernel).
  void NoteScratch(int64_t elements) {
    peak_bytes_ = std::max(peak_bytes_, live_bytes_ + elements * static_cast<int64_t>(sizeof(T)));
  }

  int64_t live_bytes() const { return live_bytes_; }
  int64_t peak_bytes() const { return peak_bytes_; }

 private:
  static constexpr int64_t kUnit = 64;  // elements
  std::multimap<int64_t, Block> free_;  // by capacity
  int64_t live_bytes_ = 0;
  int64_t peak_bytes_ = 0;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_BUFFER_POOL_H_
