// Failure: an error as a plain value. Engine and transports record failures, because a throw there
// would cross threads; the caller's thread turns a Failure into the exception of its kind.
#pragma once

#include <tutti/error.hpp>

#include <optional>
#include <string>
#include <utility>

namespace tutti {

struct Failure {
  ErrorKind kind = ErrorKind::internal;
  std::string text{};
  int peer = -1;  ///< group rank, or -1
};

/// Throws the exception type that belongs to `failure.kind`.
[[noreturn]] void raise(const Failure& failure);

/// The Failure inside any exception; foreign exceptions become `internal`.
Failure failure_of(const std::exception& error);

}  // namespace tutti
