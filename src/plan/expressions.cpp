// Hash-consed expression trees with the set of contributing ranks beside each node.
#include "plan/expressions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace tutti {

namespace {

constexpr int kWordBits = 64;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

int first_common(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  for (std::size_t word = 0; word < a.size(); ++word) {
    if (const std::uint64_t common = a[word] & b[word]; common != 0) {
      return static_cast<int>(word) * kWordBits + std::countr_zero(common);
    }
  }
  return -1;
}

}  // namespace

Expressions::Expressions(int world_size) : world_size_(world_size) {}

std::size_t Expressions::Hash::operator()(const Node& node) const {
  std::uint64_t mix = static_cast<std::uint32_t>(node.left);
  mix = (mix << 32U) | static_cast<std::uint32_t>(node.right);
  mix = (mix ^ static_cast<std::uint64_t>(node.kind)) * 0x9e3779b97f4a7c15ULL;
  return static_cast<std::size_t>(mix ^ (mix >> 29U));
}

Expressions::Id Expressions::intern(const Node& node, int block, const Ranks& ranks) {
  const auto [place, is_new] = ids_.try_emplace(node, static_cast<Id>(nodes_.size()));
  if (is_new) {
    // `ranks` may be an element of ranks_, which push_back can move: copy first.
    Ranks copy = ranks;
    nodes_.push_back(node);
    blocks_.push_back(block);
    ranks_.push_back(std::move(copy));
  }
  return place->second;
}

Expressions::Id Expressions::known(const Node& node) const {
  const auto place = ids_.find(node);
  return place == ids_.end() ? kInvalid : place->second;
}

Expressions::Id Expressions::refuse(std::string why) {
  error_ = std::move(why);
  return kInvalid;
}

Expressions::Id Expressions::input(int rank, int block) {
  if (const Id id = known({Kind::input, rank, block}); id != kInvalid) {
    return id;
  }
  Ranks ranks(at((world_size_ + kWordBits - 1) / kWordBits));
  ranks[at(rank / kWordBits)] |= std::uint64_t{1} << static_cast<unsigned>(rank % kWordBits);
  return intern({Kind::input, rank, block}, block, ranks);
}

Expressions::Id Expressions::load(Id source) {
  if (nodes_[at(source)].kind != Kind::input) {
    return refuse(fmt::format("loads {}, which is not an input", text(source)));
  }
  return intern({Kind::load, source, 0}, blocks_[at(source)], ranks_[at(source)]);
}

Expressions::Id Expressions::combine(Id left, Id right) {
  if (const Id id = known({Kind::combine, left, right}); id != kInvalid) {
    return id;
  }
  if (!wide(left) || !wide(right)) {
    return refuse(fmt::format("combines {} with {}; both have to be loaded and not yet finished",
                              text(left), text(right)));
  }
  if (blocks_[at(left)] != blocks_[at(right)]) {
    return refuse(fmt::format("combines {} with {}: different blocks", text(left), text(right)));
  }
  if (const int twice = first_common(ranks_[at(left)], ranks_[at(right)]); twice >= 0) {
    return refuse(fmt::format("combines {} with {}: the contribution of rank {} comes in twice",
                              text(left), text(right), twice));
  }
  Ranks both = ranks_[at(left)];
  for (std::size_t word = 0; word < both.size(); ++word) {
    both[word] |= ranks_[at(right)][word];
  }
  return intern({Kind::combine, left, right}, blocks_[at(left)], both);
}

Expressions::Id Expressions::finish(Id source) {
  if (!wide(source)) {
    return refuse(
        fmt::format("finishes {}, which is not in the accumulator's dtype", text(source)));
  }
  return intern({Kind::finish, source, 0}, blocks_[at(source)], ranks_[at(source)]);
}

Expressions::Id Expressions::reduce_once(std::span<const Id> sources) {
  Id sum = kInvalid;
  for (const Id source : sources) {
    const Id loaded = load(source);
    if (loaded == kInvalid) {
      return kInvalid;
    }
    sum = sum == kInvalid ? loaded : combine(sum, loaded);
    if (sum == kInvalid) {
      return kInvalid;
    }
  }
  return finish(sum);
}

Expressions::Id Expressions::rank_order(int block) {
  std::vector<Id> inputs;
  for (int rank = 0; rank < world_size_; ++rank) {
    inputs.push_back(input(rank, block));
  }
  return reduce_once(inputs);
}

bool Expressions::wide(Id id) const {
  return nodes_[at(id)].kind == Kind::load || nodes_[at(id)].kind == Kind::combine;
}

bool Expressions::reduces(Id id, int block) const {
  int ranks = 0;
  for (const std::uint64_t word : ranks_[at(id)]) {
    ranks += std::popcount(word);
  }
  return nodes_[at(id)].kind == Kind::finish && blocks_[at(id)] == block && ranks == world_size_;
}

std::string Expressions::tree(Id id) const {
  const Node& node = nodes_[at(id)];
  switch (node.kind) {
    case Kind::input:
      return fmt::to_string(node.left);
    case Kind::combine:
      return fmt::format("({}+{})", tree(node.left), tree(node.right));
    case Kind::load:
    case Kind::finish:
      break;
  }
  return tree(node.left);
}

std::string Expressions::text(Id id) const {
  if (nodes_[at(id)].kind == Kind::input) {
    return fmt::format("block {} of rank {}", blocks_[at(id)], nodes_[at(id)].left);
  }
  const char* state = nodes_[at(id)].kind == Kind::finish ? "finished" : "partial";
  return fmt::format("{} {} of block {}", state, tree(id), blocks_[at(id)]);
}

}  // namespace tutti
