#include "cli/bench_report.hpp"

#include "cli/bench_plot.hpp"

#include <tutti/version.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace tutti::cli {
namespace {

bool has_data(const Row& row) { return row.op->sizing != Sizing::none; }

std::string_view dtype_text(const Row& row) {
  return has_data(row) ? info(row.dtype).short_name : "-";
}

}  // namespace

std::string csv_header(bool stats) {
  return std::string(
             "peer,op,dtype,ranks,bytes,median_us,min_us,max_us,algbw_GBps,busbw_GBps,placement,"
             "canary_ns") +
         (stats ? ",p50_us,p99_us,cpu_us,faults" : "");
}

std::string csv_line(const std::string& label, const Row& row, bool stats) {
  std::string line = fmt::format("{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.4f},{:.4f},{},{:.0f}",
                                 label, row.op->name, dtype_text(row), row.ranks, row.bytes,
                                 row.median_s * 1e6, row.min_s * 1e6, row.max_s * 1e6,
                                 row.algbw_GBps, row.busbw_GBps, row.placement, row.canary_ns);
  if (stats) {
    line += fmt::format(",{:.3f},{:.3f},{:.3f},{:.4f}", row.p50_s * 1e6, row.p99_s * 1e6,
                        row.cpu_s * 1e6, row.faults);
  }
  return line;
}

void Report::begin(const std::string& facts) {
  if (options_.style == Style::csv) {
    if (options_.header) {
      fmt::print("{}\n", csv_header(options_.stats));
    }
  } else {
    fmt::print("# tutti {}: {}\n", kVersion, facts);
  }
  std::fflush(stdout);
}

void Report::add(const Row& row) {
  if (row.wrong != 0) {
    fmt::print(stderr, "WRONG RESULT {} {} {} ranks={} bytes={}: {} elements\n", options_.label,
               row.op->name, dtype_text(row), row.ranks, row.bytes, row.wrong);
  }
  if (options_.style == Style::table) {
    add_table_row(row);
  } else if (row.wrong == 0) {
    fmt::print("{}\n", csv_line(options_.label, row, options_.stats));
  }
  std::fflush(stdout);
  rows_.push_back(row);
}

void Report::add_table_row(const Row& row) {
  const bool first = rows_.empty() || rows_.back().op != row.op;
  if (first && options_.header) {
    fmt::print(
        "#\n# {}\n# {:>10} {:>12} {:>9} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} "
        "{:>10} {:>10} {:>10} {:>7} {:>7}\n",
        row.op->name, "bytes", "elements", "dtype", "op", "time us", "min us", "max us", "p50 us",
        "p99 us", "cpu us", "algbw GB/s", "busbw GB/s", "faults", "wrong");
  }
  fmt::print(
      "  {:>10} {:>12} {:>9} {:>10} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f} "
      "{:>10.2f} {:>10.3f} {:>10.3f} {:>7.2f} {:>7}\n",
      row.bytes, row.elements, dtype_text(row),
      spec(row.op->op).reduces ? name(options_.reduce.op) : "-", row.median_s * 1e6,
      row.min_s * 1e6, row.max_s * 1e6, row.p50_s * 1e6, row.p99_s * 1e6, row.cpu_s * 1e6,
      row.algbw_GBps, row.busbw_GBps, row.faults,
      options_.check && has_data(row) ? std::to_string(row.wrong) : "-");
}

void Report::end() {
  if (options_.style == Style::table) {
    const auto wrong =
        std::count_if(rows_.begin(), rows_.end(), [](const Row& row) { return row.wrong != 0; });
    fmt::print("#\n# {} rows, {} with wrong results{}\n", rows_.size(), wrong,
               options_.check ? "" : " (not checked)");
  }
  std::fflush(stdout);
  if (!options_.plot.empty()) {
    write_plot(options_.plot, options_.label, rows_);
  }
}

}  // namespace tutti::cli
