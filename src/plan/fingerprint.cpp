#include "plan/fingerprint.hpp"

#include <fmt/format.h>

namespace tutti {
namespace {

static_assert(kSpecs.size() <= 32 && kReduceOpCount <= 16 && kDTypeCount <= 32,
              "fields of 5, 4 and 5 bits hold the operation, the reduce operation and the dtype");

constexpr std::uint64_t kNoRoot = (std::uint64_t{1} << 17) - 1;
constexpr std::uint64_t kHashedBit = std::uint64_t{1} << 32;  // within the 33-bit count field
constexpr std::uint64_t kCountMask = kHashedBit - 1;

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t pack_fingerprint(const CallRecord& record) {
  const bool exact = !record.hashed && record.count <= kCountMask;
  const std::uint64_t count = exact ? record.count : kHashedBit | (mix(record.count) & kCountMask);
  const std::uint64_t root =
      record.root < 0 ? kNoRoot : static_cast<std::uint64_t>(record.root) & kNoRoot;
  return static_cast<std::uint64_t>(record.op) | static_cast<std::uint64_t>(record.reduce) << 5 |
         static_cast<std::uint64_t>(record.dtype) << 9 | root << 14 | count << 31;
}

CallRecord unpack_fingerprint(std::uint64_t fingerprint) {
  const std::uint64_t op = fingerprint & 31;
  const std::uint64_t reduce = fingerprint >> 5 & 15;
  const std::uint64_t dtype = fingerprint >> 9 & 31;
  const std::uint64_t root = fingerprint >> 14 & kNoRoot;
  const std::uint64_t count = fingerprint >> 31;
  if (op >= kSpecs.size() || reduce >= kReduceOpCount || dtype >= kDTypeCount) {
    return {.hashed = true};
  }
  return {.op = static_cast<Op>(op),
          .reduce = static_cast<ReduceOp>(reduce),
          .dtype = static_cast<DType>(dtype),
          .root = root == kNoRoot ? -1 : static_cast<int>(root),
          .count = count & kCountMask,
          .hashed = (count & kHashedBit) != 0};
}

std::uint64_t extend_history(std::uint64_t history, std::uint64_t fingerprint) {
  return mix(history * 0x9e3779b97f4a7c15U + fingerprint);
}

std::uint64_t hash_counts(std::span<const std::uint64_t> counts) {
  std::uint64_t hash = counts.size();
  for (const std::uint64_t count : counts) {
    hash = mix(hash + 0x9e3779b97f4a7c15U + count);
  }
  return hash;
}

std::string describe(const CallRecord& record) {
  if (record.op == Op::barrier) {
    return record.hashed ? "an unknown call" : "barrier";
  }
  // What travels between two ranks is the same message for both of them.
  std::string text(record.op == Op::send ? "message" : spec(record.op).name);
  if (spec(record.op).reduces) {
    text += fmt::format("({})", name(record.reduce));
  }
  if (record.root >= 0) {
    text += fmt::format("(root {})", record.root);
  }
  return record.hashed
             ? fmt::format("{} of {} elements of several counts", text, name(record.dtype))
             : fmt::format("{} of {} {}", text, record.count, name(record.dtype));
}

std::string describe_difference(const OpContext& context, std::uint64_t mine, std::uint64_t theirs,
                                int peer) {
  const CallRecord own = unpack_fingerprint(mine);
  const CallRecord other = unpack_fingerprint(theirs);
  std::string rule = "every rank must pass the same count";
  if (own.op != other.op) {
    rule = "every rank must call the same operations in the same order";
  } else if (own.root != other.root) {
    rule = "every rank must name the same root";
  } else if (own.reduce != other.reduce) {
    rule = "every rank must pass the same reduce op";
  } else if (own.dtype != other.dtype) {
    rule = "every rank must pass the same count and dtype";
  }
  return fmt::format("{}: rank {} called {}, this rank {}; {}", describe(context), peer,
                     describe(other), describe(own), rule);
}

}  // namespace tutti
