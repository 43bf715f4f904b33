// `tutti bench --tune`: measures, per operation and size, every way to run it, and makes rows of a
// tuning table (src/plan/tuning.hpp) of the fastest.
#pragma once

#include "cli/bench_measure.hpp"
#include "plan/tuning.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tutti::cli {

/// The fastest way at one size.
struct Fastest {
  std::size_t contribution = 0;  ///< bytes of a rank, as the table counts
  Choice choice{};
};

/// Rows for one operation, `like` filled in, from what is fastest at growing sizes: as few as say
/// it, the last one for any size.
std::vector<TuningRow> rows_of(const TuningRow& like, std::span<const Fastest> fastest);

/// `old` with the rows about (operation, ranks, per_cpu, transport) of `fresh` replaced.
std::vector<TuningRow> merged(std::span<const TuningRow> old, std::span<const TuningRow> fresh);

/// Collective. Measures what the options name; rank 0 says on standard error how far it is. Equal
/// rows on all ranks.
std::vector<TuningRow> tune(Bench& bench);

/// Writes the rows to `path`, keeping rows about other situations that are there; to standard
/// output if it is empty. InvalidArgument if the file cannot be read or written.
void write_table(const std::string& path, std::span<const TuningRow> rows);

}  // namespace tutti::cli
