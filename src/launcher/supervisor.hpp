// The launcher's event loop: one thread that watches signals, the keeper, the ranks' output and the
// clock, and decides. Phases:
//
//   running ──a rank fails, a signal, --timeout──> stopping ──grace period──> killing
//      └──────────── all ranks ended ────────────────┴──> ending ──> over (keeper gone) ──> drained
//
// Ending: what the ranks left behind gets SIGTERM, and SIGKILL after the grace period.
#pragma once

#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "launcher/forwarder.hpp"
#include "launcher/keeper.hpp"
#include "launcher/options.hpp"
#include "launcher/report.hpp"
#include "net/poller.hpp"

#include <optional>

namespace tutti::launcher {

class Supervisor {
 public:
  /// `signals`: a signalfd of the signals to forward. All references outlive it.
  Supervisor(const RunOptions& options, Keeper& keeper, Forwarder& forwarder, int signals);
  /// Until the job is over and its output written; returns how it ended.
  JobOutcome run();

 private:
  void on_signals();
  void on_signal(int signal);
  void on_keeper();
  void on_event(const KeeperEvent& event);
  void on_keeper_gone();
  void on_deadlines();
  Duration until_next_deadline() const;

  void stop(Cause cause, int signal);
  void kill();
  void begin_ending();
  bool finished() const;
  bool output_is_done() const;

  const RunOptions& options_;
  Keeper& keeper_;
  Forwarder& forwarder_;
  int signals_;
  Poller poller_{};
  JobOutcome outcome_{};
  int running_ranks_;
  bool ending_ = false;
  bool terminated_ = false;  // everybody was sent SIGTERM
  bool impatient_ = false;   // do not wait for a slow reader any more
  TimePoint started_;
  std::optional<TimePoint> stopping_since_{};
  std::optional<TimePoint> killing_since_{};
  std::optional<TimePoint> keeper_gone_since_{};
};

}  // namespace tutti::launcher
