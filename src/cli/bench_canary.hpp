// Where the first two CPUs are just now. On virtual machines they move: at times they share a
// cache, at times not, and everything that crosses between them costs several times more. Rows are
// only comparable within one placement.
#pragma once

#include <string_view>
#include <vector>

namespace tutti::cli {

/// CPUs this thread may run on, by number.
std::vector<int> allowed_cpus();
/// Lets this thread, and those it starts, run on `cpus` only; false if the system refuses.
bool restrict_to(const std::vector<int>& cpus);

/// One-way latency of a flag in a cache line between the first two of `cpus`, best of several short
/// batches (under a millisecond in all); 0 if there are not two.
double canary_ns(const std::vector<int>& cpus);

/// "near", "far", "mixed" (it changed meanwhile) or "-" (unknown).
std::string_view placement(double before_ns, double after_ns);

}  // namespace tutti::cli
