#include "plan/tuning.hpp"

#include "base/byte_text.hpp"
#include "plan/direct_plan.hpp"
#include "plan/select.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>
#include <system_error>

namespace tutti {
namespace {

constexpr std::string_view kVersionLine = "tutti-tuning 1";
constexpr std::string_view kAny = "any";
constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;
// Any number of ranks of a host finds a place for `ahead + 2` segments in any ring of these.
constexpr std::size_t kLeastRing = std::size_t{256} << 10;
constexpr std::size_t kLeastSegment = std::size_t{4} << 10;
constexpr std::size_t kLine = 64;
constexpr int kMostAhead = 2;

constexpr Span kRoomy{.from = 1, .to = 1};  // ranks <= CPUs
constexpr Span kCrowded{.from = 2, .to = Span{}.to};
constexpr auto kShm = TuningRow::Transport::shm;

/// As measured; docs/performance.md says on what. Small contributions go through the call slot: the
/// more ranks wait for a CPU, the larger "small" is, since every further turn costs a switch.
constexpr std::array kBuiltIn{
    TuningRow{.ranks = {.from = 3, .to = Span{}.to},
              .per_cpu = kCrowded,
              .transport = kShm,
              .up_to = 32768,
              .choice = {.algorithm = "direct_arrival"}},
    TuningRow{.per_cpu = kRoomy,
              .transport = kShm,
              .up_to = 4096,
              .choice = {.algorithm = "direct_inlined"}},
    TuningRow{.per_cpu = kCrowded,
              .transport = kShm,
              .up_to = 32768,
              .choice = {.algorithm = "direct_inlined"}},
    TuningRow{.op = Op::barrier, .transport = kShm, .choice = {.algorithm = "direct_inlined"}},
    TuningRow{.per_cpu = kRoomy,
              .transport = kShm,
              .choice = {.algorithm = "direct_staged",
                         .segment = 256 << 10,
                         .ahead = 0,
                         .ring = kMostRingBytes}},
    TuningRow{.per_cpu = kCrowded,
              .transport = kShm,
              .choice = {.algorithm = "direct_staged",
                         .segment = 128 << 10,
                         .ahead = 1,
                         .ring = kMostRingBytes}},
};

std::vector<std::string_view> words_of(std::string_view line, std::string_view separators) {
  std::vector<std::string_view> words;
  for (std::size_t at = line.find_first_not_of(separators); at < line.size();) {
    const std::size_t end = std::min(line.find_first_of(separators, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(separators, end);
  }
  return words;
}

std::optional<int> read_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

/// "any", "4", "3-8", "3+".
Span read_span(std::string_view column, std::string_view text) {
  if (text == kAny) {
    return {};
  }
  const std::size_t dash = text.find('-');
  const bool open = !text.empty() && text.back() == '+';
  const auto from = read_number(open ? text.substr(0, text.size() - 1) : text.substr(0, dash));
  const auto to = open                             ? std::optional(Span{}.to)
                  : dash == std::string_view::npos ? from
                                                   : read_number(text.substr(dash + 1));
  if (!from || !to || *from < 1 || *to < *from) {
    throw InvalidArgument(
        fmt::format("{} is '{}'; expected a number such as 4, 3-8, 3+, or any", column, text));
  }
  return {.from = *from, .to = *to};
}

std::string text_of(const Span& span) {
  if (span == Span{}) {
    return std::string(kAny);
  }
  if (span.to == Span{}.to) {
    return fmt::format("{}+", span.from);
  }
  return span.from == span.to ? fmt::format("{}", span.from)
                              : fmt::format("{}-{}", span.from, span.to);
}

std::optional<Op> read_op(std::string_view text) {
  if (text == kAny) {
    return std::nullopt;
  }
  std::vector<std::string_view> known{kAny};
  for (const Spec& row : kSpecs) {
    if (!row.point_to_point()) {
      if (row.name == text) {
        return row.op;
      }
      known.push_back(row.name);
    }
  }
  throw InvalidArgument(
      fmt::format("operation is '{}'; expected one of {}", text, fmt::join(known, ", ")));
}

constexpr std::array<std::string_view, 3> kTransports{"any", "shm", "tcp"};

TuningRow::Transport read_transport(std::string_view text) {
  const auto* const found = std::find(kTransports.begin(), kTransports.end(), text);
  if (found == kTransports.end()) {
    throw InvalidArgument(fmt::format(
        "transport is '{}'; expected shm (all ranks share memory), tcp (they do not) or any",
        text));
  }
  return static_cast<TuningRow::Transport>(found - kTransports.begin());
}

std::size_t read_size(std::string_view what, std::string_view text) {
  const auto bytes = read_bytes(text);
  if (!bytes) {
    throw InvalidArgument(
        fmt::format("{} is '{}'; expected bytes such as 512, 64K or 1M", what, text));
  }
  return *bytes;
}

void read_setting(std::string_view word, Choice& choice) {
  const std::size_t equals = std::min(word.find('='), word.size());
  const std::string_view key = word.substr(0, equals);
  const std::string_view value = word.substr(std::min(equals + 1, word.size()));
  if (key == "segment") {
    choice.segment = read_size(key, value);
  } else if (key == "ring") {
    choice.ring = read_size(key, value);
  } else if (key == "ahead" && read_number(value)) {
    choice.ahead = *read_number(value);
  } else {
    throw InvalidArgument(
        fmt::format("setting is '{}'; expected segment=BYTES, ahead=NUMBER or ring=BYTES", word));
  }
}

/// Bounds that the run of a direct plan relies on.
void check_settings(const Choice& choice) {
  const bool any = choice.segment != 0 || choice.ahead >= 0 || choice.ring != 0;
  if (any && choice.algorithm != name(Protocol::staged)) {
    throw InvalidArgument(
        fmt::format("{} takes no settings; {} does", choice.algorithm, name(Protocol::staged)));
  }
  const std::size_t ring = choice.ring != 0 ? choice.ring : kMostRingBytes;
  if (ring < kLeastRing || ring > kMostRingBytes || ring % kLine != 0) {
    throw InvalidArgument(fmt::format("ring is {}; expected a multiple of {} from {} to {}",
                                      short_bytes(ring), kLine, short_bytes(kLeastRing),
                                      short_bytes(kMostRingBytes)));
  }
  if (choice.ahead > kMostAhead) {
    throw InvalidArgument(fmt::format("ahead is {}; expected 0 to {}", choice.ahead, kMostAhead));
  }
  const int ahead = choice.ahead >= 0 ? choice.ahead : kMostAhead;
  const std::size_t most = ring / (static_cast<std::size_t>(ahead) + 2) / kLine * kLine;
  if (choice.segment != 0 &&
      (choice.segment < kLeastSegment || choice.segment > most || choice.segment % kLine != 0)) {
    throw InvalidArgument(fmt::format(
        "segment is {}; expected a multiple of {} from {} to {}: {} segments fit a ring of {}",
        short_bytes(choice.segment), kLine, short_bytes(kLeastSegment), short_bytes(most),
        ahead + 2, short_bytes(ring)));
  }
}

TuningRow read_row(std::string_view line) {
  const auto words = words_of(line, " \t\r");
  constexpr std::size_t kColumns = 6;
  if (words.size() != kColumns) {
    throw InvalidArgument(
        fmt::format("{} columns; expected {}: operation ranks per_cpu transport up_to algorithm",
                    words.size(), kColumns));
  }
  TuningRow row{.op = read_op(words[0]),
                .ranks = read_span("ranks", words[1]),
                .per_cpu = read_span("per_cpu", words[2]),
                .transport = read_transport(words[3]),
                .choice = parse_choice(words[5])};
  row.up_to = words[4] == kAny ? TuningRow::kAnySize : read_size("up_to", words[4]);
  if (row.per_cpu != Span{} && row.transport != kShm) {
    throw InvalidArgument(fmt::format(
        "per_cpu is '{}' with transport {}; expected any: only ranks that share memory agree on it",
        words[2], words[3]));
  }
  if (row.op && !is_selectable(*row.op, row.choice.algorithm)) {
    throw InvalidArgument(fmt::format("{} has no algorithm '{}'; expected one of {}", words[0],
                                      row.choice.algorithm, selectable_names(*row.op)));
  }
  return row;
}

}  // namespace

Choice parse_choice(std::string_view text) {
  const auto words = words_of(text, ",");
  const auto known = selectable_names();
  const auto found = std::find(known.begin(), known.end(), words.empty() ? "" : words[0]);
  if (found == known.end()) {
    throw InvalidArgument(fmt::format("algorithm '{}' is unknown; expected one of {}",
                                      words.empty() ? text : words[0], fmt::join(known, ", ")));
  }
  Choice choice{.algorithm = *found};
  for (std::size_t i = 1; i < words.size(); ++i) {
    read_setting(words[i], choice);
  }
  check_settings(choice);
  return choice;
}

std::string text_of(const Choice& choice) {
  std::string text(choice.algorithm);
  if (choice.segment != 0) {
    text += fmt::format(",segment={}", short_bytes(choice.segment));
  }
  if (choice.ahead >= 0) {
    text += fmt::format(",ahead={}", choice.ahead);
  }
  if (choice.ring != 0) {
    text += fmt::format(",ring={}", short_bytes(choice.ring));
  }
  return text;
}

std::string text_of(const TuningRow& row) {
  return fmt::format("{:<14} {:<6} {:<7} {:<9} {:<6} {}", row.op ? spec(*row.op).name : kAny,
                     text_of(row.ranks), text_of(row.per_cpu),
                     kTransports[static_cast<std::size_t>(row.transport)],
                     row.up_to == TuningRow::kAnySize ? std::string(kAny) : short_bytes(row.up_to),
                     text_of(row.choice));
}

TuningTable::TuningTable(std::vector<TuningRow> rows, std::string source)
    : rows_(std::move(rows)), source_(std::move(source)) {}

std::span<const TuningRow> TuningTable::built_in() { return kBuiltIn; }

TuningTable TuningTable::parse(std::string_view text, const std::string& source) {
  std::vector<TuningRow> rows;
  bool versioned = false;
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    line = line.substr(0, line.find('#'));
    if (words_of(line, " \t\r").empty()) {
      continue;
    }
    try {
      if (!versioned) {
        if (fmt::format("{}", fmt::join(words_of(line, " \t\r"), " ")) != kVersionLine) {
          throw InvalidArgument(
              fmt::format("the first line is '{}'; expected '{}'", line, kVersionLine));
        }
        versioned = true;
        continue;
      }
      rows.push_back(read_row(line));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(
          fmt::format("tuning table {}, line {}: {}", source, number, error.what()));
    }
  }
  if (!versioned) {
    throw InvalidArgument(
        fmt::format("tuning table {}: it is empty; expected '{}'", source, kVersionLine));
  }
  return {std::move(rows), source};
}

TuningTable TuningTable::load(const std::string& path) {
  if (path.empty()) {
    return {};
  }
  const auto refuse = [&](const std::string& why) {
    throw InvalidArgument(fmt::format("tuning table {}: {}", path, why));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"),
                                                             std::fclose);
  if (file == nullptr) {
    refuse(std::generic_category().message(errno));
  }
  std::string text(kMaxFileBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) {
    refuse("it cannot be read: " + std::generic_category().message(errno));
  }
  if (text.size() > kMaxFileBytes) {
    refuse(fmt::format("it is larger than {}", short_bytes(kMaxFileBytes)));
  }
  return parse(text, path);
}

std::string TuningTable::text() const {
  std::string text =
      fmt::format("{}\n# operation    ranks  per_cpu transport up_to  algorithm\n", kVersionLine);
  for (const TuningRow& row : rows_) {
    text += text_of(row) + "\n";
  }
  return text;
}

std::string TuningTable::digest() const {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a: files differ by accident, not by intent
  for (const char c : text()) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return fmt::format("{:016x}", hash);
}

std::string identity_of(const TuningTable& table) {
  return fmt::format("{} {}", table.digest(), table.source());
}

}  // namespace tutti
