#include "cli/bench_options.hpp"

#include "base/byte_text.hpp"
#include "plan/request.hpp"
#include "plan/select.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tutti::cli {
namespace {

constexpr double kPremulFactor = 2;
constexpr double kLongestTime = 3600;
constexpr int kMostReps = 1000;

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    if (end > at) {
      words.push_back(list.substr(at, end - at));
    }
    at = end + 1;
  }
  return words;
}

template <class Table, class Name>
std::vector<std::string_view> names_of(const Table& table, Name name) {
  std::vector<std::string_view> names;
  for (const auto& row : table) {
    names.push_back(name(row));
  }
  return names;
}

const BenchOp* parse_op(const std::string& text) {
  const BenchOp* row = find_bench_op(text);
  if (row == nullptr) {
    throw InvalidArgument(
        fmt::format("operation '{}' is unknown; there are {}", text, bench_op_names()));
  }
  return row;
}

std::vector<const BenchOp*> parse_ops(const BenchFlags& flags) {
  std::vector<const BenchOp*> rows;
  for (const auto* list : {&flags.ops, &flags.more_ops}) {
    for (const std::string& words : *list) {
      for (const std::string& word : split(words)) {
        rows.push_back(parse_op(word));
      }
    }
  }
  if (rows.empty()) {
    for (const BenchOp& row : bench_ops()) {
      rows.push_back(&row);
    }
  }
  return rows;
}

DType parse_dtype(const std::string& text) {
  const auto* const found = std::find_if(kDTypes.begin(), kDTypes.end(), [&](const DTypeInfo& row) {
    return row.short_name == text || row.name == text;
  });
  if (found == kDTypes.end()) {
    const auto known = names_of(kDTypes, [](const DTypeInfo& row) { return row.short_name; });
    throw InvalidArgument(
        fmt::format("--dtypes '{}' is unknown; there are {}", text, fmt::join(known, ", ")));
  }
  return found->dtype;
}

std::vector<DType> parse_dtypes(const std::string& list) {
  std::vector<DType> dtypes;
  for (const std::string& word : split(list)) {
    dtypes.push_back(parse_dtype(word));
  }
  if (dtypes.empty()) {
    throw InvalidArgument("--dtypes names no element type; the default is f32");
  }
  return dtypes;
}

ReduceOp parse_reduce_op(const std::string& text) {
  const auto* const found = std::find(kReduceOpNames.begin(), kReduceOpNames.end(), text);
  if (found == kReduceOpNames.end()) {
    throw InvalidArgument(
        fmt::format("--op '{}' is unknown; there are {}", text, fmt::join(kReduceOpNames, ", ")));
  }
  return static_cast<ReduceOp>(found - kReduceOpNames.begin());
}

void check_reductions(const BenchOptions& options) {
  for (const BenchOp* row : options.ops) {
    for (const DType dtype : options.dtypes) {
      if (spec(row->op).reduces && !allows(options.reduce.op, dtype, {})) {
        throw InvalidArgument(
            fmt::format("{}: --op {} is not defined for {}; see "
                        "docs/algorithms.md, \"Reduce operations\"",
                        row->name, name(options.reduce.op), name(dtype)));
      }
    }
  }
}

void check_numbers(const BenchOptions& options) {
  if (options.min_bytes > options.max_bytes) {
    throw InvalidArgument(
        fmt::format("--min {} is above --max {}", options.min_bytes, options.max_bytes));
  }
  for (const auto& [flag, value] :
       {std::pair("--time", options.time_s), std::pair("--cap", options.cap_s)}) {
    if (!(value > 0 && value <= kLongestTime)) {
      throw InvalidArgument(
          fmt::format("{} {} is not a number of seconds up to {}", flag, value, kLongestTime));
    }
  }
  if (options.reps < 1 || options.reps > kMostReps) {
    throw InvalidArgument(fmt::format("--reps {} is not from 1 to {}", options.reps, kMostReps));
  }
}

