#include "launcher/console.hpp"

#include "base/limits.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace tutti::launcher {

Console::Console(int fd) : target_(fd) {
  struct stat found {};
  if (::fstat(fd, &found) != 0) {
    close();  // not open at all
  } else if (S_ISSOCK(found.st_mode)) {
    kind_ = Kind::socket;
  } else if (S_ISFIFO(found.st_mode) || ::isatty(fd) == 1) {
    own_.reset(::open(fmt::format("/proc/self/fd/{}", fd).c_str(),
                      O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!own_.valid() && errno == ENXIO) {
      close();  // a pipe that nobody reads any more
    }
    kind_ = own_.valid() ? Kind::reopened : Kind::careful;
    target_ = own_.valid() ? own_.get() : fd;
  }
}

bool Console::full() const { return pending() >= limits::kMaxConsoleBacklogBytes; }

bool Console::roomy() const { return pending() < limits::kMaxConsoleBacklogBytes / 4; }

void Console::close() {
  closed_ = true;
  buffer_.clear();
  written_ = 0;
}

std::size_t Console::next_chunk() const {
  if (kind_ == Kind::file) {
    return pending();
  }
  const std::string_view left = std::string_view(buffer_).substr(written_);
  if (left.size() <= PIPE_BUF) {
    return left.size();
  }
  const std::size_t line_end = left.substr(0, PIPE_BUF).rfind('\n');
  return line_end == std::string_view::npos ? PIPE_BUF : line_end + 1;
}

bool Console::is_writable() const {
  pollfd target{.fd = target_, .events = POLLOUT, .revents = 0};
  return kind_ != Kind::careful || ::poll(&target, 1, 0) > 0;
}

void Console::write() {
  while (!closed_ && pending() > 0 && is_writable()) {
    const char* data = buffer_.data() + written_;
    const ssize_t count = kind_ == Kind::socket
                              ? ::send(target_, data, next_chunk(), MSG_DONTWAIT | MSG_NOSIGNAL)
                              : ::write(target_, data, next_chunk());
    if (count >= 0) {
      written_ += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      close();  // EPIPE, a terminal that hung up, a full disk: the job's result does not depend on
                // it
    }
  }
  if (closed_ || pending() == 0) {
    buffer_.clear();
    written_ = 0;
  } else if (written_ > limits::kMaxConsoleBacklogBytes / 4) {
    buffer_.erase(0, written_);
    written_ = 0;
  }
}

bool same_target(int fd, int other) {
  struct stat a {};
  struct stat b {};
  return ::fstat(fd, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

}  // namespace tutti::launcher
