#include "store/file_log.hpp"

#include "base/ensure.hpp"
#include "base/limits.hpp"
#include "net/socket.hpp"

#include <tutti/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sodium.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace tutti {
namespace {

constexpr std::string_view kMagic = "TUTTIFS1";
constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kChecksumBytes = 4;
constexpr std::size_t kLeastPayload = kChecksumBytes + 1;  // the type follows the checksum
constexpr Duration kLockPause = std::chrono::microseconds(500);
constexpr Duration kWatchPause = std::chrono::milliseconds(20);
constexpr Duration kBlindPause = std::chrono::milliseconds(5);

TimePoint clock_now() { return std::chrono::steady_clock::now(); }

/// Guards against half-written records and bit rot, not against people.
std::uint32_t checksum_of(std::string_view bytes) {
  static constexpr std::array<unsigned char, crypto_shorthash_KEYBYTES> kKey = {'t', 'u', 't', 't',
                                                                                'i'};
  std::array<unsigned char, crypto_shorthash_BYTES> hash{};
  ::crypto_shorthash(hash.data(), reinterpret_cast<const unsigned char*>(bytes.data()),
                     bytes.size(), kKey.data());
  return load_u32(reinterpret_cast<const char*>(hash.data()));
}

std::string header_of(std::uint64_t mark) {
  std::string header(kMagic);
  for (int byte = 0; byte < 8; ++byte) {
    header.push_back(static_cast<char>(static_cast<unsigned char>(mark >> (8 * byte))));
  }
  return header;
}

}  // namespace

FileLog::FileLog(std::string path, std::uint64_t mark, Deadline deadline) : path_(std::move(path)) {
  while (!open_and_lock(deadline)) {
    if (deadline.passed(clock_now())) {
      fail("the file keeps being removed and made again by others");
    }
  }
  read_or_write_header(mark);
}

/// False if the file was removed between opening and locking it.
bool FileLog::open_and_lock(Deadline deadline) {
  fd_.reset(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600));
  struct stat ours {};
  if (!fd_.valid() || ::fstat(fd_.get(), &ours) != 0) {
    fail(fmt::format("cannot open it: {}", errno_text(errno)));
  }
  if (!S_ISREG(ours.st_mode)) {
    fail("it is not a regular file");
  }
  while (!try_lock()) {
    if (deadline.passed(clock_now())) {
      throw Timeout(fmt::format("store file '{}': another process holds its lock", path_));
    }
    pause_for(kLockPause, deadline);
  }
  struct stat named {};
  return ::stat(path_.c_str(), &named) == 0 && named.st_dev == ours.st_dev &&
         named.st_ino == ours.st_ino;
}

void FileLog::read_or_write_header(std::uint64_t mark) {
  const std::string expected = header_of(mark);
  std::string header(kHeaderBytes, '\0');
  header.resize(read_at(0, header.data(), header.size()));
  if (header == expected) {
    return;
  }
  const std::size_t named = std::min(header.size(), kMagic.size());
  if (std::string_view(header).substr(0, named) != kMagic.substr(0, named)) {
    fail("it is no store of this version; remove it or choose another path");
  }
  if (header.size() == kHeaderBytes) {
    fail("it belongs to another job (the job secrets differ); remove it if that job is over");
  }
  write_at(0, expected);  // new, or its maker was killed before anything could follow
}

bool FileLog::try_lock() {
  while (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return false;
    }
    if (errno != EINTR) {
      fail(fmt::format("cannot lock it: {}", errno_text(errno)));
    }
  }
  return true;
}

void FileLog::unlock() { (void)::flock(fd_.get(), LOCK_UN); }

void FileLog::replay(const Take& take) { (void)read_records(take); }

void FileLog::replay_and_mend(const Take& take) {
  const Damage damage = read_records(take);
  if (damage == Damage::corrupt) {
    fail(fmt::format("it is damaged at byte {}; remove it and start the job again", offset_));
  }
  if (damage == Damage::torn && ::ftruncate(fd_.get(), static_cast<off_t>(offset_)) != 0) {
    fail(fmt::format("cannot cut off a half-written record: {}", errno_text(errno)));
  }
}

