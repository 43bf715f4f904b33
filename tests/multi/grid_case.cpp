#include "multi/grid_case.hpp"

#include "kernels/reference.hpp"
#include "plan/hierarchy.hpp"
#include "plan/select.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace tutti::grid {
namespace {

/// How many elements: `fixed`, or the world size and `more`, or `bytes` of contribution and `more`.
struct CountRow {
  std::string_view name;
  std::size_t fixed = 0;
  std::size_t bytes = 0;
  bool world = false;
  int more = 0;
};
constexpr std::array kCounts{
    CountRow{.name = "0"},
    CountRow{.name = "1", .fixed = 1},
    CountRow{.name = "n-1", .world = true, .more = -1},
    CountRow{.name = "n", .world = true},
    CountRow{.name = "n+1", .world = true, .more = 1},
    CountRow{.name = "1021", .fixed = 1021},
    CountRow{.name = "70001", .fixed = 70001},
    CountRow{.name = "4KiB-1", .bytes = 4096, .more = -1},
    CountRow{.name = "4KiB", .bytes = 4096},
    CountRow{.name = "4KiB+1", .bytes = 4096, .more = 1},
    CountRow{.name = "32KiB-1", .bytes = 32768, .more = -1},
    CountRow{.name = "32KiB", .bytes = 32768},
    CountRow{.name = "32KiB+1", .bytes = 32768, .more = 1},
};
constexpr std::size_t kLarge = 70001;
/// Elements that the largest block of an uneven form has more than the others' common size.
constexpr std::size_t kMostUneven = 2;

constexpr std::array<int, 6> kWorlds{1, 2, 3, 4, 5, 8};

constexpr std::array<std::string_view, kFactorCount> kFactorNames{
    "form",      "algorithm", "dtype", "reduce", "count",
    "transport", "world",     "mode",  "layout", "values"};
constexpr std::array<std::string_view, 3> kTransportNames{"shm", "tcp", "hosts"};
constexpr std::array<std::string_view, 6> kWorldNames{"1", "2", "3", "4", "5", "8"};
constexpr std::array<std::string_view, 2> kModeNames{"blocking", "async"};
constexpr std::array<std::string_view, 3> kLayoutNames{"contiguous", "step", "transposed"};
constexpr std::array<std::string_view, 3> kValuesNames{"plain", "special", "ordered"};

template <std::size_t kSize, class Row>
constexpr std::array<std::string_view, kSize> names(const std::array<Row, kSize>& rows) {
  std::array<std::string_view, kSize> all{};
  for (std::size_t i = 0; i < kSize; ++i) {
    all[i] = rows[i].name;
  }
  return all;
}
constexpr auto kCountNames = names(kCounts);
constexpr std::array<std::string_view, kDTypeCount> kDTypeNames = [] {
  std::array<std::string_view, kDTypeCount> all{};
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    all[i] = kDTypes[i].short_name;
  }
  return all;
}();
constexpr std::array<std::string_view, kReduceOpCount + 1> kReduceNames = [] {
  std::array<std::string_view, kReduceOpCount + 1> all{"none"};
  for (std::size_t i = 0; i < kReduceOpCount; ++i) {
    all[i + 1] = kReduceOpNames[i];
  }
  return all;
}();

std::span<const std::string_view> form_names() {
  static const std::vector<std::string_view> kNames = [] {
    std::vector<std::string_view> all;
    for (const Form& form : kForms) {
      all.push_back(form.name);
    }
    return all;
  }();
  return kNames;
}

/// All that some operation has, after the name for the library's own choice.
std::span<const std::string_view> algorithm_values() {
  static const std::vector<std::string_view> kNames = [] {
    std::vector<std::string_view> all = selectable_names();
    all.insert(all.begin(), "auto");
    return all;
  }();
  return kNames;
}

std::uint64_t mix(std::uint64_t h, std::uint64_t value) {
  h = (h ^ value) * 0x9e3779b97f4a7c15U;
  return h ^ (h >> 29);
}

/// Numbers of the hosts as the library sees them.
Topology topology_of(const Case& test) {
  Topology topology;
  for (int rank = 0; rank < test.world(); ++rank) {
    const bool shared = test.transport() == Transport::shm;
    const bool alone = test.transport() == Transport::tcp;
    topology.host_of_rank.push_back(shared ? 0 : alone ? rank : host_of(rank, test.world()));
  }
  return topology;
}

/// What selection goes by, for the largest block of the case.
SelectionFacts facts_of(const Case& test) {
  const std::size_t elements = test.block_elements();
  const Counts counts = test.form().counts;
  const bool uneven = elements != 0 && counts == Counts::uneven;
  return {.op = test.op(),
          .dtype = test.dtype(),
          .reduce = test.reduces() ? test.reduce() : ReduceOp::sum,
          .block_bytes = (elements + (uneven ? kMostUneven : 0)) * element_bytes(test.dtype()),
          .ranks = test.world(),
          .one_host = test.world() == 1 || test.transport() == Transport::shm,
          .two_level = suits_two_level(topology_of(test)),
          .deterministic = test.values() == Values::ordered,
          .pairwise_counts = counts == Counts::pairwise,
          .uneven = uneven,
          .forced = test.algorithm()};
}

