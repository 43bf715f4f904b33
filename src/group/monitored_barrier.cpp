// monitored_barrier: rank 0 collects a message from everybody until the deadline, then tells those
// that came who is missing. One timeout in total, whoever and however many stay away.
#include "group/group_state.hpp"

#include <tutti/collectives.hpp>
#include <tutti/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace tutti {
namespace {

/// The others wait for the verdict a little longer than rank 0 waits for them.
constexpr std::chrono::milliseconds kVerdictGrace{1000};

class MonitoredBarrier {
 public:
  MonitoredBarrier(const Group& group, const MonitoredBarrierOptions& options)
      : lane_(group.state().lane()),
        seat_(group.state().seat()),
        number_(group.state().next_monitored_barrier()),
        timeout_(options.timeout.value_or(group.timeout())),
        all_(options.wait_all_ranks),
        context_{
            .group = group.name(), .seat = seat_, .op = "monitored_barrier", .sequence = number_},
        came_(static_cast<std::size_t>(seat_.size), kUnasked) {}

  void run() {
    if (timeout_.count() <= 0) {
      throw InvalidArgument(fmt::format("{}: timeout is {} ms; it must be positive",
                                        describe(context_), timeout_.count()));
    }
    if (seat_.rank == 0) {
      collect();
    } else {
      report();
    }
    if (const std::vector<int> gone = ranks_that(kGone); !gone.empty()) {
      fail(ErrorKind::peer_lost, fmt::format("rank {} is gone", fmt::join(gone, ", ")),
           gone.front());
    }
    if (const std::vector<int> late = ranks_that(kLate); !late.empty()) {
      fail(
          ErrorKind::timeout,
          fmt::format("rank {} did not come within {} ms", fmt::join(late, ", "), timeout_.count()),
          late.front());
    }
  }

 private:
  void collect() {
    const Deadline deadline = Deadline::after(timeout_);
    came_[0] = kHere;
    bool complete = true;
    for (int rank = 1; rank < seat_.size && (complete || all_); ++rank) {
      std::byte& mark = came_[static_cast<std::size_t>(rank)];
      try {
        if (!lane_.transfer_bytes(Op::recv, rank, tag(0), std::span(&mark, 1), deadline)) {
          mark = kLate;
        }
      } catch (const PeerLost& error) {
        rethrow_unless_about(error, rank);
        mark = kGone;
      }
      complete = complete && mark == kHere;
    }
    const Deadline grace = Deadline::after(kVerdictGrace);
    for (int rank = 1; rank < seat_.size; ++rank) {
      // Also who is late learns of it, once it comes.
      if (came_[static_cast<std::size_t>(rank)] != kGone) {
        tell(rank, grace);
      }
    }
  }

  /// A transfer also ends when the group has failed because of somebody else.
  static void rethrow_unless_about(const PeerLost& error, int rank) {
    if (error.peer() != rank) {
      throw error;
    }
  }

  void tell(int rank, Deadline deadline) {
    try {
      lane_.transfer_bytes(Op::send, rank, tag(1), came_, deadline);
    } catch (const PeerLost& error) {
      rethrow_unless_about(error, rank);
      // It came, or was not asked, and then died: the next operation says so.
    }
  }

  void report() {
    std::byte here = kHere;
    const Deadline deadline = Deadline::after(timeout_ + kVerdictGrace);
    bool answered = false;
    try {
      answered = lane_.transfer_bytes(Op::send, 0, tag(0), std::span(&here, 1), deadline) &&
                 lane_.transfer_bytes(Op::recv, 0, tag(1), came_, deadline);
    } catch (const PeerLost& error) {
      rethrow_unless_about(error, 0);
      fail(ErrorKind::peer_lost, "rank 0, which collects, is gone", 0);
    }
    if (!answered) {
      fail(ErrorKind::timeout,
           fmt::format("rank 0, which collects, did not answer within {} ms", timeout_.count()), 0);
    }
  }

  std::vector<int> ranks_that(std::byte mark) const {
    std::vector<int> ranks;
    for (int rank = 0; rank < seat_.size; ++rank) {
      if (came_[static_cast<std::size_t>(rank)] == mark) {
        ranks.push_back(rank);
      }
    }
    return ranks;
  }

  [[noreturn]] void fail(ErrorKind kind, const std::string& what, int peer) {
    const Failure failure{
        .kind = kind, .text = fmt::format("{}: {}", describe(context_), what), .peer = peer};
    lane_.fail(failure, Lane::Tell::others);
    raise(failure);
  }

  std::uint64_t tag(std::uint64_t phase) const { return number_ << 1 | phase; }

  // What rank 0 knows of a rank.
  static constexpr std::byte kLate{0};
  static constexpr std::byte kHere{1};
  static constexpr std::byte kGone{2};
  static constexpr std::byte kUnasked{3};  ///< without wait_all_ranks the first missing one counts

  Lane& lane_;
  Seat seat_;
  std::uint64_t number_;
  std::chrono::milliseconds timeout_;
  bool all_;
  OpContext context_;
  std::vector<std::byte> came_;
};

}  // namespace

void monitored_barrier(const Group& group, const MonitoredBarrierOptions& options) {
  MonitoredBarrier(group, options).run();
}

}  // namespace tutti
