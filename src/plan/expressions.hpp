// What a block holds when plans run symbolically: an expression over the ranks' inputs. Equal
// expressions have equal numbers, so comparing two blocks means comparing two ints, and "equal
// bits on all ranks" is checked as "equal trees".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tutti {

class Expressions {
 public:
  /// Number of an expression; >= 0.
  using Id = int;
  /// What an operation returns when its operands do not fit; `error()` says why.
  static constexpr Id kInvalid = -1;

  explicit Expressions(int world_size);

  /// Block `block` of what `rank` brought, in the input's dtype.
  Id input(int rank, int block);
  /// An input, widened into the accumulator's dtype.
  Id load(Id source);
  /// `left` op `right`, both of one block and with no contribution in common.
  Id combine(Id left, Id right);
  /// Rounded into the input's dtype, divided for avg.
  Id finish(Id source);
  /// finish(... combine(combine(load s0, load s1), load s2) ...).
  Id reduce_once(std::span<const Id> sources);
  /// reduce_once over every rank's input of that block: what deterministic mode promises.
  Id rank_order(int block);

  /// Whether it has the accumulator's dtype.
  bool wide(Id id) const;
  /// Whether it is the finished reduction of `block` with every rank's contribution.
  bool reduces(Id id, int block) const;
  /// "block 3 of rank 1", "finished ((0+1)+2) of block 3".
  std::string text(Id id) const;
  const std::string& error() const { return error_; }

 private:
  enum class Kind : std::uint8_t { input, load, combine, finish };
  struct Node {
    Kind kind;
    int left;   // input: the rank
    int right;  // input: the block; load and finish: 0
    bool operator==(const Node&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Node& node) const;
  };
  using Ranks = std::vector<std::uint64_t>;  // a bit per rank

  Id known(const Node& node) const;
  Id intern(const Node& node, int block, const Ranks& ranks);
  Id refuse(std::string why);
  std::string tree(Id id) const;

  int world_size_;
  std::vector<Node> nodes_;
  std::vector<int> blocks_;   // the block a node is about
  std::vector<Ranks> ranks_;  // whose contributions are in a node
  std::unordered_map<Node, Id, Hash> ids_;
  std::string error_;
};

}  // namespace tutti
