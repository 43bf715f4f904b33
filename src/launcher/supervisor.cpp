#include "launcher/supervisor.hpp"

#include "launcher/process_tree.hpp"

#include <fmt/format.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace tutti::launcher {
namespace {

// `timeout` and some shells send one request twice, to the process and to its group.
constexpr std::chrono::seconds kSameRequest{1};
// Longest wait for processes that SIGKILL does not end (they are stuck in the kernel).
constexpr std::chrono::seconds kKillLimit{5};

TimePoint now() { return SteadyClock().now(); }

bool is_user_signal(int signal) { return signal == SIGUSR1 || signal == SIGUSR2; }

}  // namespace

Supervisor::Supervisor(const RunOptions& options, Keeper& keeper, Forwarder& forwarder, int signals)
    : options_(options),
      keeper_(keeper),
      forwarder_(forwarder),
      signals_(signals),
      running_ranks_(options.ranks),
      started_(now()) {
  outcome_.ranks.resize(static_cast<std::size_t>(options.ranks));
  outcome_.timeout = options.timeout;
}

JobOutcome Supervisor::run() {
  forwarder_.watch(poller_);
  const std::uint64_t signal_token = forwarder_.token_count();
  const std::uint64_t keeper_token = signal_token + 1;
  poller_.add(signals_, EPOLLIN, signal_token);
  poller_.add(keeper_.channel(), EPOLLIN, keeper_token);
  while (!finished()) {
    for (const Poller::Event& event : poller_.wait(until_next_deadline())) {
      if (event.token < signal_token) {
        forwarder_.on_event(event.token);
      } else if (event.token == signal_token) {
        on_signals();
      } else if (event.token == keeper_token) {
        on_keeper();
      }
    }
    on_deadlines();
  }
  const std::string text = report(outcome_);
  if (!text.empty()) {
    forwarder_.say(text);
  }
  while (!output_is_done()) {
    for (const Poller::Event& event : poller_.wait(until_next_deadline())) {
      if (event.token < signal_token) {
        forwarder_.on_event(event.token);
      } else if (event.token == signal_token) {
        on_signals();
      }
    }
  }
  return outcome_;
}

bool Supervisor::finished() const { return keeper_gone_since_ && output_is_done(); }

// Waits for a slow reader as long as it takes, like any program that writes to a pipe, unless the
// job was told to stop; a signal or a reader that goes away ends that too.
bool Supervisor::output_is_done() const {
  const bool told = outcome_.cause == Cause::signal || outcome_.cause == Cause::timeout;
  return impatient_ || forwarder_.drained() ||
         (told && now() >= *keeper_gone_since_ + options_.shutdown_timeout);
}

void Supervisor::on_signals() {
  signalfd_siginfo info{};
  while (::read(signals_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    on_signal(static_cast<int>(info.ssi_signo));
  }
}

void Supervisor::on_signal(int signal) {
  if (is_user_signal(signal)) {
    keeper_.send({.kind = KeeperCommand::Kind::signal_ranks, .signal = signal});
    return;
  }
  if (keeper_gone_since_) {
    impatient_ = true;
    return;
  }
  if (!stopping_since_ && !ending_) {
    stop(Cause::signal, signal);
  } else if (!stopping_since_ || now() - *stopping_since_ > kSameRequest) {
    impatient_ = true;
    kill();
  }
}

void Supervisor::on_keeper() {
  KeeperEvent event;
  for (;;) {
    switch (keeper_.receive(event)) {
      case Keeper::Next::event:
        on_event(event);
        break;
      case Keeper::Next::nothing:
        return;
      case Keeper::Next::gone:
        on_keeper_gone();
        return;
    }
  }
}

void Supervisor::on_event(const KeeperEvent& event) {
  const auto index = static_cast<std::size_t>(event.rank);
  if (event.kind == KeeperEvent::Kind::not_started) {
    if (outcome_.cause == Cause::none) {
      outcome_.first_rank = event.rank;
      outcome_.detail = std::strerror(event.status);
      stop(Cause::not_started, SIGTERM);
    }
  } else {
    outcome_.ranks[index] = {
        .ended = true, .status = event.status, .after_stop = stopping_since_.has_value()};
    if (event.status != 0 && outcome_.cause == Cause::none) {
      outcome_.first_rank = event.rank;
      stop(Cause::rank_failed, SIGTERM);
    }
  }
  if (--running_ranks_ == 0) {
    begin_ending();
  }
}

void Supervisor::stop(Cause cause, int signal) {
  outcome_.cause = cause;
  if (cause == Cause::signal) {
    outcome_.signal = signal;
  }
  stopping_since_ = now();
  terminated_ = signal == SIGTERM;
  keeper_.send({.kind = KeeperCommand::Kind::signal_tree, .signal = signal});
}

void Supervisor::kill() {
  if (!killing_since_) {
    killing_since_ = now();
    outcome_.killed = outcome_.killed || running_ranks_ > 0;
    keeper_.send({.kind = KeeperCommand::Kind::kill_tree});
  }
}

void Supervisor::begin_ending() {
  ending_ = true;
  keeper_.send({.kind = KeeperCommand::Kind::finish});
  if (!terminated_) {  // whoever is busy ending hears it once
    keeper_.send({.kind = KeeperCommand::Kind::signal_tree, .signal = SIGTERM});
  }
  stopping_since_ = stopping_since_.value_or(now());
}

void Supervisor::on_keeper_gone() {
  if (keeper_gone_since_) {
    return;
  }
  keeper_gone_since_ = now();
  poller_.remove(keeper_.channel());
  keeper_.reap();
  if (!ending_) {
    outcome_.cause = Cause::keeper_lost;
    outcome_.first_rank = -1;
    // The ranks die with the keeper; what they had started belongs to this process now.
    const TimePoint limit = now() + kKillLimit;
    while (::waitpid(-1, nullptr, WNOHANG) >= 0 && now() < limit) {
      signal_tree(::getpid(), {}, SIGKILL);
      (void)poller_.wait(std::chrono::milliseconds(10));
    }
  }
  forwarder_.job_is_over();
}

void Supervisor::on_deadlines() {
  const TimePoint time = now();
  if (options_.timeout.count() > 0 && !stopping_since_ && time >= started_ + options_.timeout) {
    stop(Cause::timeout, SIGTERM);
  }
  if (stopping_since_ && !keeper_gone_since_ &&
      time >= *stopping_since_ + options_.shutdown_timeout) {
    kill();
  }
  if (killing_since_ && !keeper_gone_since_ && time >= *killing_since_ + kKillLimit) {
    const std::size_t stuck = processes_below(keeper_.pid()).size();
    forwarder_.say(
        fmt::format("{} processes of the job do not end after SIGKILL; the keeper, "
                    "process {}, waits for them",
                    stuck, keeper_.pid()));
    keeper_gone_since_ = time;
    impatient_ = true;
  }
}

Duration Supervisor::until_next_deadline() const {
  const TimePoint time = now();
  TimePoint next = time + (keeper_gone_since_ ? std::chrono::seconds(1) : std::chrono::seconds(60));
  if (options_.timeout.count() > 0 && !stopping_since_) {
    next = std::min<TimePoint>(next, started_ + options_.timeout);
  }
  if (keeper_gone_since_) {
    return next - time;
  }
  if (killing_since_) {
    next = std::min<TimePoint>(next, *killing_since_ + kKillLimit);
  } else if (stopping_since_) {
    next = std::min<TimePoint>(next, *stopping_since_ + options_.shutdown_timeout);
  }
  return std::max(next - time, Duration::zero());
}

}  // namespace tutti::launcher
