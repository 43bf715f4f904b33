// The exceptions of tutti. A type says what the caller can do about the failure; the text says
// which operation, group and rank failed, with actual and expected values.
#pragma once

#include <stdexcept>
#include <string>

#pragma GCC visibility push(default)
namespace tutti {

/// What the caller can do about a failure. Every value has one exception type below.
enum class ErrorKind {
  invalid_argument,  ///< fix the call; nothing was sent
  mismatch,          ///< ranks disagree: fix the program
  timeout,           ///< a deadline passed; the text names who was waited for
  peer_lost,         ///< a peer died or left; `Error::peer` is its rank
  aborted,           ///< the group was aborted or destroyed
  store,             ///< the key-value store failed
  unsupported,       ///< this backend or build lacks the operation
  internal,          ///< a bug in tutti
};

/// Base of every exception that tutti throws.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& text, int peer = -1)
      : std::runtime_error(text), kind_(kind), peer_(peer) {}
  ErrorKind kind() const noexcept { return kind_; }
  /// Group rank of the peer that the failure is about, or -1.
  int peer() const noexcept { return peer_; }

 private:
  ErrorKind kind_;
  int peer_;
};

/// One exception type per kind, so that a handler can catch just what it can mend.
template <ErrorKind kKind>
class ErrorOf : public Error {
 public:
  explicit ErrorOf(const std::string& text, int peer = -1) : Error(kKind, text, peer) {}
};

using InvalidArgument = ErrorOf<ErrorKind::invalid_argument>;
using Mismatch = ErrorOf<ErrorKind::mismatch>;
using Timeout = ErrorOf<ErrorKind::timeout>;
using PeerLost = ErrorOf<ErrorKind::peer_lost>;
using Aborted = ErrorOf<ErrorKind::aborted>;
using StoreError = ErrorOf<ErrorKind::store>;
using Unsupported = ErrorOf<ErrorKind::unsupported>;
using Internal = ErrorOf<ErrorKind::internal>;

}  // namespace tutti
#pragma GCC visibility pop
