// The bytes of the TCP store's requests and replies; docs/wire.md, section "Store", shows them.
// Whatever comes from a wire is checked here before it is believed: a reader never runs past its
// frame and never allocates for a count that the frame cannot hold.
#pragma once

#include "store/table.hpp"

#include <tutti/error.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

enum class StoreOp : std::uint8_t {
  join = 1,
  wait_workers = 2,
  set = 3,
  get = 4,
  add = 5,
  compare_set = 6,
  wait = 7,
  check = 8,
  delete_key = 9,
  num_keys = 10,
  append = 11,
  multi_get = 12,
  multi_set = 13,
  queue_push = 14,
  queue_pop = 15,
  queue_len = 16,
  list_keys = 17,
  barrier = 18,
};

/// First byte of a reply after its number.
enum class StoreStatus : std::uint8_t {
  ok = 0,
  timeout = 1,
  invalid_argument = 2,
  mismatch = 3,
  store = 4,
};
StoreStatus status_of(ErrorKind kind);
ErrorKind kind_of(StoreStatus status);

/// Whether a client announces itself as one of the job's workers, or only opens one more
/// connection.
enum class StoreJoin : std::uint8_t { worker = 1, extra = 2 };

/// A frame that no client of ours would send. The connection is closed.
class MalformedFrame : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline constexpr std::size_t kStoreLengthBytes = 4;
/// Longer values are not copied into a reply: it refers to them.
inline constexpr std::size_t kStoreCopiedBytes = 4096;

std::uint32_t load_u32(const char* bytes);

/// Takes the fields of one frame in order. Views point into the frame.
class WireReader {
 public:
  explicit WireReader(std::string_view frame) : rest_(frame) {}
  std::uint8_t u8();
  std::uint32_t u32();
  std::uint64_t u64();
  std::string_view text();
  std::vector<std::string> texts();
  /// MalformedFrame if bytes are left over.
  void finish() const;

 private:
  std::string_view take(std::size_t bytes);
  std::string_view rest_;
};

/// Builds one frame: length, number, code, fields. The length is filled in by `frame()`.
class WireWriter {
 public:
  WireWriter(std::uint32_t number, std::uint8_t code);
  WireWriter& u8(std::uint8_t value);
  WireWriter& u32(std::uint32_t value);
  WireWriter& u64(std::uint64_t value);
  WireWriter& text(std::string_view value);
  WireWriter& texts(std::span<const std::string> values);
  /// As text, but a long value is referred to, not copied.
  WireWriter& value(const StoreTable::Value& value);

  /// Bytes of the whole frame, shared values included.
  std::size_t frame_bytes() const { return bytes_.size() + shared_bytes_; }
  void set_number(std::uint32_t number);
  /// The frame so far as it was built; shared values belong at their offsets.
  const std::string& frame();
  struct Shared {
    std::size_t offset = 0;  ///< into frame(): the value comes before this byte
    StoreTable::Value value{};
  };
  std::span<const Shared> shared() const { return shared_; }

 private:
  std::string bytes_{};
  std::vector<Shared> shared_{};
  std::size_t shared_bytes_ = 0;
};

}  // namespace tutti
