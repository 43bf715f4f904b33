#include "harness/process_view.hpp"

#include <arpa/inet.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

namespace tutti::testing {
namespace {

/// Inode numbers of this process's sockets.
std::set<std::string> own_sockets() {
  constexpr std::string_view kBegin = "socket:[";
  std::set<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;  // the descriptor of the iterator itself is gone when we look
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (!error && target.starts_with(kBegin)) {
      inodes.insert(target.substr(kBegin.size(), target.size() - kBegin.size() - 1));
    }
  }
  return inodes;
}

/// "0100007F:1F90" is 127.0.0.1: words in the byte order of the machine, then the port.
std::string address_of(std::string_view hex) {
  constexpr std::size_t kDigits = 8;  // of a word
  std::array<std::uint32_t, 4> words{};
  const std::size_t count = hex.find(':') / kDigits;
  for (std::size_t i = 0; i < count; ++i) {
    const char* begin = hex.data() + i * kDigits;
    std::from_chars(begin, begin + kDigits, words[i], 16);
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(count == 1 ? AF_INET : AF_INET6, words.data(), text.data(), text.size());
  return text.data();
}

}  // namespace

std::set<std::string> tcp_listeners() {
  constexpr std::string_view kListen = "0A";
  const std::set<std::string> own = own_sockets();
  std::set<std::string> addresses;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);  // the heading
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string slot;
      std::string local;
      std::string remote;
      std::string state;
      std::string skipped;
      std::string inode;
      words >> slot >> local >> remote >> state;
      constexpr int kBetweenStateAndInode = 5;
      for (int i = 0; i < kBetweenStateAndInode; ++i) {
        words >> skipped;
      }
      words >> inode;
      if (state == kListen && own.contains(inode)) {
        addresses.insert(address_of(local));
      }
    }
  }
  return addresses;
}

std::set<std::string> mapped_segments() {
  std::ifstream maps("/proc/self/maps");
  std::set<std::string> segments;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string range;
    std::string rights;
    std::string offset;
    std::string device;
    std::string inode;
    std::string path;
    words >> range >> rights >> offset >> device >> inode >> path;
    if (path == "/memfd:tutti" || path.starts_with("/dev/shm/")) {
      segments.insert(path + " " + inode);
    }
  }
  return segments;
}

}  // namespace tutti::testing
