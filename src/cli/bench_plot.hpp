// Bus bandwidth over size as a picture: one SVG file, both axes logarithmic, a line per operation
// and element type.
#pragma once

#include "cli/bench_measure.hpp"

#include <span>
#include <string>

namespace tutti::cli {

/// Writes the picture to `path`; InvalidArgument if it cannot be written. Rows without data or with
/// wrong results are left out.
void write_plot(const std::string& path, const std::string& title, std::span<const Row> rows);

/// The picture's text.
std::string plot_svg(const std::string& title, std::span<const Row> rows);

}  // namespace tutti::cli