/// Whether the forced algorithm would really run.
bool takes_effect(const Case& test) { return test.algorithm() == name(select(facts_of(test), {})); }

bool values_fit(const Case& test) {
  if (test.values() == Values::plain) {
    return true;
  }
  const DTypeClass kind = info(test.dtype()).kind;
  const bool rounds = kind == DTypeClass::floating || kind == DTypeClass::complex;
  return test.reduces() &&
         (test.values() == Values::ordered ? rounds : kind == DTypeClass::floating);
}

}  // namespace

std::span<const std::string_view> values_of(Factor factor) {
  switch (factor) {
    case Factor::form:
      return form_names();
    case Factor::algorithm:
      return algorithm_values();
    case Factor::dtype:
      return kDTypeNames;
    case Factor::reduce:
      return kReduceNames;
    case Factor::count:
      return kCountNames;
    case Factor::transport:
      return kTransportNames;
    case Factor::world:
      return kWorldNames;
    case Factor::mode:
      return kModeNames;
    case Factor::layout:
      return kLayoutNames;
    case Factor::values:
      return kValuesNames;
  }
  return {};
}

std::string_view name_of(Factor factor) { return kFactorNames[static_cast<std::size_t>(factor)]; }

std::string_view Case::algorithm() const {
  const std::uint8_t index = (*this)[Factor::algorithm];
  return index == 0 ? std::string_view{} : algorithm_values()[index];
}

int Case::world() const { return kWorlds[(*this)[Factor::world]]; }

std::size_t Case::block_elements() const {
  const CountRow& row = kCounts[(*this)[Factor::count]];
  const std::size_t blocks =
      spec(op()).block_per_rank() ? static_cast<std::size_t>(world()) : std::size_t{1};
  if (row.fixed == kLarge) {
    return row.fixed / blocks;
  }
  if (row.fixed != 0) {
    return row.fixed;
  }
  std::int64_t base = row.more;
  if (row.world) {
    base += world();
  } else if (row.bytes != 0) {
    base += static_cast<std::int64_t>(row.bytes / (element_bytes(dtype()) * blocks));
  }
  return static_cast<std::size_t>(std::max<std::int64_t>(base, 0));
}

std::uint64_t Case::hash() const {
  std::uint64_t h = mix(0x853c49e6748fea9bU, seed);
  for (const std::uint8_t value : level) {
    h = mix(h, value);
  }
  return h;
}

int host_of(int rank, int world) { return world % 2 == 1 ? rank % 2 : rank * 2 / world; }

bool exists(const Case& test) {
  const Op op = test.op();
  const bool named = test.algorithm().empty() || is_selectable(op, test.algorithm());
  return named && spec(op).reduces == test.reduces();
}

bool legal(const Case& test) {
  const Op op = test.op();
  if (!exists(test)) {
    return false;
  }
  if (test.reduces() && !reference::defined(test.dtype(), test.reduce())) {
    return false;
  }
  if (op == Op::barrier && (test[Factor::dtype] != 0 || test[Factor::count] != 0 ||
                            test.layout() != Layout::contiguous)) {
    return false;
  }
  if (test.transport() == Transport::hosts && test.world() < 3) {
    return false;
  }
  if (!values_fit(test)) {
    return false;
  }
  return test.algorithm().empty() || takes_effect(test);
}

std::string to_line(const Case& test) {
  std::string line;
  for (std::size_t f = 0; f < kFactorCount; ++f) {
    line += values_of(static_cast<Factor>(f))[test.level[f]];
    line += ' ';
  }
  return line + fmt::format("seed={}", test.seed);
}

std::optional<Case> parse_line(std::string_view line) {
  Case test;
  for (std::size_t f = 0; f <= kFactorCount; ++f) {
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, space);
    line.remove_prefix(std::min(space + 1, line.size()));
    if (f == kFactorCount) {
      constexpr std::string_view kSeed = "seed=";
      const bool whole =
          word.starts_with(kSeed) &&
          std::from_chars(word.data() + kSeed.size(), word.data() + word.size(), test.seed).ptr ==
              word.data() + word.size();
      return whole && legal(test) ? std::optional(test) : std::nullopt;
    }
    const auto names = values_of(static_cast<Factor>(f));
    const auto found = std::find(names.begin(), names.end(), word);
    if (found == names.end()) {
      return std::nullopt;
    }
    test.level[f] = static_cast<std::uint8_t>(found - names.begin());
  }
  return std::nullopt;
}

}  // namespace tutti::grid
