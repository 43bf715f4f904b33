// A folder only this user can enter, with the secret of the job in a file. Removed by whoever lives
// longest: the launcher, or the keeper if the launcher was killed.
#pragma once

#include <string>

namespace tutti::launcher {

class PrivateFolder {
 public:
  /// Makes the folder under $XDG_RUNTIME_DIR, $TMPDIR or /tmp, and the file. StoreError if it
  /// cannot.
  explicit PrivateFolder(const std::string& secret);
  ~PrivateFolder() { remove(path_); }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string secret_file() const { return path_ + "/secret"; }
  /// Removes a folder made here; harmless if it has gone.
  static void remove(const std::string& path) noexcept;

 private:
  std::string path_{};
};

}  // namespace tutti::launcher
