// Fuzzes what one rank does with whatever a peer sends. The input is a script: raw bytes, frames
// with fields taken from the input (so that the state machine is reached behind the header check),
// and calls of this rank in between. Whatever comes, no byte is written outside a receive's buffer
// (address sanitizer), the frames this rank sends are sound, and once the link breaks every op
// ends.
#include "base/limits.hpp"
#include "transport/frame.hpp"
#include "transport/transport.hpp"

#include <tutti/options.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tutti {
namespace {

constexpr std::size_t kMaxInputBytes = std::size_t{64} << 10;
constexpr std::array<std::size_t, 4> kSizes{0, 100, limits::kEagerBytes, 40000};

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

/// The script, read from the front; zeros once it is used up.
class Script {
 public:
  Script(const std::uint8_t* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  bool empty() const { return bytes_ == 0; }
  std::uint8_t byte() {
    if (bytes_ == 0) {
      return 0;
    }
    --bytes_;
    return *data_++;
  }

 private:
  const std::uint8_t* data_;
  std::size_t bytes_;
};

/// What the peer's side of the link holds; shared with the test, which outlives the link.
struct Wire {
  std::vector<std::byte> to_rank;
  std::size_t taken = 0;  // of to_rank
  std::vector<std::byte> from_rank;
  std::size_t room = 0;
  bool broken = false;
};

class FuzzLink final : public Link {
 public:
  explicit FuzzLink(Wire& wire) : wire_(wire) {}
  std::size_t write(std::span<const std::span<const std::byte>> parts) override {
    std::size_t total = 0;
    for (const auto& part : parts) {
      const std::size_t bytes = std::min(part.size(), wire_.room);
      wire_.from_rank.insert(wire_.from_rank.end(), part.begin(),
                             part.begin() + static_cast<std::ptrdiff_t>(bytes));
      wire_.room -= bytes;
      total += bytes;
    }
    return total;
  }
  std::size_t read(std::span<const std::span<std::byte>> parts) override {
    std::size_t total = 0;
    for (const auto& part : parts) {
      const std::size_t bytes = std::min(part.size(), wire_.to_rank.size() - wire_.taken);
      std::copy_n(wire_.to_rank.data() + wire_.taken, bytes, part.data());
      wire_.taken += bytes;
      total += bytes;
    }
    return total;
  }
  std::optional<Failure> failure() override {
    return wire_.broken ? std::optional(Failure{.text = "broken"}) : std::nullopt;
  }
  bool arm(bool) override { return true; }
  int fd() const override { return -1; }
  std::string describe() const override { return "fuzz"; }

 private:
  Wire& wire_;
};

struct Send {
  SendOp op{};
  std::vector<std::byte> data{};
};
struct Recv {
  RecvOp op{};
  std::vector<std::byte> data{};
};

class Session {
 public:
  Session() : transport_(0, 2, [](int, std::uint64_t, const Failure&) {}) {
    transport_.add_link(1, std::make_unique<FuzzLink>(wire_));
  }

  void run(Script script) {
    while (!script.empty()) {
      step(script);
    }
    finish();
  }

 private:
  void step(Script& script) {
    switch (script.byte() % 8) {
      case 0:
        for (int count = script.byte(); count != 0; --count) {
          wire_.to_rank.push_back(static_cast<std::byte>(script.byte()));
        }
        break;
      case 1:
      case 2:
        push_frame(script);
        break;
      case 3:
        post_recv(script);
        break;
      case 4:
        post_send(script);
        break;
      case 5:
        cancel(script);
        break;
      case 6:
        transport_.forget_group(script.byte() % 3);
        break;
      default:
        wire_.room += script.byte() * std::size_t{256};
        break;
    }
    transport_.poll();
  }

  /// One byte chooses among few values, so that what a peer and this rank say often fits.
  struct Choice {
    MessageKey key{};
    std::uint64_t stamp = 0;
    std::size_t bytes = 0;
  };
  static Choice choose(Script& script) {
    const std::uint8_t byte = script.byte();
    return {.key = {.group = byte & 1U, .tag = byte >> 1 & 1U},
            .stamp = (byte >> 2 & 7U) == 7 ? 1U : 0U,
            .bytes = kSizes[byte >> 5 & 3U]};
  }

