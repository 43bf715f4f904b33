// What `tutti bench` was asked for: the command line's texts, parsed once and checked.
#pragma once

#include "cli/bench_ops.hpp"

#include <tutti/dtype.hpp>
#include <tutti/options.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace tutti::cli {

/// As typed; the names are those of the flags.
struct BenchFlags {
  int ranks = 0;  ///< 0: as many as there are CPUs, at least 2
  std::vector<std::string> ops{};
  std::vector<std::string> more_ops{};  ///< --ops
  std::string dtypes = "f32";
  std::string min = "4";
  std::string max = "256M";
  int factor = 4;
  int reps = 5;
  double time_s = 0.15;
  double cap_s = 8;
  std::string label{};
  std::string op = "sum";
  std::string plot{};
  std::string transport{};
  std::string backend{};
  std::string algorithm{};
  std::string pin = "auto";
  int header = 1;
  bool csv = false;
  bool no_check = false;
  bool stats = false;
  bool tune = false;
  std::string out{};
  std::vector<std::string> compare{};  ///< none or two files
  double fail_below = 0;
};

enum class Pin : std::uint8_t { automatic, none };
enum class Style : std::uint8_t { table, csv };

struct BenchOptions {
  int ranks = 0;  ///< 0: not said
  std::vector<const BenchOp*> ops{};
  std::vector<DType> dtypes{};
  std::size_t min_bytes = 0;
  std::size_t max_bytes = 0;
  std::size_t factor = 4;
  int reps = 5;
  double time_s = 0;  ///< aimed duration of the timed loops of one size
  double cap_s = 0;   ///< repetitions are given up before they would take longer
  ReduceOptions reduce{};
  std::string label{};
  std::string plot{};
  std::string transport{};
  std::string backend{};
  std::string algorithm{};
  Pin pin = Pin::automatic;
  Style style = Style::table;
  bool header = true;
  bool check = true;
  bool tune = false;   ///< measure ways to run operations instead
  std::string out{};   ///< of the tuning table
  bool stats = false;  ///< also latencies of single calls, CPU time, page faults
};

/// Parses and checks; InvalidArgument says which flag, what it was and what is accepted.
BenchOptions parse_bench(const BenchFlags& flags);

/// "64", "4K", "1.5M", "2G" in bytes. InvalidArgument for anything else.
std::size_t parse_bytes(const std::string& flag, const std::string& text);

/// The types to measure `row` with: an operation that only moves bytes is measured once, with
/// float32 if that was asked for, else with the first type.
std::vector<DType> dtypes_of(const BenchOp& row, const BenchOptions& options);

}  // namespace tutti::cli
