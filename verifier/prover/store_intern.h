// Internal to store: interning by the bytes of a term.
#ifndef TANDEM_VERIFIER_PROVER_STORE_INTERN_H_
#define TANDEM_VERIFIER_PROVER_STORE_INTERN_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "verifier/prover/store.h"

namespace tandem::prover {

// Bytes of a term, for interning.
class Key {
 public:
  Key& Int(int64_t x) {
    bytes_.append(reinterpret_cast<const char*>(&x), sizeof(x));
    return *this;
  }
  template <typename Tag>
  Key& Add(Id<Tag> id) {
    bytes_.append(reinterpret_cast<const char*>(&id.value), sizeof(id.value));
    return *this;
  }
  template <typename Tag>
  Key& Add(const std::vector<Id<Tag>>& ids) {
    Int(static_cast<int64_t>(ids.size()));
    for (Id<Tag> id : ids) Add(id);
    return *this;
  }
  Key& Text(const std::string& s) {
    Int(static_cast<int64_t>(s.size()));
    bytes_ += s;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

inline int64_t FloorDivide(int64_t a, int64_t b) {
  int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

constexpr size_t kMaxNodes = 4'000'000;

struct Store::Index {
  std::unordered_map<std::string, int32_t> atoms, polys, guards, factors, bodies, values;
  template <typename Data, typename MakeData>
  static int32_t Find(std::unordered_map<std::string, int32_t>& table, std::vector<Data>& nodes,
                      const Key& key, MakeData make) {
    auto [it, inserted] = table.try_emplace(key.bytes(), static_cast<int32_t>(nodes.size()));
    if (inserted) {
      if (nodes.size() > kMaxNodes) throw LimitExceeded("too many terms");
      nodes.push_back(make());
    }
    return it->second;
  }
};

}  // namespace tandem::prover

#endif  // TANDEM_VERIFIER_PROVER_STORE_INTERN_H_
