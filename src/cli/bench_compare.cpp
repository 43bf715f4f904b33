#include "cli/bench_compare.hpp"

#include "cli/bench_timer.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

namespace tutti::cli {
namespace {

constexpr std::size_t kColumns = 11;  // up to the placement
constexpr std::size_t kSmallest = 4096;
constexpr std::size_t kLargest = std::size_t{1} << 20;

std::vector<std::string> columns_of(std::string_view line) {
  std::vector<std::string> columns;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find(',', at), line.size());
    columns.emplace_back(line.substr(at, end - at));
    at = end + 1;
  }
  return columns;
}

double number(const std::string& text, const char* column) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0' || !(value >= 0)) {
    throw InvalidArgument(fmt::format("{} is '{}'; expected a number", column, text));
  }
  return value;
}

StoredRow read_row(const std::vector<std::string>& columns) {
  if (columns.size() < kColumns) {
    throw InvalidArgument(fmt::format("{} columns; expected at least {}: peer,op,dtype,ranks,...",
                                      columns.size(), kColumns));
  }
  return {.peer = columns[0],
          .op = columns[1],
          .dtype = columns[2],
          .ranks = static_cast<int>(number(columns[3], "ranks")),
          .bytes = static_cast<std::size_t>(number(columns[4], "bytes")),
          .placement = columns[10],
          .median_us = number(columns[5], "median_us")};
}

std::vector<StoredRow> read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw InvalidArgument(fmt::format("--compare {}: the file cannot be read", path));
  }
  return read_rows(std::string(std::istreambuf_iterator<char>(file), {}), path);
}

using Cell = std::tuple<std::string, std::string, std::string, int, std::string, std::size_t>;

bool one_peer(const std::vector<StoredRow>& rows) {
  return std::all_of(rows.begin(), rows.end(),
                     [&](const StoredRow& row) { return row.peer == rows.front().peer; });
}

std::map<Cell, double> medians(const std::vector<StoredRow>& rows, bool named) {
  std::map<Cell, std::vector<double>> times;
  for (const StoredRow& row : rows) {
    if (row.placement != "mixed" && row.median_us > 0) {
      times[{named ? row.peer : "", row.op, row.dtype, row.ranks, row.placement, row.bytes}]
          .push_back(row.median_us);
    }
  }
  std::map<Cell, double> result;
  for (auto& [cell, values] : times) {
    std::sort(values.begin(), values.end());
    result[cell] = median(values);
  }
  return result;
}

}  // namespace

std::string_view size_class(std::size_t bytes) {
  return bytes <= kSmallest ? "small" : bytes < kLargest ? "medium" : "large";
}

std::vector<StoredRow> read_rows(std::string_view text, const std::string& source) {
  std::vector<StoredRow> rows;
  int line_number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++line_number;
    line = line.substr(0, line.find('\r'));
    const std::vector<std::string> columns = columns_of(line);
    if (line.empty() || (columns.size() > 1 && columns[1] == "op")) {
      continue;  // a heading
    }
    try {
      rows.push_back(read_row(columns));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(fmt::format("{}, line {}: {}", source, line_number, error.what()));
    }
  }
  return rows;
}

std::vector<Comparison> compare(const std::vector<StoredRow>& before,
                                const std::vector<StoredRow>& after) {
  const bool named = !one_peer(before) || !one_peer(after);
  const auto old_times = medians(before, named);
  std::vector<Comparison> table;
  // Cells of one class follow each other: the size comes last in a Cell.
  for (const auto& [cell, time] : medians(after, named)) {
    const auto old = old_times.find(cell);
    if (old == old_times.end()) {
      continue;
    }
    const auto& [peer, op, dtype, ranks, placement, bytes] = cell;
    const std::string_view sizes = size_class(bytes);
    const double ratio = old->second / time;
    const auto same = [&](const Comparison& row) {
      return row.peer == peer && row.op == op && row.dtype == dtype && row.ranks == ranks &&
             row.placement == placement && row.size_class == sizes;
    };
    if (table.empty() || !same(table.back())) {
      table.push_back({peer, op, dtype, ranks, placement, sizes, 0, 0, ratio, ratio});
    }
    Comparison& row = table.back();
    ++row.cells;
    row.ratio += std::log(ratio);  // the geometric mean, once all are there
    row.least = std::min(row.least, ratio);
    row.most = std::max(row.most, ratio);
  }
  for (Comparison& row : table) {
    row.ratio = std::exp(row.ratio / row.cells);
  }
  return table;
}

int compare_files(const std::string& before, const std::string& after, double fail_below) {
  const std::vector<StoredRow> rows = read_file(before);
  const std::vector<Comparison> table = compare(rows, read_file(after));
  if (table.empty()) {
    throw InvalidArgument(
        fmt::format("--compare: {} and {} have no row of equal operation, type, ranks, bytes and "
                    "placement",
                    before, after));
  }
  fmt::print(
      "# time of {} / time of {}, geometric mean over sizes; above 1: the second is faster\n"
      "{:<18} {:<15} {:<5} {:>5} {:<9} {:<6} {:>5} {:>7} {:>7} {:>7}\n",
      before, after, "peer", "op", "dtype", "ranks", "placement", "sizes", "cells", "ratio",
      "least", "most");
  bool failed = false;
  for (const Comparison& row : table) {
    failed = failed || row.ratio < fail_below;
    fmt::print("{:<18} {:<15} {:<5} {:>5} {:<9} {:<6} {:>5} {:>7.3f} {:>7.3f} {:>7.3f}{}\n",
               row.peer.empty() ? "-" : row.peer, row.op, row.dtype, row.ranks, row.placement,
               row.size_class, row.cells, row.ratio, row.least, row.most,
               row.ratio < fail_below ? fmt::format("  below {}", fail_below) : "");
  }
  return failed ? 1 : 0;
}

}  // namespace tutti::cli
