#include "base/failure.hpp"

#include <stdexcept>

namespace tutti {

void raise(const Failure& failure) {
  switch (failure.kind) {
    case ErrorKind::invalid_argument:
      throw InvalidArgument(failure.text, failure.peer);
    case ErrorKind::mismatch:
      throw Mismatch(failure.text, failure.peer);
    case ErrorKind::timeout:
      throw Timeout(failure.text, failure.peer);
    case ErrorKind::peer_lost:
      throw PeerLost(failure.text, failure.peer);
    case ErrorKind::aborted:
      throw Aborted(failure.text, failure.peer);
    case ErrorKind::store:
      throw StoreError(failure.text, failure.peer);
    case ErrorKind::unsupported:
      throw Unsupported(failure.text, failure.peer);
    case ErrorKind::internal:
      break;
  }
  throw Internal(failure.text, failure.peer);
}

Failure failure_of(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) {
    return {.kind = ours->kind(), .text = ours->what(), .peer = ours->peer()};
  }
  return {.kind = ErrorKind::internal, .text = error.what()};
}

}  // namespace tutti
