#include "plan/op_context.hpp"

#include <fmt/format.h>

namespace tutti {

std::string describe(const OpContext& context) {
  return fmt::format("{} #{} on group '{}' (rank {} of {})", context.op, context.sequence,
                     context.group, context.seat.rank, context.seat.size);
}

}  // namespace tutti
