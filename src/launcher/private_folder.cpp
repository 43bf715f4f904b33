#include "launcher/private_folder.hpp"

#include "base/unique_fd.hpp"
#include "rendezvous/environment.hpp"

#include <tutti/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace tutti::launcher {
namespace {

std::string make_folder() {
  for (const char* variable : {"XDG_RUNTIME_DIR", "TMPDIR", ""}) {
    const std::string base =
        *variable == '\0' ? "/tmp" : process_environment(variable).value_or("");
    std::string path = base + "/tutti-run-XXXXXX";
    if (!base.empty() && ::mkdtemp(path.data()) != nullptr) {  // mode 0700
      return path;
    }
  }
  throw StoreError(fmt::format(
      "no folder for the job's secret could be made under $XDG_RUNTIME_DIR, $TMPDIR or /tmp: {}; "
      "set TMPDIR to a folder that can be written to",
      std::strerror(errno)));
}

}  // namespace

PrivateFolder::PrivateFolder(const std::string& secret) : path_(make_folder()) {
  const UniqueFd file(::open(secret_file().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const ssize_t written = file.valid() ? ::write(file.get(), secret.data(), secret.size()) : -1;
  if (written != static_cast<ssize_t>(secret.size())) {
    const std::string text =
        fmt::format("cannot write the job's secret to {}: {}", secret_file(), std::strerror(errno));
    remove(path_);
    throw StoreError(text);
  }
}

void PrivateFolder::remove(const std::string& path) noexcept {
  ::unlink((path + "/secret").c_str());
  ::rmdir(path.c_str());
}

}  // namespace tutti::launcher