  void push_frame(Script& script) {
    const std::uint8_t kind = script.byte();
    const Choice choice = choose(script);
    Frame frame{.kind = static_cast<FrameKind>(1 + kind % 10),
                .key = choice.key,
                .stamp = choice.stamp,
                .bytes = choice.bytes};
    std::size_t payload = 0;
    if (frame.kind == FrameKind::announce) {
      frame.id = next_id_++;
    } else if (frame.kind != FrameKind::data) {
      frame.id = 1 + script.byte() % 4U;
    }
    if (frame.kind == FrameKind::data) {
      payload = std::min(choice.bytes, limits::kEagerBytes);
    } else if (frame.kind == FrameKind::chunk) {
      payload = 1 + script.byte() * std::size_t{200};
      frame.bytes = choice.bytes == 0 ? 0 : 1 + script.byte() * std::size_t{200};
    } else if (frame.kind != FrameKind::announce && frame.kind != FrameKind::credit) {
      payload = frame.kind == FrameKind::fault ? script.byte() : 0;
      frame.bytes = 0;
    }
    frame.payload_bytes = static_cast<std::uint32_t>(payload);
    std::array<std::byte, kFrameHeaderBytes> header;
    encode(frame, header.data());
    wire_.to_rank.insert(wire_.to_rank.end(), header.begin(), header.end());
    wire_.to_rank.insert(wire_.to_rank.end(), payload, std::byte{0x5a});
  }

  void post_recv(Script& script) {
    Recv& recv = recvs_.emplace_back();
    recv.op.peer = script.byte() % 3 - 1;  // anyone, oneself, the peer
    const Choice choice = choose(script);
    recv.op.key = choice.key;
    recv.op.stamp = choice.stamp;
    recv.data.resize(choice.bytes);
    recv.op.data = recv.data.data();
    recv.op.bytes = recv.data.size();
    transport_.recv(recv.op);
  }
  void post_send(Script& script) {
    Send& send = sends_.emplace_back();
    send.op.peer = script.byte() % 4 == 0 ? 0 : 1;
    const Choice choice = choose(script);
    send.op.key = choice.key;
    send.op.stamp = choice.stamp;
    send.data.resize(choice.bytes);
    send.op.data = send.data.data();
    send.op.bytes = send.data.size();
    transport_.send(send.op);
  }
  void cancel(Script& script) {
    const std::uint8_t which = script.byte();
    if (which % 2 == 0 && !sends_.empty()) {
      Send& send = sends_[which / 2 % sends_.size()];
      transport_.cancel(send.op);
      require(send.op.state.load() != TransferState::active);
      std::vector<std::byte>().swap(send.data);
    } else if (which % 2 == 1 && !recvs_.empty()) {
      Recv& recv = recvs_[which / 2 % recvs_.size()];
      transport_.cancel(recv.op);
      require(recv.op.state.load() != TransferState::active);
      std::vector<std::byte>().swap(recv.data);
    }
  }

  void finish() {
    wire_.room = std::size_t{1} << 30;
    for (int i = 0; i < 64 && transport_.poll(); ++i) {
    }
    check_own_frames();
    wire_.broken = true;
    transport_.poll();
    require(transport_.failure(1).has_value());
    require(transport_.pending_sends() == 0);
    for (Send& send : sends_) {
      require(send.op.peer == 0 || send.op.state.load() != TransferState::active);
      transport_.cancel(send.op);
    }
    for (Recv& recv : recvs_) {
      require(recv.op.peer != 1 || recv.op.state.load() != TransferState::active);
      transport_.cancel(recv.op);
      require(recv.op.state.load() != TransferState::active);
    }
  }

  /// All whole frames this rank wrote can be decoded; the last may be cut off.
  void check_own_frames() {
    std::size_t at = 0;
    while (at + kFrameHeaderBytes <= wire_.from_rank.size()) {
      Frame frame;
      require(!decode(wire_.from_rank.data() + at, frame).has_value());
      at += kFrameHeaderBytes + frame.payload_bytes;
    }
  }

  Wire wire_;
  std::uint64_t next_id_ = 1;  // of the peer's announcements
  std::deque<Send> sends_;
  std::deque<Recv> recvs_;
  Transport transport_;
};

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  if (bytes <= tutti::kMaxInputBytes) {
    tutti::Session().run(tutti::Script(data, bytes));
  }
  return 0;
}
