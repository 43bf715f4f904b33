// memcpy with a choice of store type: streaming stores leave the caches alone, for large outputs
// that nobody reads soon.
#pragma once

#include <cstddef>

namespace tutti {

enum class StoreType { cached, streaming };

/// Where vectors of every instruction set may be streamed to, in bytes.
constexpr std::size_t kStreamAlignment = 64;

void copy_bytes(void* target, const void* source, std::size_t bytes, StoreType store);

}  // namespace tutti
