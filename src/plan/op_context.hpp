// OpContext: who is doing what, for every message about an operation.
#pragma once

#include "plan/seat.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

struct OpContext {
  std::string_view group{};
  Seat seat{};
  std::string_view op{};
  std::uint64_t sequence = 0;
};

/// "all_reduce #41 on group 'dp' (rank 2 of 8)". The one place that words it.
std::string describe(const OpContext& context);

}  // namespace tutti
