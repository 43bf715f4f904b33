// Who listens on a TCP port of this host, as far as /proc tells: /proc/net/tcp{,6} gives the inode
// of the listening socket, /proc/<pid>/fd the process that holds it. Only for error text, so every
// failure just means "unknown".
#include "net/socket.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tutti {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxCommandBytes = 200;
constexpr std::string_view kListening = "0A";  // state column of /proc/net/tcp

/// Inode of the socket in state LISTEN on `port`, "" if the table has none.
std::string listening_inode(const char* table, std::uint16_t port) {
  std::ifstream lines(table);
  std::string line;
  std::getline(lines, line);  // the heading
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >>
        inode;
    const std::size_t colon = local.rfind(':');
    if (!words || colon == std::string::npos || state != kListening) {
      continue;
    }
    unsigned found = 0;
    std::from_chars(local.data() + colon + 1, local.data() + local.size(), found, 16);
    if (found == port) {
      return inode;
    }
  }
  return {};
}

bool holds_socket(const fs::path& process, const std::string& link_text) {
  std::error_code error;
  for (fs::directory_iterator entry(process / "fd", error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unreadable;
    if (fs::read_symlink(entry->path(), unreadable) == link_text) {
      return true;
    }
  }
  return false;
}

std::string command_of(const fs::path& process) {
  std::ifstream file(process / "cmdline", std::ios::binary);
  std::string text(kMaxCommandBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  while (!text.empty() && text.back() == '\0') {
    text.pop_back();
  }
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return text;
}

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char digit) { return digit >= '0' && digit <= '9'; });
}

}  // namespace

std::string listener_owner(std::uint16_t port) {
  std::string inode = listening_inode("/proc/net/tcp", port);
  if (inode.empty()) {
    inode = listening_inode("/proc/net/tcp6", port);
  }
  if (inode.empty() || inode == "0") {
    return {};
  }
  const std::string link_text = fmt::format("socket:[{}]", inode);
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string pid = entry->path().filename();
    if (is_number(pid) && holds_socket(entry->path(), link_text)) {
      return fmt::format("process {} ({})", pid, command_of(entry->path()));
    }
  }
  return {};
}

}  // namespace tutti
