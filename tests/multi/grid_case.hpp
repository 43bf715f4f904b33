// The test grid: which factors a case has, which values each factor takes, and which combinations
// make sense. Everything else (cover, threads, processes, soak) goes by these tables. Forms have a
// table of their own, algorithms are the library's; adding a size to the tests is adding a value
// here.
#pragma once

#include "multi/grid_forms.hpp"
#include "plan/spec.hpp"

#include <tutti/dtype.hpp>
#include <tutti/options.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tutti::grid {

/// shm and tcp: all ranks on one host. hosts: two pretended hosts, shared memory inside, TCP
/// between.
enum class Transport : std::uint8_t { shm, tcp, hosts };
enum class Mode : std::uint8_t { blocking, async };
/// Of every tensor of the call. step: every second element; transposed: column-major or a column.
enum class Layout : std::uint8_t { contiguous, step, transposed };
/// plain: results are exact, so that no order of reduction shows. special: NaN and infinities.
/// ordered: results are rounded and compared bit by bit with the sum in order of ranks, on a
/// deterministic group.
enum class Values : std::uint8_t { plain, special, ordered };

enum class Factor : std::uint8_t {
  form,
  algorithm,
  dtype,
  reduce,
  count,
  transport,
  world,
  mode,
  layout,
  values,
};
inline constexpr std::size_t kFactorCount = 10;

/// Names of a factor's values, as case lines spell them; the value is the index.
std::span<const std::string_view> values_of(Factor factor);
std::string_view name_of(Factor factor);

struct Case {
  std::array<std::uint8_t, kFactorCount> level{};
  std::uint64_t seed = 0;  ///< of the grid; a case's data depend on it and on the levels

  std::uint8_t& operator[](Factor factor) { return level[static_cast<std::size_t>(factor)]; }
  std::uint8_t operator[](Factor factor) const { return level[static_cast<std::size_t>(factor)]; }
  bool operator==(const Case&) const = default;

  const Form& form() const { return kForms[(*this)[Factor::form]]; }
  Op op() const { return form().op; }
  /// Empty: the library chooses.
  std::string_view algorithm() const;
  DType dtype() const { return static_cast<DType>((*this)[Factor::dtype]); }
  bool reduces() const { return (*this)[Factor::reduce] != 0; }
  /// Only if it reduces.
  ReduceOp reduce() const { return static_cast<ReduceOp>((*this)[Factor::reduce] - 1); }
  Transport transport() const { return static_cast<Transport>((*this)[Factor::transport]); }
  int world() const;
  Mode mode() const { return static_cast<Mode>((*this)[Factor::mode]); }
  Layout layout() const { return static_cast<Layout>((*this)[Factor::layout]); }
  Values values() const { return static_cast<Values>((*this)[Factor::values]); }

  /// Elements of one rank's block. Sizes around a threshold count what a rank contributes, which
  /// for some operations is a block for every rank.
  std::size_t block_elements() const;
  /// For data, roots and whatever else is drawn.
  std::uint64_t hash() const;
  int root() const { return static_cast<int>(hash() % static_cast<std::uint64_t>(world())); }
};

/// Host of a rank in Transport::hosts.
int host_of(int rank, int world);

/// Whether the form has the algorithm and a reduce operation is given if it wants one.
bool exists(const Case& test);
/// Whether the whole combination makes sense: besides, the library would run that algorithm rather
/// than fall back to another one, the dtype has the reduce operation, and so on.
bool legal(const Case& test);

/// "all_reduce ring f32 sum n+1 tcp 5 async step plain seed=1", and back.
std::string to_line(const Case& test);
std::optional<Case> parse_line(std::string_view line);

}  // namespace tutti::grid
