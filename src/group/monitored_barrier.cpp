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
  MonitoredBarrier(Group& group, const MonitoredBarrierOptions& options)
      : lane_(group.state().lane()),
        seat_(group.state().seat()),
        number_(group.state().next_monitored_barrier()),
        timeout_(options.timeout.value_or(group.timeout())),
        all_(options.wait_all_ranks),
        context_{
            .group = group.name(), .seat = seat_, .op = "monitored_barrier", .sequence = number_},
        came_(static_cast<std::size_t>(seat_.size), std::byte{0}) {}

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
    const std::vector<int> missing = missing_ranks();
    if (!missing.empty()) {
      fail(fmt::format("rank {} did not come within {} ms", fmt::join(missing, ", "),
                       timeout_.count()),
           missing.front());
    }
  }

 private:
  void collect() {
    const Deadline deadline = Deadline::after(timeout_);
    came_[0] = std::byte{1};
    for (int rank = 1; rank < seat_.size; ++rank) {
      std::byte& mark = came_[static_cast<std::size_t>(rank)];
      if (!lane_.transfer_bytes(Op::recv, rank, tag(0), std::span(&mark, 1), deadline)) {
        mark = std::byte{0};
        if (!all_) {
          break;
        }
      }
    }
    const Deadline grace = Deadline::after(kVerdictGrace);
    for (int rank = 1; rank < seat_.size; ++rank) {
      if (came_[static_cast<std::size_t>(rank)] != std::byte{0}) {
        lane_.transfer_bytes(Op::send, rank, tag(1), came_, grace);
      }
    }
  }

  void report() {
    std::byte here{1};
    const Deadline deadline = Deadline::after(timeout_ + kVerdictGrace);
    if (!lane_.transfer_bytes(Op::send, 0, tag(0), std::span(&here, 1), deadline) ||
        !lane_.transfer_bytes(Op::recv, 0, tag(1), came_, deadline)) {
      fail(fmt::format("rank 0, which collects, did not answer within {} ms", timeout_.count()), 0);
    }
  }

  std::vector<int> missing_ranks() const {
    std::vector<int> missing;
    for (int rank = 0; rank < seat_.size; ++rank) {
      if (came_[static_cast<std::size_t>(rank)] == std::byte{0}) {
        missing.push_back(rank);
        if (!all_) {
          break;
        }
      }
    }
    return missing;
  }

  [[noreturn]] void fail(const std::string& what, int peer) {
    const Failure failure{.kind = ErrorKind::timeout,
                          .text = fmt::format("{}: {}", describe(context_), what),
                          .peer = peer};
    lane_.fail(failure, Lane::Tell::nobody);
    raise(failure);
  }

  std::uint64_t tag(std::uint64_t phase) const { return number_ << 1 | phase; }

  Lane& lane_;
  Seat seat_;
  std::uint64_t number_;
  std::chrono::milliseconds timeout_;
  bool all_;
  OpContext context_;
  std::vector<std::byte> came_;
};

}  // namespace

void monitored_barrier(Group& group, const MonitoredBarrierOptions& options) {
  MonitoredBarrier(group, options).run();
}

}  // namespace tutti
