// A model of ranks that run direct plans: the plans and epochs are the product's, the memory holds
// what a piece is instead of its bytes, and every access to shared memory is an action of its own.
// What it repeats of DirectRun is in which order a step waits, reads, writes and posts.
//
// Broken is: to read a slot that does not hold the piece of this call and segment, be it too early
// or too late; to end a call with a wrong or missing result; to post a number that does not grow.
// A read is one action although it takes time: a writer that may come during a read may also come
// before it, as nothing makes the reader hurry, and then the read finds what was written.
#pragma once

#include "plan/direct_plan.hpp"
#include "transport/team.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tutti::model {

inline constexpr int kMostRanks = 3;
inline constexpr std::uint32_t kUnits = 6;  ///< a ring; a slot takes one or more of them

struct ModelCall {
  Op op = Op::barrier;
  Protocol protocol = Protocol::inlined;
  int root = 0;
  std::uint32_t segments = 1;
  std::uint32_t slot_units = 1;
  int lookahead = 0;
};

/// What a test may break. As it stands: what the product does.
struct Rules {
  std::function<void(DirectPlan&)> change_plan = [](DirectPlan&) {};
  std::uint32_t calls_apart = kCallSlots;  ///< how far the first may be ahead of the last
  std::uint32_t left_early = 0;            ///< by how many posts a slot counts as left too early
  bool redivision_frees = true;            ///< another division waits for the end of earlier calls
  bool remembers_reader = true;            ///< a slot waits for its own readers, not the present
};

/// All ranks make the same calls.
struct Program {
  Program(int ranks, std::vector<ModelCall> list, const Rules& changed = {});

  int size;
  std::vector<ModelCall> calls;
  Rules rules;
  std::vector<std::array<DirectPlan, kMostRanks>> plans{};
};

class DirectModel {
 public:
  /// `program` outlives the model; posts begin at `first`.
  DirectModel(const Program& program, std::uint32_t first);

  int actions() const { return program_->size; }
  bool act(int rank);
  bool finished() const;
  const std::string& violation() const { return violation_; }
  std::string key() const;

 private:
  enum class Did : std::uint8_t { local, shared, blocked };

  /// What a piece of shared memory holds.
  struct Piece {
    std::uint8_t call = 0;  ///< from 1 on; 0: nothing
    std::uint8_t segment = 0;
    std::uint8_t ranks = 0;  ///< a bit for each rank that contributed
    std::uint8_t number = 0;
    bool operator==(const Piece&) const = default;
  };
  using Pieces = std::array<Piece, kMostRanks>;
  struct Call {
    std::uint32_t epoch = 0;
    std::uint32_t announced = 0;
    Pieces data{};
  };
  struct Area {
    std::uint32_t progress = 0;
    std::uint32_t ack = 0;
    std::uint32_t arrivals = 0;
    std::array<Call, kCallSlots> calls{};
    std::array<Call, kCallSlots> results{};
    std::array<Pieces, kUnits> ring{};
  };
  struct Use {
    std::uint32_t progress = 0;
    std::int32_t reader = -1;
  };
  struct Rank {
    std::uint32_t next = 0;  ///< call of the program
    std::uint32_t inside = 0;
    std::uint32_t iteration = 0;
    std::uint32_t step = 0;
    std::uint32_t part = 0;  ///< progress within the step
    std::uint32_t call = 0;
    std::uint32_t safe = 0;
    std::uint32_t base = 0;
    std::uint32_t cursor = 0;
    std::uint32_t slot_units = 0;
    std::uint32_t arrivals = 0;
    std::uint32_t written = 0;  ///< a bit per piece and segment of the output
    std::array<Use, kUnits> uses{};
  };

  const ModelCall& planned() const { return program_->calls[rank().next]; }
  const DirectPlan& plan() const { return program_->plans[rank().next][index(me_)]; }
  static std::size_t index(int k) { return static_cast<std::size_t>(k); }
  Rank& rank() { return ranks_[index(me_)]; }
  const Rank& rank() const { return ranks_[index(me_)]; }
  Area& own() { return areas_[index(me_)]; }
  std::uint8_t bit(int k) const { return static_cast<std::uint8_t>(1U << k); }
  std::uint8_t everybody() const { return static_cast<std::uint8_t>((1U << program_->size) - 1); }
  bool staged() const { return plan().protocol == Protocol::staged; }
  std::uint32_t iterations() const;
  std::uint32_t slots() const { return kUnits / planned().slot_units; }

  Did go_on();
  Did enter();
  Did run_step(const DirectStep& step);
  Did leave();
  void announce();
  bool met(int seat);
  bool posted(const DirectStep& step, int seat);
  Did reuse();
  Did copy_in(const DirectStep& step);
  Did reduce(const DirectStep& step);
  Did fetch(const DirectStep& step);
  Did wait(const DirectStep& step);
  Did arrive();
  void post(std::uint32_t& epoch, std::uint32_t value);
  void write_slot(int number, Piece piece);
  Piece read_slot(int seat, int number);
  void reduce_all(int number);
  void write_output(int to, Piece piece);
  void check_result();
  int number_of(tutti::Piece piece, int seat) const;
  int peer_count(const DirectStep& step) const;
  int peer_at(const DirectStep& step, int i) const;
  void broken(const std::string& what);

  const Program* program_;
  int me_ = 0;                 ///< whose action is under way
  std::uint32_t segment_ = 0;  ///< of the step under way
  std::array<Area, kMostRanks> areas_{};
  std::array<Rank, kMostRanks> ranks_{};
  std::string violation_{};
};

}  // namespace tutti::model
