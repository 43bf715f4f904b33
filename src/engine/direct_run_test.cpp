// Direct plans of all ranks of a team, run in one thread: since DirectRun never waits, a test can
// choose who goes on whenever a rank is blocked, and so brings ranks as far apart as the protocols
// allow. Every result is compared with what the operation means.
#include "engine/direct_run.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace tutti {
namespace {

using Bytes = std::vector<std::byte>;

/// One call of a program; all ranks make the same ones.
struct Planned {
  Op op = Op::barrier;
  Protocol protocol = Protocol::inlined;
  int root = 0;
  std::size_t block = 0;    ///< bytes of one block
  std::size_t segment = 0;  ///< staged: bytes per segment
  std::size_t ring = 0;     ///< staged: bytes of the ring
  int lookahead = 0;
};

std::byte datum(std::size_t call, int rank, int block, std::size_t i) {
  const std::size_t mixed = call * 7919 + static_cast<std::size_t>(rank) * 613 +
                            static_cast<std::size_t>(block) * 131 + i * 29;
  return static_cast<std::byte>((mixed ^ (mixed >> 8)) & 0xff);
}

int in_blocks(const Planned& call, Seat me) {
  return spec(call.op).in.shares(me.rank, call.root, me.size);
}

int out_blocks(const Planned& call, Seat me) {
  return spec(call.op).out.shares(me.rank, call.root, me.size);
}

/// What block `block` of the output holds at `i`; reductions are bxor.
std::byte expected(const Planned& call, std::size_t number, Seat me, int block, std::size_t i) {
  const auto reduced = [&](int share) {
    std::byte sum{};
    for (int k = 0; k < me.size; ++k) {
      sum ^= datum(number, k, share, i);
    }
    return sum;
  };
  switch (call.op) {
    case Op::all_reduce:
    case Op::reduce:
      return reduced(0);
    case Op::reduce_scatter:
      return reduced(me.rank);
    case Op::broadcast:
      return datum(number, call.root, 0, i);
    case Op::scatter:
      return datum(number, call.root, me.rank, i);
    case Op::gather:
    case Op::all_gather:
      return datum(number, block, 0, i);
    case Op::all_to_all:
      return datum(number, block, me.rank, i);
    case Op::barrier:
    case Op::send:
    case Op::recv:
      break;
  }
  return {};
}

class TeamOfOneThread {
 public:
  /// All counters begin at `first`, to cross the end of their range.
  TeamOfOneThread(int size, std::uint32_t first) {
    for (int k = 0; k < size; ++k) {
      areas_.push_back(std::make_unique<TeamArea>());
      for (Epoch* epoch : {static_cast<Epoch*>(&areas_.back()->progress),
                           static_cast<Epoch*>(&areas_.back()->ack)}) {
        epoch->value = first;
      }
      for (auto* slots : {&areas_.back()->calls, &areas_.back()->results}) {
        for (CallSlot& slot : *slots) {
          slot.epoch.value = first;
        }
      }
    }
    for (int k = 0; k < size; ++k) {
      ranks_.push_back(std::make_unique<Rank>(members(), Seat{k, size}, first));
    }
  }

  /// Runs `program` on all ranks in an order drawn from `seed`; "" or what went wrong.
  std::string run(const std::vector<Planned>& program, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Rank*> able;
    for (const auto& rank : ranks_) {
      able.push_back(rank.get());
    }
    std::vector<Rank*> blocked;
    while (!able.empty()) {
      const std::size_t pick = random() % able.size();
      Rank* rank = able[pick];
      const auto before = rank->position();
      if (std::string wrong = rank->go(program); !wrong.empty()) {
        return wrong;
      }
      if (rank->position() != before) {
        // Whoever moved may have freed the others.
        able.insert(able.end(), blocked.begin(), blocked.end());
        blocked.clear();
      }
      if (rank->running || rank->ended(program)) {
        able.erase(able.begin() + static_cast<std::ptrdiff_t>(pick));
      }
      if (rank->running) {
        blocked.push_back(rank);
      }
    }
    std::string waits;
    for (const Rank* rank : blocked) {
      waits += "\n" + rank->where();
    }
    return blocked.empty() ? "" : "all remaining ranks wait:" + waits;
  }

 private:
  struct Rank {
    Rank(std::vector<Team::Member> members, Seat place, std::uint32_t first)
        : seat(place),
          team(
              place, std::move(members), PublishMode::exchange, [](void*, int) {}, nullptr),
          state(place.size) {
      state.call = state.safe = state.base = first;
      std::ranges::fill(state.seen, first);
    }

    struct Position {
      std::size_t call;
      std::size_t bytes;
      const Epoch* epoch;
      std::uint32_t target;
      bool operator==(const Position&) const = default;
    };
    Position position() const {
      return {next, running ? run.bytes_done() : 0, run.blocked().epoch, run.blocked().target};
    }
    bool ended(const std::vector<Planned>& program) const { return next == program.size(); }
    std::string where() const {
      return "rank " + std::to_string(seat.rank) + " in call " + std::to_string(next) + " (" +
             std::string(spec(call.op).name) + ") for seat " + std::to_string(run.blocked().seat) +
             " to come from " + std::to_string(run.blocked().epoch->value.load()) + " to " +
             std::to_string(run.blocked().target);
    }

    /// Until blocked, or the end of one call.
    std::string go(const std::vector<Planned>& program) {
      const Planned& planned = program[next];
      if (!running) {
        begin(planned);
      }
      if (!run.advance()) {
        return run.mismatched() ? where() + " sees another call" : "";
      }
      running = false;
      return check(planned, next++);
    }