// An operation that has no such algorithm would run as usual under its name.
void check_algorithm(const BenchOptions& options) {
  for (const BenchOp* row : options.ops) {
    if (!options.algorithm.empty() && !is_selectable(row->op, options.algorithm)) {
      throw InvalidArgument(fmt::format("{} has no algorithm '{}'; it has {}", row->name,
                                        options.algorithm, selectable_names(row->op)));
    }
  }
}

void check_tune(const BenchOptions& options) {
  if (options.tune &&
      (!options.algorithm.empty() || options.style == Style::csv || !options.plot.empty())) {
    throw InvalidArgument(
        "--tune tries all algorithms and prints a tuning table: leave out "
        "--algorithm, --csv and --plot");
  }
  if (!options.tune && !options.out.empty()) {
    throw InvalidArgument(
        fmt::format("--out '{}' is the file that --tune writes; --tune is not given", options.out));
  }
}

// Everything that has the algorithm, where no operation was named.
void keep_selectable(BenchOptions& options) {
  std::erase_if(options.ops,
                [&](const BenchOp* row) { return !is_selectable(row->op, options.algorithm); });
  if (options.ops.empty()) {
    throw InvalidArgument(
        fmt::format("no operation has an algorithm '{}'; name one operation to see what it has",
                    options.algorithm));
  }
}

Pin parse_pin(const std::string& text) {
  if (text != "auto" && text != "none") {
    throw InvalidArgument(fmt::format("--pin '{}' is neither auto nor none", text));
  }
  return text == "auto" ? Pin::automatic : Pin::none;
}

}  // namespace

std::size_t parse_bytes(const std::string& flag, const std::string& text) {
  const auto bytes = read_bytes(text);
  if (!bytes) {
    throw InvalidArgument(
        fmt::format("{} '{}' is not a number of bytes such as 64, 4K, 1M or 2G", flag, text));
  }
  return *bytes;
}

std::vector<DType> dtypes_of(const BenchOp& row, const BenchOptions& options) {
  if (spec(row.op).reduces) {
    return options.dtypes;
  }
  const bool f32 =
      std::find(options.dtypes.begin(), options.dtypes.end(), DType::f32) != options.dtypes.end();
  return {f32 ? DType::f32 : options.dtypes.front()};
}

BenchOptions parse_bench(const BenchFlags& flags) {
  BenchOptions options{.ranks = flags.ranks,
                       .ops = parse_ops(flags),
                       .dtypes = parse_dtypes(flags.dtypes),
                       .min_bytes = std::max<std::size_t>(1, parse_bytes("--min", flags.min)),
                       .max_bytes = parse_bytes("--max", flags.max),
                       .reps = flags.reps,
                       .time_s = flags.time_s,
                       .cap_s = flags.cap_s,
                       .label = flags.label,
                       .plot = flags.plot,
                       .transport = flags.transport,
                       .backend = flags.backend,
                       .algorithm = flags.algorithm,
                       .pin = parse_pin(flags.pin),
                       .style = flags.csv ? Style::csv : Style::table,
                       .header = flags.header != 0,
                       .check = !flags.no_check,
                       .tune = flags.tune,
                       .out = flags.out,
                       .stats = flags.stats || !flags.csv};
  if (flags.factor < 2) {
    throw InvalidArgument(fmt::format("--factor {} is below 2", flags.factor));
  }
  options.factor = static_cast<std::size_t>(flags.factor);
  options.reduce.op = parse_reduce_op(flags.op);
  if (options.reduce.op == ReduceOp::premul_sum) {
    options.reduce.factor = kPremulFactor;
  }
  if (options.label.empty()) {
    options.label = options.backend.empty() ? "tutti" : options.backend;
  }
  check_numbers(options);
  check_reductions(options);
  if (flags.ops.empty() && flags.more_ops.empty() && !options.algorithm.empty()) {
    keep_selectable(options);
  }
  check_algorithm(options);
  check_tune(options);
  return options;
}

}  // namespace tutti::cli
