// `tutti bench --compare A.csv B.csv`: how much faster or slower B is than A, from stored rows
// alone. Rows are compared only with rows of the same operation, type, ranks, bytes and placement.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::cli {

/// The columns of a stored row that matter here.
struct StoredRow {
  std::string peer{};
  std::string op{};
  std::string dtype{};
  int ranks = 0;
  std::size_t bytes = 0;
  std::string placement{};
  double median_us = 0;
};

/// Rows of CSV text as bench/peers/README.md describes it; more columns are ignored. `source` names
/// it in messages. InvalidArgument: source, line, what was expected.
std::vector<StoredRow> read_rows(std::string_view text, const std::string& source);

/// All sizes of a class: geometric mean of time A / time B; above 1: B is faster.
struct Comparison {
  std::string peer{};  ///< empty where A and B hold one peer each, whatever they call it
  std::string op{};
  std::string dtype{};
  int ranks = 0;
  std::string placement{};
  std::string_view size_class{};
  int cells = 0;
  double ratio = 0;
  double least = 0;  ///< of one size
  double most = 0;
};

/// The median counts where a file holds several rows of a cell. Mixed placements are left out.
std::vector<Comparison> compare(const std::vector<StoredRow>& before,
                                const std::vector<StoredRow>& after);

/// "small", "medium", "large": up to 4 KiB, between, from 1 MiB on.
std::string_view size_class(std::size_t bytes);

/// Prints the table. 1 if a ratio is below `fail_below`, else 0. InvalidArgument if the files
/// cannot be read or have no cell in common.
int compare_files(const std::string& before, const std::string& after, double fail_below);

}  // namespace tutti::cli
