#include "cli/bench_tune.hpp"

#include "base/byte_text.hpp"
#include "cli/bench_timer.hpp"
#include "engine/lane.hpp"
#include "group/group_state.hpp"
#include "plan/select.hpp"

#include <tutti/error.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <fstream>
#include <map>

namespace tutti::cli {
namespace {

constexpr int kRounds = 9;
constexpr double kTypical =
    0.25;                        // quantile of the rounds that counts: what disturbs only adds time
constexpr double kHopeless = 3;  // times the fastest in its first round: not tried again
constexpr double kWorthIt = 1.05;  // what is chosen today stays unless something is 5 % faster
constexpr double kMostCalls = 2000;
constexpr std::array<std::size_t, 5> kSegments{32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10};
constexpr int kMostAhead = 1;

/// The call as selection sees it.
Call call_of(const BenchOp& row, const Layout& layout, int ranks) {
  Call call{.op = row.op, .dtype = layout.dtype};
  const bool blocks = spec(row.op).block_per_rank();
  for (int i = 0; i < (blocks ? ranks : 1) && row.sizing != Sizing::none; ++i) {
    call.in.push_back({.data = nullptr, .elements = layout.share});
  }
  return call;
}

Choice choice_of(const Selection& selection) {
  Choice choice = parse_choice(name(selection));
  if (selection.kind == Selection::Kind::direct && selection.protocol == Protocol::staged) {
    choice.segment = selection.segment_bytes;
    choice.ahead = selection.lookahead;
    choice.ring = selection.ring_bytes;
  }
  return choice;
}

/// Everything that might run an operation of `bytes`, whether or not it fits.
std::vector<Choice> candidates(std::size_t bytes) {
  std::vector<Choice> all;
  for (const std::string_view algorithm : selectable_names()) {
    if (algorithm != name(Protocol::staged)) {
      all.push_back({.algorithm = algorithm});
      continue;
    }
    for (const std::size_t segment : kSegments) {
      for (int ahead = 0; ahead <= kMostAhead; ++ahead) {
        const bool fits = segment * (static_cast<std::size_t>(ahead) + 2) <= kMostRingBytes;
        // A segment that is larger than the data is the data, whatever it is called.
        if (fits && (segment <= bytes || segment == kSegments.front())) {
          all.push_back(
              {.algorithm = algorithm, .segment = segment, .ahead = ahead, .ring = kMostRingBytes});
        }
      }
    }
  }
  return all;
}

class Tuner {
 public:
  explicit Tuner(Bench& bench) : bench_(bench), timer_(bench.control) {}

  std::vector<TuningRow> run() {
    std::vector<TuningRow> rows;
    for (const BenchOp* op : bench_.options.ops) {
      if (op->sizing == Sizing::pairs) {
        continue;  // messages have no algorithms
      }
      const std::vector<Fastest> fastest = measure(*op);
      const Lane& lane = bench_.group.state().lane();
      const bool shared = lane.place().one_host;
      const int per_cpu = lane.place().fabric->ranks_per_cpu();
      const TuningRow like{
          .op = op->op,
          .ranks = {.from = bench_.group.size(), .to = bench_.group.size()},
          .per_cpu = shared ? Span{.from = per_cpu, .to = per_cpu} : Span{},
          .transport = shared ? TuningRow::Transport::shm : TuningRow::Transport::tcp};
      const auto more = rows_of(like, fastest);
      rows.insert(rows.end(), more.begin(), more.end());
    }
    return rows;
  }

 private:
  /// One way, and how long it took per round.
  struct Racer {
    Choice choice{};
    Group group{};
    std::vector<double> seconds{};
    bool given_up = false;
  };

  std::vector<Fastest> measure(const BenchOp& op) {
    std::vector<Fastest> fastest;
    if (op.sizing == Sizing::none) {
      return {measure(op, layout_of(op, DType::f32, 0, bench_.group.size()))};
    }
    const DType dtype = dtypes_of(op, bench_.options).front();
    for (std::size_t bytes = bench_.options.min_bytes; bytes <= bench_.options.max_bytes;
         bytes *= bench_.options.factor) {
      fastest.push_back(measure(op, layout_of(op, dtype, bytes, bench_.group.size())));
    }
    return fastest;
  }

