// The tuning table: which algorithm, segment size and ring length runs which operation, by facts
// that are equal on all ranks. Rows of a file (TUTTI_TUNING) come before the built-in ones; the
// first row that matches a call, and whose algorithm fits it, decides. What no row decides is left
// to select.cpp. docs/performance.md, "Tuning", has the format for people.
//
// All ranks of a job have equal tables: they compare digests when the job starts (connect.hpp).
#pragma once

#include "plan/spec.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// An algorithm by name, and how it runs: "ring", "direct_staged,segment=64K,ahead=1,ring=512K".
/// What is left out (0, -1) is as the table has it elsewhere.
struct Choice {
  std::string_view algorithm{};  ///< a constant: one of selectable_names()
  std::size_t segment = 0;       ///< direct_staged: bytes per segment
  int ahead = -1;                ///< direct_staged: segments that copies into the ring run ahead
  std::size_t ring = 0;          ///< direct_staged: bytes of the ring that are used

  bool operator==(const Choice&) const = default;
};

/// Throws InvalidArgument that says what is wrong with the text and what is accepted.
Choice parse_choice(std::string_view text);
std::string text_of(const Choice& choice);

/// From which to which number, both included.
struct Span {
  int from = 1;
  int to = std::numeric_limits<int>::max();

  bool contains(int number) const { return from <= number && number <= to; }
  bool operator==(const Span&) const = default;
};

struct TuningRow {
  enum class Transport : std::uint8_t { any, shm, tcp };  // shm: all ranks share memory
  static constexpr std::size_t kAnySize = std::numeric_limits<std::size_t>::max();

  std::optional<Op> op{};  ///< absent: any
  Span ranks{};
  Span per_cpu{};  ///< ranks per CPU of the host, rounded up; only with shm
  Transport transport = Transport::any;
  std::size_t up_to = kAnySize;  ///< bytes that a rank contributes
  Choice choice{};

  bool operator==(const TuningRow&) const = default;
};

class TuningTable {
 public:
  /// The built-in rows alone.
  TuningTable() = default;
  TuningTable(std::vector<TuningRow> rows, std::string source);
  /// `source` names the text in messages. InvalidArgument: source, line, what was expected.
  static TuningTable parse(std::string_view text, const std::string& source);
  /// An empty path: built-in rows alone. InvalidArgument if the file cannot be read.
  static TuningTable load(const std::string& path);

  /// Rows of the file.
  std::span<const TuningRow> rows() const { return rows_; }
  static std::span<const TuningRow> built_in();
  /// The file's rows as a file: what parse() makes equal rows of.
  std::string text() const;
  /// 16 hex digits; equal for equal rows, whatever comments and spaces are around them.
  std::string digest() const;
  /// "built-in", or the file.
  const std::string& source() const { return source_; }

 private:
  std::vector<TuningRow> rows_{};
  std::string source_ = "built-in";
};

/// What ranks compare when they start, "DIGEST SOURCE": digests have to be equal, sources not.
std::string identity_of(const TuningTable& table);

/// One row as a line of a file.
std::string text_of(const TuningRow& row);

}  // namespace tutti