    void begin(const Planned& planned) {
      running = true;
      plan = direct_plan(planned.op, planned.protocol, seat, planned.root, planned.lookahead);
      call = Call{};
      call.op = planned.op;
      call.dtype = DType::u8;
      call.reduce = ReduceOp::bxor;
      call.root = planned.root;
      call.history = next + 1;
      in.resize(planned.block * static_cast<std::size_t>(in_blocks(planned, seat)));
      out.assign(planned.block * static_cast<std::size_t>(out_blocks(planned, seat)), std::byte{});
      for (int b = 0; b < in_blocks(planned, seat); ++b) {
        std::byte* data = in.data() + static_cast<std::size_t>(b) * planned.block;
        for (std::size_t i = 0; i < planned.block; ++i) {
          data[i] = datum(next, seat.rank, b, i);
        }
        call.in.push_back({data, planned.block});
      }
      for (int b = 0; b < out_blocks(planned, seat); ++b) {
        call.out.push_back(
            {out.data() + static_cast<std::size_t>(b) * planned.block, planned.block});
      }
      run.start(team, state, plan, call,
                {.segment = planned.segment, .ring = planned.ring, .streaming = 0});
    }

    std::string check(const Planned& planned, std::size_t number) const {
      for (int b = 0; b < out_blocks(planned, seat); ++b) {
        for (std::size_t i = 0; i < planned.block; ++i) {
          const std::byte actual = out[static_cast<std::size_t>(b) * planned.block + i];
          if (actual != expected(planned, number, seat, b, i)) {
            return std::string(spec(planned.op).name) + ", call " + std::to_string(number) +
                   ", rank " + std::to_string(seat.rank) + ": byte " + std::to_string(i) +
                   " of block " + std::to_string(b) + " is wrong";
          }
        }
      }
      return "";
    }

    Seat seat;
    Team team;
    TeamState state;
    DirectRun run;
    DirectPlan plan;
    Call call;
    Bytes in{};
    Bytes out{};
    std::size_t next = 0;
    bool running = false;
  };

  std::vector<Team::Member> members() const {
    std::vector<Team::Member> list;
    for (std::size_t k = 0; k < areas_.size(); ++k) {
      list.push_back({static_cast<int>(k), areas_[k].get()});
    }
    return list;
  }

  std::vector<std::unique_ptr<TeamArea>> areas_{};
  std::vector<std::unique_ptr<Rank>> ranks_{};
};

constexpr std::size_t kLine = 64;

/// A call of `op` whose staged form fills a ring of a few slots several times.
Planned staged(Op op, int size, int root, std::size_t segments, std::size_t slots, int lookahead) {
  const bool blocks = spec(op).block_per_rank();
  const std::size_t slot = kLine * (blocks ? static_cast<std::size_t>(size) : 4);
  return {.op = op,
          .protocol = Protocol::staged,
          .root = root,
          .block = segments * (blocks ? kLine : slot) - 3,
          .segment = slot,
          .ring = slot * slots,
          .lookahead = lookahead};
}

std::vector<Planned> random_program(int size, std::mt19937& random) {
  std::vector<Op> ops;
  for (const Spec& row : kSpecs) {
    if (has_direct_plan(row.op, Protocol::inlined)) {
      ops.push_back(row.op);
    }
  }
  const auto draw = [&](std::size_t least, std::size_t most) {
    return least + random() % (most - least + 1);
  };
  std::vector<Planned> program;
  // Calls of one division follow each other more often than chance would have it.
  std::size_t slots = 2;
  for (int i = 0; i < 100; ++i) {
    const Op op = ops[draw(0, ops.size() - 1)];
    const int root = static_cast<int>(draw(0, static_cast<std::size_t>(size) - 1));
    if (draw(0, 5) == 0) {
      slots = draw(2, 4);
    }
    if (has_direct_plan(op, Protocol::staged) && draw(0, 3) != 0) {
      program.push_back(
          staged(op, size, root, draw(1, 6), slots, slots > 2 ? static_cast<int>(draw(0, 1)) : 0));
    } else if (has_direct_plan(op, Protocol::arrival) && draw(0, 1) != 0) {
      program.push_back({.op = op, .protocol = Protocol::arrival, .block = draw(0, 300)});
    } else {
      program.push_back({.op = op, .root = root, .block = op == Op::barrier ? 0 : draw(0, 300)});
    }
  }
  return program;
}

TEST(DirectRun, GivesRightResultsHoweverFarTheRanksDriftApart) {
  for (const int size : {1, 2, 3, 4, 8}) {
    for (unsigned seed = 0; seed < 40; ++seed) {
      std::mt19937 random(seed);
      const auto program = random_program(size, random);
      TeamOfOneThread team(size, 0);
      ASSERT_EQ(team.run(program, seed), "") << size << " ranks, seed " << seed;
    }
  }
}

TEST(DirectRun, CountersMayPassTheEndOfTheirRange) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const auto program = random_program(3, random);
    TeamOfOneThread team(3, 0xfffffff4U);
    ASSERT_EQ(team.run(program, seed), "") << "seed " << seed;
  }
}

TEST(DirectRun, ASlotThatAllReadIsNotReusedWhenOnlyTheNextReaderHasLeftIt) {
  // The gather is read by its root alone; the all_gather before it was read by everybody.
  for (unsigned seed = 0; seed < 40; ++seed) {
    const std::vector<Planned> program{staged(Op::all_gather, 4, 0, 2, 2, 0),
                                       staged(Op::gather, 4, 1, 4, 2, 0)};
    TeamOfOneThread team(4, 0);
    ASSERT_EQ(team.run(program, seed), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace tutti