  Fastest measure(const BenchOp& op, const Layout& layout) {
    Workload work{.group = bench_.group,
                  .rank = bench_.group.rank(),
                  .ranks = bench_.group.size(),
                  .reduce = bench_.options.reduce,
                  .layout = layout};
    make_buffers(op, work);
    std::deque<Racer> racers = line_up(op, layout);
    race(op, work, racers);
    // Equal on all ranks: each figure is that of the slowest rank.
    const auto time = [](const Racer& racer) { return quantile(racer.seconds, kTypical); };
    const Racer* best = &racers.front();  // what would run today
    for (const Racer& racer : racers) {
      const double edge = best == &racers.front() ? kWorthIt : 1;
      if (!racer.given_up && time(racer) * edge < time(*best)) {
        best = &racer;
      }
    }
    if (work.rank == 0) {
      fmt::print(stderr, "# {:<15} {:>6} {:<45} {:>10.2f} us, today {} {:.2f} us\n", op.name,
                 short_bytes(layout.asked_bytes), text_of(best->choice), time(*best) * 1e6,
                 text_of(racers.front().choice), time(racers.front()) * 1e6);
    }
    const std::size_t blocks =
        spec(op.op).block_per_rank() ? static_cast<std::size_t>(work.ranks) : 1;
    return {.contribution = layout.share * element_bytes(layout.dtype) * blocks,
            .choice = best->choice};
  }

  /// What runs today in front, then every other way that fits.
  std::deque<Racer> line_up(const BenchOp& op, const Layout& layout) {
    const Call call = call_of(op, layout, bench_.group.size());
    const Choice today = choice_of(bench_.group.state().lane().choose(call));
    std::deque<Racer> racers;
    racers.push_back({.choice = today, .group = group_of(today)});
    for (const Choice& choice : candidates(layout.bytes())) {
      const Group group = group_of(choice);
      const Choice would_run = choice_of(group.state().lane().choose(call));
      const bool known = std::any_of(racers.begin(), racers.end(),
                                     [&](const Racer& racer) { return racer.choice == would_run; });
      if (!known && would_run.algorithm == choice.algorithm) {
        racers.push_back({.choice = would_run, .group = group});
      }
    }
    return racers;
  }

  /// Interleaved, so that what changes on the machine meets all of them.
  void race(const BenchOp& op, Workload& work, std::deque<Racer>& racers) {
    double least = 0;
    for (int round = 0; round < kRounds; ++round) {
      for (Racer& racer : racers) {
        if (racer.given_up) {
          continue;
        }
        work.group = racer.group;
        if (round == 0) {
          racer.seconds.assign(1, timer_.estimate(op, work));
          least = least == 0 ? racer.seconds[0] : std::min(least, racer.seconds[0]);
          continue;
        }
        const double calls =
            std::clamp(bench_.options.time_s / kRounds / racer.seconds[0], 1.0, kMostCalls);
        racer.seconds.push_back(timer_.seconds_per_call(op, work, static_cast<int>(calls)));
      }
      for (Racer& racer : racers) {
        racer.given_up = &racer != &racers.front() && racer.seconds[0] > kHopeless * least;
      }
    }
    for (Racer& racer : racers) {
      if (racer.seconds.size() > 1) {
        racer.seconds.erase(racer.seconds.begin());  // the estimate
      }
      std::sort(racer.seconds.begin(), racer.seconds.end());
    }
  }

  Group group_of(const Choice& choice) {
    const std::string text = text_of(choice);
    Group& group = groups_[text];
    if (!group.defined()) {
      group = bench_.context.new_group({}, {.algorithm = text});
    }
    return group;
  }

  Bench& bench_;
  Timer timer_;
  std::map<std::string, Group> groups_{};
};

bool same_situation(const TuningRow& a, const TuningRow& b) {
  return a.op == b.op && a.ranks == b.ranks && a.per_cpu == b.per_cpu && a.transport == b.transport;
}

}  // namespace

std::vector<TuningRow> rows_of(const TuningRow& like, std::span<const Fastest> fastest) {
  std::vector<TuningRow> rows;
  for (const Fastest& point : fastest) {
    if (rows.empty() || rows.back().choice != point.choice) {
      rows.push_back(like);
      rows.back().choice = point.choice;
    }
    rows.back().up_to = point.contribution;
  }
  if (!rows.empty()) {
    rows.back().up_to = TuningRow::kAnySize;
  }
  return rows;
}

std::vector<TuningRow> merged(std::span<const TuningRow> old, std::span<const TuningRow> fresh) {
  std::vector<TuningRow> rows(fresh.begin(), fresh.end());
  for (const TuningRow& row : old) {
    const bool replaced = std::any_of(fresh.begin(), fresh.end(), [&](const TuningRow& other) {
      return same_situation(row, other);
    });
    if (!replaced) {
      rows.push_back(row);
    }
  }
  return rows;
}

std::vector<TuningRow> tune(Bench& bench) { return Tuner(bench).run(); }

void write_table(const std::string& path, std::span<const TuningRow> rows) {
  if (path.empty()) {
    fmt::print("{}", TuningTable({rows.begin(), rows.end()}, "").text());
    return;
  }
  std::vector<TuningRow> all(rows.begin(), rows.end());
  if (::access(path.c_str(), F_OK) == 0) {
    all = merged(TuningTable::load(path).rows(), rows);
  }
  std::ofstream file(path);
  file << TuningTable(std::move(all), path).text();
  file.close();
  if (!file) {
    throw InvalidArgument(fmt::format("--out {}: the file cannot be written", path));
  }
}

}  // namespace tutti::cli
