#include "cli/bench_plot.hpp"

#include "base/byte_text.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <map>
#include <system_error>

namespace tutti::cli {
namespace {

// The picture, in pixels.
constexpr double kWidth = 860;
constexpr double kHeight = 520;
constexpr double kLeft = 70;
constexpr double kRight = 190;  // the legend's
constexpr double kTop = 40;
constexpr double kBottom = 50;
constexpr double kLegendLine = 20;

constexpr std::array kColors{"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
                             "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f"};

struct Point {
  double bytes = 0;
  double GBps = 0;
};
using Lines = std::map<std::string, std::vector<Point>>;

/// From logarithms to pixels.
struct Axis {
  double low = 0;  ///< logarithm at `from`
  double high = 1;
  double from = 0;
  double to = 1;
  double at(double logarithm) const {
    return from + (logarithm - low) / std::max(high - low, 1e-9) * (to - from);
  }
};

struct Frame {
  Axis x{.from = kLeft, .to = kWidth - kRight};
  Axis y{.from = kHeight - kBottom, .to = kTop};
};

Lines lines_of(std::span<const Row> rows) {
  Lines lines;
  for (const Row& row : rows) {
    if (row.bytes != 0 && row.wrong == 0 && row.busbw_GBps > 0) {
      lines[fmt::format("{} {}", row.op->name, info(row.dtype).short_name)].push_back(
          {static_cast<double>(row.bytes), row.busbw_GBps});
    }
  }
  return lines;
}

Frame frame_of(const Lines& lines) {
  Frame frame;
  bool first = true;
  for (const auto& [name, points] : lines) {
    for (const Point& point : points) {
      const double x = std::log2(point.bytes);
      const double y = std::log10(point.GBps);
      frame.x.low = first ? x : std::min(frame.x.low, x);
      frame.x.high = first ? x : std::max(frame.x.high, x);
      frame.y.low = first ? std::floor(y) : std::min(frame.y.low, std::floor(y));
      frame.y.high = first ? std::ceil(y) : std::max(frame.y.high, std::ceil(y));
      first = false;
    }
  }
  frame.y.high = std::max(frame.y.high, frame.y.low + 1);
  return frame;
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

struct Text {
  double x = 0;
  double y = 0;
  std::string_view anchor = "middle";
};

void add_text(std::string& svg, Text place, const std::string& text) {
  svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", place.x,
                     place.y, place.anchor, escaped(text));
}

void add_line(std::string& svg, Point from, Point to) {
  svg += fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n",
      from.bytes, from.GBps, to.bytes, to.GBps);
}

void add_grid(std::string& svg, const Frame& frame) {
  const double span = frame.x.high - frame.x.low;
  const double step = span > 16 ? 4 : span > 8 ? 2 : 1;
  for (double power = std::ceil(frame.x.low); power <= frame.x.high; power += step) {
    const double x = frame.x.at(power);
    add_line(svg, {x, frame.y.from}, {x, frame.y.to});
    add_text(svg, {.x = x, .y = frame.y.from + 18},
             short_bytes(static_cast<std::size_t>(std::exp2(power))));
  }
  for (double power = frame.y.low; power <= frame.y.high; ++power) {
    const double y = frame.y.at(power);
    add_line(svg, {frame.x.from, y}, {frame.x.to, y});
    add_text(svg, {.x = frame.x.from - 8, .y = y + 4, .anchor = "end"},
             fmt::format("{:g}", std::pow(10.0, power)));
  }
}

void add_curve(std::string& svg, const Frame& frame, std::span<const Point> points,
               std::string_view color) {
  std::string path;
  for (const Point& point : points) {
    const double x = frame.x.at(std::log2(point.bytes));
    const double y = frame.y.at(std::log10(point.GBps));
    path += fmt::format("{:.1f},{:.1f} ", x, y);
    svg +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>\n", x, y, color);
  }
  svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"/>\n",
                     path, color);
}

}  // namespace

std::string plot_svg(const std::string& title, std::span<const Row> rows) {
  const Lines lines = lines_of(rows);
  const Frame frame = frame_of(lines);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, kHeight);
  const std::string ranks = rows.empty() ? "" : fmt::format(", {} ranks", rows.front().ranks);
  add_text(svg, {.x = (frame.x.from + frame.x.to) / 2, .y = 20},
           fmt::format("{}{}: bus bandwidth, GB/s, over bytes", title, ranks));
  add_grid(svg, frame);
  std::size_t number = 0;
  for (const auto& [name, points] : lines) {
    const std::string_view color = kColors[number % kColors.size()];
    add_curve(svg, frame, points, color);
    const double y = kTop + 10 + kLegendLine * static_cast<double>(number);
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"4\" fill=\"{}\"/>\n",
                       frame.x.to + 16, y - 5, color);
    add_text(svg, {.x = frame.x.to + 36, .y = y, .anchor = "start"}, name);
    ++number;
  }
  return svg + "</svg>\n";
}

void write_plot(const std::string& path, const std::string& title, std::span<const Row> rows) {
  std::ofstream file(path, std::ios::binary);
  file << plot_svg(title, rows);
  file.close();
  if (!file) {
    throw InvalidArgument(
        fmt::format("--plot {}: {}", path, std::generic_category().message(errno)));
  }
}

}  // namespace tutti::cli
