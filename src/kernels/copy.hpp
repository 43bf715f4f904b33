// memcpy with a choice of store type: streaming stores leave the caches alone, for large outputs
// that nobody reads soon.
#pragma once

#include <cstddef>

namespace tutti {

enum class StoreType { cached, streaming };

void copy_bytes(void* target, const void* source, std::size_t bytes, StoreType store);

}  // namespace tutti
