#include "launcher/forwarder.hpp"

#include <tutti/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace tutti::launcher {
namespace {

constexpr std::size_t kReadBytes = 16 * 1024;

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

void make_log_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw InvalidArgument(
        fmt::format("--log-dir {}: the folder cannot be made: {}", folder, error.message()));
  }
}

}  // namespace

Forwarder::Forwarder(const RunOptions& options) : chunk_(kReadBytes, '\0') {
  consoles_.push_back(std::make_unique<Console>(STDOUT_FILENO));
  if (!same_target(STDOUT_FILENO, STDERR_FILENO)) {
    consoles_.push_back(std::make_unique<Console>(STDERR_FILENO));
  }
  watched_.assign(consoles_.size(), false);
  if (!options.log_folder.empty()) {
    make_log_folder(options.log_folder);
  }
  const std::vector<bool> shown = parse_rank_list(options.shown_ranks, options.ranks);
  const std::string host = host_name();
  for (int rank = 0; rank < options.ranks; ++rank) {
    const std::string prefix =
        expand_prefix(options.prefix, {.host = host, .rank = rank, .local_rank = rank});
    const std::array<Console*, 2> consoles{consoles_.front().get(), consoles_.back().get()};
    constexpr std::array<std::string_view, 2> kNames{"stdout", "stderr"};
    for (std::size_t which = 0; which < consoles.size(); ++which) {
      Stream stream{.lines = LineSplitter(prefix)};
      stream.console = shown[static_cast<std::size_t>(rank)] ? consoles[which] : nullptr;
      open_stream(stream,
                  options.log_folder.empty()
                      ? ""
                      : fmt::format("{}/rank-{}.{}", options.log_folder, rank, kNames[which]));
      streams_.push_back(std::move(stream));
    }
  }
}

void Forwarder::open_stream(Stream& stream, const std::string& log_path) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw InvalidArgument(
        fmt::format("no pipe for the output of {} ranks: {}; raise the limit on "
                    "open files (ulimit -n) or start fewer ranks",
                    streams_.size() / 2 + 1, std::strerror(errno)));
  }
  stream.near_end.reset(ends[0]);
  stream.far_end.reset(ends[1]);
  ::fcntl(stream.near_end.get(), F_SETFL, O_NONBLOCK);  // of our end only: ends do not share modes
  if (!log_path.empty()) {
    stream.log.reset(::open(log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!stream.log.valid()) {
      throw InvalidArgument(
          fmt::format("--log-dir: cannot write {}: {}", log_path, std::strerror(errno)));
    }
  }
}

void Forwarder::release_far_ends() {
  for (Stream& stream : streams_) {
    stream.far_end.reset();
  }
}

void Forwarder::watch(Poller& poller) {
  poller_ = &poller;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    poller.add(streams_[i].near_end.get(), EPOLLIN, i);
  }
}

void Forwarder::on_event(std::uint64_t token) {
  if (token < streams_.size()) {
    read(static_cast<std::size_t>(token));
  } else {
    settle(*consoles_[static_cast<std::size_t>(token) - streams_.size()]);
  }
  if (over_) {
    job_is_over();  // a stream that goes on now may be empty, and nothing will announce that
  }
}

void Forwarder::read(std::size_t index) {
  Stream& stream = streams_[index];
  if (!stream.near_end.valid() || stream.paused) {
    return;
  }
  // One chunk per event is fair to the others; at the end take all, as nothing more is announced.
  const bool more = read_once(stream);
  while (over_ && more && stream.near_end.valid() && !stream.paused && read_once(stream)) {
  }
}

bool Forwarder::read_once(Stream& stream) {
  const ssize_t count = ::read(stream.near_end.get(), chunk_.data(), chunk_.size());
  if (count < 0 && errno == EINTR) {
    return true;
  }
  if (count < 0 && errno == EAGAIN && !over_) {
    return false;
  }
  if (count <= 0) {
    end(stream);
    return false;
  }
  const std::string_view bytes(chunk_.data(), static_cast<std::size_t>(count));
  write_log(stream, bytes);
  if (stream.console != nullptr && !stream.console->closed()) {
    stream.lines.feed(bytes, stream.console->buffer());
    settle(*stream.console);
  }
  if (stream.console != nullptr && stream.console->full()) {
    // Removed rather than masked: a hung-up pipe would be reported again and again.
    poller_->remove(stream.near_end.get());
    stream.paused = true;
  }
  return true;
}

void Forwarder::end(Stream& stream) {
  poller_->remove(stream.near_end.get());
  stream.near_end.reset();
  stream.log.reset();
  if (stream.console != nullptr && !stream.console->closed()) {
    stream.lines.finish(stream.console->buffer());
    settle(*stream.console);
  }
}

void Forwarder::write_log(Stream& stream, std::string_view bytes) {
  while (stream.log.valid() && !bytes.empty()) {
    const ssize_t count = ::write(stream.log.get(), bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      const int code = errno;
      stream.log.reset();
      if (!log_failed_) {
        log_failed_ = true;
        say(fmt::format("a log file is cut short: {}", std::strerror(code)));
      }
    }
  }
}

// Writes what can be written, watches for the rest, and lets paused ranks go on.
void Forwarder::settle(Console& console) {
  console.write();
  const auto index = static_cast<std::size_t>(
      std::find_if(consoles_.begin(), consoles_.end(),
                   [&](const auto& own) { return own.get() == &console; }) -
      consoles_.begin());
  const bool wanted = console.pending() > 0 && console.watchable() >= 0;
  if (wanted != watched_[index] && poller_ != nullptr) {
    if (wanted) {
      poller_->add(console.watchable(), EPOLLOUT, streams_.size() + index);
    } else {
      poller_->remove(console.watchable());
    }
    watched_[index] = wanted;
  }
  if (!console.closed() && !console.roomy()) {
    return;
  }
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    if (stream.console == &console && stream.paused) {
      stream.paused = false;
      poller_->add(stream.near_end.get(), EPOLLIN, i);
    }
  }
}

void Forwarder::job_is_over() {
  over_ = true;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    read(i);
  }
}

bool Forwarder::drained() const {
  return std::all_of(streams_.begin(), streams_.end(),
                     [](const Stream& stream) { return !stream.near_end.valid(); }) &&
         std::all_of(consoles_.begin(), consoles_.end(),
                     [](const auto& console) { return console->pending() == 0; });
}

void Forwarder::say(std::string_view line) {
  Console& console = *consoles_.back();
  if (!console.closed()) {
    console.buffer() += fmt::format("tutti run: {}\n", line);
    settle(console);
  }
}

}  // namespace tutti::launcher
