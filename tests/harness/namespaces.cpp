#include "harness/namespaces.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

namespace tutti::testing {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void write_file(const char* path, std::string_view text) {
  const UniqueFd fd(::open(path, O_WRONLY | O_CLOEXEC));
  if (!fd.valid() || ::write(fd.get(), text.data(), text.size()) < 0) {
    refuse(path);
  }
}

/// Root in a user namespace has all privileges over the namespaces that are made in it.
bool become_root_of_user_namespace() {
  const std::string uid = fmt::format("0 {} 1", ::geteuid());
  const std::string gid = fmt::format("0 {} 1", ::getegid());
  if (::unshare(CLONE_NEWUSER) != 0) {
    return false;
  }
  write_file("/proc/self/setgroups", "deny");
  write_file("/proc/self/uid_map", uid);
  write_file("/proc/self/gid_map", gid);
  return true;
}

UniqueFd ioctl_socket() {
  UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    refuse("socket");
  }
  return fd;
}

ifreq request_for(const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  return request;
}

void bring_up(const std::string& interface) {
  const UniqueFd fd = ioctl_socket();
  ifreq request = request_for(interface);
  request.ifr_flags = IFF_UP;
  if (::ioctl(fd.get(), SIOCSIFFLAGS, &request) != 0) {
    refuse("set up " + interface);
  }
}

void set_ipv4(const std::string& interface, unsigned long what, in_addr address) {
  const UniqueFd fd = ioctl_socket();
  ifreq request = request_for(interface);
  sockaddr_in value{};
  value.sin_family = AF_INET;
  value.sin_addr = address;
  std::memcpy(&request.ifr_addr, &value, sizeof value);
  if (::ioctl(fd.get(), what, &request) != 0) {
    refuse("address of " + interface);
  }
}

/// The message of rtnetlink(7) that makes an interface: a head, then attributes that may nest.
class NewLink {
 public:
  NewLink() {
    nlmsghdr head{};
    head.nlmsg_type = RTM_NEWLINK;
    head.nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK;
    append(std::as_bytes(std::span(&head, 1)));
    append_interface();
  }

  void append_interface() {
    const ifinfomsg interface {};
    append(std::as_bytes(std::span(&interface, 1)));
  }
  void text(unsigned short type, std::string_view value) {
    const std::size_t start = begin(type);
    append(std::as_bytes(std::span(value)));
    end(start);
  }
  void number(unsigned short type, int value) {
    const std::size_t start = begin(type);
    append(std::as_bytes(std::span(&value, 1)));
    end(start);
  }
  std::size_t begin(unsigned short type) {
    const std::size_t start = bytes_.size();
    const rtattr head{.rta_len = 0, .rta_type = type};
    append(std::as_bytes(std::span(&head, 1)));
    return start;
  }
  void end(std::size_t start) {
    const auto length = static_cast<unsigned short>(bytes_.size() - start);
    std::memcpy(bytes_.data() + start + offsetof(rtattr, rta_len), &length, sizeof length);
    bytes_.resize(RTA_ALIGN(bytes_.size()));  // the gap is not part of the attribute
  }

  /// 0, or the errno that the kernel answers.
  int send() {
    const auto length = static_cast<std::uint32_t>(bytes_.size());
    std::memcpy(bytes_.data() + offsetof(nlmsghdr, nlmsg_len), &length, sizeof length);
    const UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    struct Answer {
      nlmsghdr head{};
      nlmsgerr error{};
      std::array<std::byte, 4096> request{};
    } answer;
    if (!fd.valid() || ::send(fd.get(), bytes_.data(), bytes_.size(), 0) < 0 ||
        ::recv(fd.get(), &answer, sizeof answer, 0) < 0) {
      refuse("rtnetlink");
    }
    return -answer.error.error;
  }

 private:
  void append(std::span<const std::byte> part) {
    bytes_.insert(bytes_.end(), part.begin(), part.end());
  }
  std::vector<std::byte> bytes_{};
};

/// False if the kernel does not have this kind of interface.
bool made(int code, const std::string& name) {
  errno = code;
  if (code != 0 && code != EOPNOTSUPP) {
    refuse("make interface " + name);
  }
  return code == 0;
}

}  // namespace

std::string enter_private_namespaces() {
  constexpr int kPrivate = CLONE_NEWNS | CLONE_NEWNET;
  if (::unshare(kPrivate) != 0 && !(become_root_of_user_namespace() && ::unshare(kPrivate) == 0)) {
    return fmt::format("no namespaces can be made here: {}", std::strerror(errno));
  }
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    refuse("make mounts private");
  }
  bring_up("lo");
  return {};
}

Network Network::create() {
  if (::unshare(CLONE_NEWNET) != 0) {
    refuse("unshare");
  }
  bring_up("lo");
  return current();
}

Network Network::current() {
  UniqueFd fd(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    refuse("/proc/self/ns/net");
  }
  return Network(std::move(fd));
}

void Network::enter() const {
  if (::setns(fd_.get(), CLONE_NEWNET) != 0) {
    refuse("setns");
  }
}

bool add_link(const std::string& kind, const std::string& name) {
  NewLink link;
  link.text(IFLA_IFNAME, name);
  const std::size_t info = link.begin(IFLA_LINKINFO);
  link.text(IFLA_INFO_KIND, kind);
  link.end(info);
  return made(link.send(), name);
}

bool add_pair(const PairNames& names, const Network& there) {
  NewLink link;
  link.text(IFLA_IFNAME, names.here);
  const std::size_t info = link.begin(IFLA_LINKINFO);
  link.text(IFLA_INFO_KIND, "veth");
  const std::size_t data = link.begin(IFLA_INFO_DATA);
  const std::size_t peer = link.begin(VETH_INFO_PEER);
  link.append_interface();
  link.text(IFLA_IFNAME, names.there);
  link.number(IFLA_NET_NS_FD, there.fd());
  link.end(peer);
  link.end(data);
  link.end(info);
  return made(link.send(), names.here);
}

void set_up(const std::string& interface, const std::string& address) {
  in_addr value{};
  if (::inet_pton(AF_INET, address.c_str(), &value) != 1) {
    errno = EINVAL;
    refuse(address);
  }
  set_ipv4(interface, SIOCSIFADDR, value);
  set_ipv4(interface, SIOCSIFNETMASK, {.s_addr = htonl(0xffffff00)});
  bring_up(interface);
}

void map_host_name(const std::string& address) {
  std::array<char, 256> name{};
  std::string path = "/tmp/hosts-XXXXXX";
  const UniqueFd fd(::mkstemp(path.data()));
  if (!fd.valid() || ::gethostname(name.data(), name.size() - 1) != 0) {
    refuse(path);
  }
  ::fchmod(fd.get(), 0644);
  write_file(path.c_str(), fmt::format("127.0.0.1 localhost\n{} {}\n", address, name.data()));
  ::umount2("/etc/hosts", MNT_DETACH);  // ours of an earlier test: its file has no name any more
  const int mounted = ::mount(path.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr);
  const int code = errno;
  ::unlink(path.c_str());  // the mount keeps the file
  if (mounted != 0) {
    errno = code;
    refuse("mount /etc/hosts");
  }
}

void mount_dev_shm(std::size_t bytes) {
  const std::string options = fmt::format("mode=1777,size={}", bytes);
  if (::mount("tutti-test", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
    refuse("mount /dev/shm");
  }
}

}  // namespace tutti::testing
