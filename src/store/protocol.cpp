#include "store/protocol.hpp"

#include "base/ensure.hpp"
#include "base/limits.hpp"

#include <fmt/format.h>

namespace tutti {
namespace {

template <class Unsigned>
Unsigned load(const char* bytes) {
  Unsigned value = 0;
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {  // little-endian on every machine
    value |= static_cast<Unsigned>(static_cast<Unsigned>(static_cast<unsigned char>(bytes[i]))
                                   << (8 * i));
  }
  return value;
}

template <class Unsigned>
void store(char* bytes, Unsigned value) {
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    bytes[i] = static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  }
}

template <class Unsigned>
void append(std::string& target, Unsigned value) {
  char bytes[sizeof(Unsigned)];
  store(bytes, value);
  target.append(bytes, sizeof(bytes));
}

}  // namespace

StoreStatus status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::timeout:
      return StoreStatus::timeout;
    case ErrorKind::invalid_argument:
      return StoreStatus::invalid_argument;
    case ErrorKind::mismatch:
      return StoreStatus::mismatch;
    default:
      return StoreStatus::store;
  }
}

ErrorKind kind_of(StoreStatus status) {
  switch (status) {
    case StoreStatus::timeout:
      return ErrorKind::timeout;
    case StoreStatus::invalid_argument:
      return ErrorKind::invalid_argument;
    case StoreStatus::mismatch:
      return ErrorKind::mismatch;
    default:
      return ErrorKind::store;
  }
}

std::uint32_t load_u32(const char* bytes) { return load<std::uint32_t>(bytes); }

std::string_view WireReader::take(std::size_t bytes) {
  if (bytes > rest_.size()) {
    throw MalformedFrame(
        fmt::format("frame ends early: a field of {} bytes, {} left", bytes, rest_.size()));
  }
  const std::string_view field = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return field;
}

std::uint8_t WireReader::u8() { return load<std::uint8_t>(take(1).data()); }

std::uint32_t WireReader::u32() { return load<std::uint32_t>(take(4).data()); }

std::uint64_t WireReader::u64() { return load<std::uint64_t>(take(8).data()); }

std::string_view WireReader::text() {
  const std::uint32_t bytes = u32();
  return take(bytes);
}

std::vector<std::string> WireReader::texts() {
  const std::uint32_t count = u32();
  if (count > limits::kMaxStoreKeysPerCall || count > rest_.size() / sizeof(std::uint32_t)) {
    throw MalformedFrame(
        fmt::format("a list of {} entries in a frame with {} bytes left", count, rest_.size()));
  }
  std::vector<std::string> values;
  values.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    values.emplace_back(text());
  }
  return values;
}

void WireReader::finish() const {
  if (!rest_.empty()) {
    throw MalformedFrame(fmt::format("{} bytes after the last field", rest_.size()));
  }
}

WireWriter::WireWriter(std::uint32_t number, std::uint8_t code) {
  append<std::uint32_t>(bytes_, 0);
  append(bytes_, number);
  append(bytes_, code);
}

WireWriter& WireWriter::u8(std::uint8_t value) {
  append(bytes_, value);
  return *this;
}

WireWriter& WireWriter::u32(std::uint32_t value) {
  append(bytes_, value);
  return *this;
}

WireWriter& WireWriter::u64(std::uint64_t value) {
  append(bytes_, value);
  return *this;
}

WireWriter& WireWriter::text(std::string_view value) {
  u32(static_cast<std::uint32_t>(value.size()));
  bytes_.append(value);
  return *this;
}

WireWriter& WireWriter::texts(std::span<const std::string> values) {
  u32(static_cast<std::uint32_t>(values.size()));
  for (const std::string& value : values) {
    text(value);
  }
  return *this;
}

WireWriter& WireWriter::value(const StoreTable::Value& value) {
  if (value->size() <= kStoreCopiedBytes) {
    return text(*value);
  }
  u32(static_cast<std::uint32_t>(value->size()));
  shared_.push_back({.offset = bytes_.size(), .value = value});
  shared_bytes_ += value->size();
  return *this;
}

void WireWriter::set_number(std::uint32_t number) {
  store(bytes_.data() + kStoreLengthBytes, number);
}

const std::string& WireWriter::frame() {
  const std::size_t payload = frame_bytes() - kStoreLengthBytes;
  ensure(payload <= limits::kMaxStoreFrameBytes, "store frame over its limit");
  store(bytes_.data(), static_cast<std::uint32_t>(payload));
  return bytes_;
}

}  // namespace tutti
