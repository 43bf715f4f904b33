// Fingerprint: one call in 64 bits, exchanged with the first data of every operation. It is not
// only compared but also readable, so that a message can name both sides without asking the other
// one.
//   bits 0..4 op, 5..8 reduce op, 9..13 dtype, 14..30 root (2^17-1: none), 31..63 count
// A count below 2^32 is exact; above, and for counts that differ per rank, it is a hash with bit 63
// set.
#pragma once

#include "plan/op_context.hpp"
#include "plan/spec.hpp"

#include <tutti/dtype.hpp>
#include <tutti/options.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace tutti {

struct CallRecord {
  Op op = Op::barrier;
  ReduceOp reduce = ReduceOp::sum;
  DType dtype = DType::boolean;
  int root = -1;            ///< -1: the operation has none
  std::uint64_t count = 0;  ///< elements of one block, or a hash if `hashed`
  bool hashed = false;
  bool operator==(const CallRecord&) const = default;
};

std::uint64_t pack_fingerprint(const CallRecord& record);
/// Fields out of range (a damaged or hostile stamp) come back as "op" barrier with a hashed count.
CallRecord unpack_fingerprint(std::uint64_t fingerprint);

/// Hash of a sequence of calls: of those before, and the next one's fingerprint.
std::uint64_t extend_history(std::uint64_t history, std::uint64_t fingerprint);

/// Mixes counts that differ per rank into one number that all ranks compute alike.
std::uint64_t hash_counts(std::span<const std::uint64_t> counts);

/// "all_reduce(sum) of 1000 float32", "broadcast(root 1) of 4 int64", "barrier".
std::string describe(const CallRecord& record);

/// What `peer` called and what this rank called, and which of it must be equal.
std::string describe_difference(const OpContext& context, std::uint64_t mine, std::uint64_t theirs,
                                int peer);

}  // namespace tutti
