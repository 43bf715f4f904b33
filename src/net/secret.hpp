// The job secret, and how both ends of a connection prove that they know it before either parses
// anything else. Four messages of fixed size; docs/wire.md, section "Handshake", gives the bytes.
// The client proves first. Knowing neither proof lets nobody compute the other: role and both
// nonces go into each. An empty secret runs the same exchange and protects against accidents only.
#pragma once

#include "base/clock.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tutti {

/// TUTTI_SECRET, else the contents of TUTTI_SECRET_FILE without the final newline, else "".
/// InvalidArgument if the file cannot be read, is empty or longer than limits::kMaxSecretBytes;
/// a file that others can read is reported in the log.
std::string job_secret();

/// `bytes` random bytes as hexadecimal text; unpredictable.
std::string random_token(std::size_t bytes);

enum class Role { server, client };  ///< server: the end that accepted

/// The exchange without any I/O, for event loops and fuzzing. Feed what arrives, send what comes
/// out of `output`, stop at `accepted` or `refused`.
class Handshake {
 public:
  static constexpr std::size_t kMagicBytes = 8;
  static constexpr std::size_t kNonceBytes = 32;
  static constexpr std::size_t kProofBytes = 32;
  static constexpr std::size_t kHelloBytes = kMagicBytes + kNonceBytes;
  static constexpr std::size_t kVerdictBytes = 1 + kProofBytes;

  enum class State { running, accepted, refused };

  Handshake(Role role, std::string_view secret);
  ~Handshake();
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  State state() const { return state_; }
  /// Why it was refused: lower case, without the peer's name.
  std::string_view reason() const { return reason_; }
  /// Bytes still missing to complete the message that is being read; never more may be fed.
  std::size_t wanted() const { return wanted_ - filled_; }
  void feed(std::span<const std::byte> bytes);
  /// What to send next, in order; taken out by the call.
  std::span<const std::byte> take_output();

 private:
  using Proof = std::array<unsigned char, kProofBytes>;
  enum class Step { hello, proof, verdict };

  void advance();
  void read_hello();
  void read_proof();
  void read_verdict();
  void expect(Step step, std::size_t bytes);
  void refuse(std::string_view reason);
  void emit(std::span<const unsigned char> bytes);
  Proof proof_of(Role role) const;

  Role role_;
  State state_ = State::running;
  Step step_ = Step::hello;
  std::string_view reason_{};
  std::array<unsigned char, 32> key_{};
  std::array<unsigned char, kNonceBytes> client_nonce_{};
  std::array<unsigned char, kNonceBytes> server_nonce_{};
  std::array<unsigned char, kHelloBytes> input_{};  // kHelloBytes is the longest message
  std::size_t filled_ = 0;
  std::size_t wanted_ = kHelloBytes;
  std::array<std::byte, kHelloBytes + kProofBytes> output_{};
  std::size_t output_bytes_ = 0;
};

/// Runs the exchange over a connected socket. Throws PeerLost (secrets differ, not a tutti peer, or
/// gone) or Timeout; both name the peer's address.
void authenticate(int fd, std::string_view secret, Role role, Deadline deadline);

}  // namespace tutti
