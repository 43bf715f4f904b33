// How measurements are printed: a table for people, laid out as nccl-tests does it, or the CSV that
// bench/peers/compare.py reads.
#pragma once

#include "cli/bench_measure.hpp"

#include <string>
#include <vector>

namespace tutti::cli {

/// Prints rows as they come; rank 0 has one.
class Report {
 public:
  explicit Report(const BenchOptions& options) : options_(options) {}

  /// The first lines; `facts` says what is measured, such as "2 ranks, transport shm".
  void begin(const std::string& facts);
  /// A wrong row goes to standard error; in CSV it is left out.
  void add(const Row& row);
  /// Closing line, and the plot if one was asked for.
  void end();

 private:
  void add_table_row(const Row& row);

  const BenchOptions& options_;
  std::vector<Row> rows_{};
};

/// Text of `row` as a line of CSV, without a newline; `stats`: with the columns beyond those of the
/// peers.
std::string csv_line(const std::string& label, const Row& row, bool stats = false);
/// The CSV's first line.
std::string csv_header(bool stats = false);

}  // namespace tutti::cli