FileLog::Damage FileLog::read_records(const Take& take) {
  const std::uint64_t end = size_in_bytes();
  std::size_t wanted = kReadBytes;
  while (offset_ < end) {
    const std::uint64_t left = end - offset_;
    buffer_.resize(std::min<std::uint64_t>(left, wanted));
    buffer_.resize(read_at(offset_, buffer_.data(), buffer_.size()));
    if (buffer_.size() < kStoreLengthBytes) {
      return Damage::torn;
    }
    const std::size_t payload = load_u32(buffer_.data());
    if (payload < kLeastPayload || payload > limits::kMaxStoreFrameBytes) {
      return Damage::corrupt;
    }
    const std::size_t record = kStoreLengthBytes + payload;
    if (record > left) {
      return Damage::torn;
    }
    if (record > buffer_.size()) {
      if (wanted >= record) {
        return Damage::torn;  // the file shrank meanwhile
      }
      wanted = record;
      continue;
    }
    const std::string_view body = std::string_view(buffer_).substr(
        kStoreLengthBytes + kChecksumBytes, payload - kChecksumBytes);
    if (load_u32(buffer_.data() + kStoreLengthBytes) != checksum_of(body)) {
      return record == left ? Damage::torn : Damage::corrupt;
    }
    WireReader fields(body);
    const std::uint8_t type = fields.u8();
    try {
      take(type, fields);
    } catch (const MalformedFrame&) {
      return Damage::corrupt;  // whole, but not as this version writes it
    }
    offset_ += record;
    wanted = kReadBytes;
  }
  return Damage::none;
}

void FileLog::append(WireWriter& record) {
  const std::string_view bytes = record.frame();
  const std::size_t body_at = kStoreLengthBytes + kChecksumBytes;
  record.set_number(checksum_of(bytes.substr(body_at)));
  const std::uint64_t end = size_in_bytes();
  if (end + bytes.size() > limits::kMaxStoreFileBytes) {
    fail(fmt::format("it has {} bytes, at most {} are allowed", end, limits::kMaxStoreFileBytes));
  }
  write_at(end, bytes);
}

void FileLog::remove() { (void)::unlink(path_.c_str()); }

std::uint64_t FileLog::size_in_bytes() const {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) {
    fail(fmt::format("cannot ask for its length: {}", errno_text(errno)));
  }
  return static_cast<std::uint64_t>(info.st_size);
}

/// Returns fewer bytes only at the end of the file.
std::size_t FileLog::read_at(std::uint64_t offset, char* target, std::size_t bytes) const {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got =
        ::pread(fd_.get(), target + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno != EINTR) {
      fail(fmt::format("cannot read it: {}", errno_text(errno)));
    }
    if (got == 0) {
      break;
    }
    done += got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  return done;
}

void FileLog::write_at(std::uint64_t offset, std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = ::pwrite(fd_.get(), bytes.data() + done, bytes.size() - done,
                                   static_cast<off_t>(offset + done));
    if (wrote < 0 && errno != EINTR) {
      const int code = errno;
      (void)!::ftruncate(fd_.get(), static_cast<off_t>(offset));
      fail(fmt::format("cannot write to it: {}", errno_text(code)));
    }
    done += wrote > 0 ? static_cast<std::size_t>(wrote) : 0;
  }
}

void FileLog::fail(std::string_view what) const {
  throw StoreError(fmt::format("store file '{}': {}", path_, what));
}

FileWatch::FileWatch(const std::string& path) : fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  if (fd_.valid() && ::inotify_add_watch(fd_.get(), path.c_str(), IN_MODIFY) < 0) {
    fd_.reset();
  }
}

void FileWatch::wait(Deadline deadline) {
  if (!fd_.valid()) {
    return pause_for(kBlindPause, deadline);
  }
  const Duration limit = std::min(kWatchPause, deadline.left(clock_now()));
  if (wait_for_fd(fd_.get(), POLLIN, Deadline(clock_now(), limit))) {
    std::array<char, 4096> events;
    (void)!::read(fd_.get(), events.data(), events.size());
  }
}

}  // namespace tutti
