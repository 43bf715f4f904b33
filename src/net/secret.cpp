#include "net/secret.hpp"

#include "base/ensure.hpp"
#include "base/limits.hpp"
#include "base/log.hpp"
#include "base/unique_fd.hpp"
#include "net/socket.hpp"

#include <tutti/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace tutti {
namespace {

// "TUTTI", a zero byte, then the protocol version in little-endian order.
constexpr std::array<unsigned char, Handshake::kMagicBytes> kMagic = {'T', 'U', 'T', 'T',
                                                                      'I', 0,   1,   0};
constexpr std::size_t kNameBytes = 6;  // of the magic; the rest is the version
constexpr unsigned char kAccepted = 1;
constexpr unsigned char kRefused = 0;
static_assert(Handshake::kVerdictBytes <= Handshake::kHelloBytes);

constexpr std::string_view kSecretsDiffer =
    "the secrets differ; give every process of the job the same TUTTI_SECRET or TUTTI_SECRET_FILE";
constexpr std::string_view kStranger = "it does not speak the tutti protocol";
constexpr std::string_view kOtherVersion = "it speaks another version of the tutti protocol";

void need_sodium() { ensure(::sodium_init() >= 0, "libsodium cannot start"); }

std::string read_secret_file(const char* path) {
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) {
    throw InvalidArgument(
        fmt::format("cannot read TUTTI_SECRET_FILE '{}': {}", path, errno_text(errno)));
  }
  if (S_ISREG(info.st_mode) && (info.st_mode & (S_IRGRP | S_IROTH)) != 0) {
    log_line(fmt::format("secret file '{}' can be read by other users; chmod 600 it", path));
  }
  std::string secret(limits::kMaxSecretBytes + 2, '\0');  // a byte too many shows the excess
  std::size_t filled = 0;
  while (filled < secret.size()) {
    const ssize_t got = ::read(fd.get(), secret.data() + filled, secret.size() - filled);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      throw InvalidArgument(
          fmt::format("cannot read TUTTI_SECRET_FILE '{}': {}", path, errno_text(errno)));
    }
    if (got == 0) {
      break;
    }
    filled += static_cast<std::size_t>(got);
  }
  secret.resize(filled);
  if (!secret.empty() && secret.back() == '\n') {
    secret.pop_back();
  }
  if (secret.empty()) {
    throw InvalidArgument(fmt::format("TUTTI_SECRET_FILE '{}' is empty", path));
  }
  return secret;
}

}  // namespace

std::string job_secret() {
  const char* direct = std::getenv("TUTTI_SECRET");
  const char* path = std::getenv("TUTTI_SECRET_FILE");
  std::string secret;
  if (direct != nullptr && *direct != '\0') {
    secret = direct;
  } else if (path != nullptr && *path != '\0') {
    secret = read_secret_file(path);
  }
  if (secret.size() > limits::kMaxSecretBytes) {
    throw InvalidArgument(
        fmt::format("the job secret is longer than {} bytes", limits::kMaxSecretBytes));
  }
  return secret;
}

std::string random_token(std::size_t bytes) {
  need_sodium();
  std::string raw(bytes, '\0');
  ::randombytes_buf(raw.data(), raw.size());
  std::string text(bytes * 2 + 1, '\0');
  ::sodium_bin2hex(text.data(), text.size(), reinterpret_cast<const unsigned char*>(raw.data()),
                   raw.size());
  text.pop_back();
  return text;
}

Handshake::Handshake(Role role, std::string_view secret) : role_(role) {
  need_sodium();
  ::crypto_generichash(key_.data(), key_.size(),
                       reinterpret_cast<const unsigned char*>(secret.data()), secret.size(),
                       nullptr, 0);
  auto& own_nonce = role == Role::client ? client_nonce_ : server_nonce_;
  ::randombytes_buf(own_nonce.data(), own_nonce.size());
  if (role == Role::client) {
    emit(kMagic);
    emit(client_nonce_);
  }
}

Handshake::~Handshake() { ::sodium_memzero(key_.data(), key_.size()); }

void Handshake::feed(std::span<const std::byte> bytes) {
  ensure(state_ == State::running && bytes.size() <= wanted(), "handshake fed beyond its message");
  if (!bytes.empty()) {
    std::memcpy(input_.data() + filled_, bytes.data(), bytes.size());
  }
  filled_ += bytes.size();
  if (step_ == Step::hello) {
    const std::size_t shown = std::min(filled_, kMagicBytes);
    if (std::memcmp(input_.data(), kMagic.data(), shown) != 0) {  // closed at the first wrong byte
      const bool other_version =
          shown > kNameBytes && std::memcmp(input_.data(), kMagic.data(), kNameBytes) == 0;
      refuse(other_version ? kOtherVersion : kStranger);
      return;
    }
  }
  if (filled_ == wanted_) {
    advance();
  }
}

void Handshake::advance() {
  switch (step_) {
    case Step::hello:
      return read_hello();
    case Step::proof:
      return read_proof();
    case Step::verdict:
      return read_verdict();
  }
}

void Handshake::read_hello() {
  auto& nonce = role_ == Role::client ? server_nonce_ : client_nonce_;
  std::memcpy(nonce.data(), input_.data() + kMagicBytes, nonce.size());
  if (role_ == Role::client) {
    emit(proof_of(Role::client));
    expect(Step::verdict, kVerdictBytes);
  } else {
    emit(kMagic);
    emit(server_nonce_);
    expect(Step::proof, kProofBytes);
  }
}

void Handshake::read_proof() {
  const Proof expected = proof_of(Role::client);
  const bool good = ::sodium_memcmp(expected.data(), input_.data(), kProofBytes) == 0;
  const std::array<unsigned char, 1> verdict = {good ? kAccepted : kRefused};
  emit(verdict);
  if (good) {
    emit(proof_of(Role::server));
    state_ = State::accepted;
  } else {
    emit(Proof{});  // says no; a proof of ours would help a guesser
    refuse(kSecretsDiffer);
  }
}

void Handshake::read_verdict() {
  const Proof expected = proof_of(Role::server);
  const bool good = input_[0] == kAccepted &&
                    ::sodium_memcmp(expected.data(), input_.data() + 1, kProofBytes) == 0;
  if (good) {
    state_ = State::accepted;
  } else {
    refuse(kSecretsDiffer);
  }
}

void Handshake::expect(Step step, std::size_t bytes) {
  step_ = step;
  filled_ = 0;
  wanted_ = bytes;
}

void Handshake::refuse(std::string_view reason) {
  state_ = State::refused;
  reason_ = reason;
}

void Handshake::emit(std::span<const unsigned char> bytes) {
  ensure(output_bytes_ + bytes.size() <= output_.size(), "handshake output exceeds its buffer");
  std::memcpy(output_.data() + output_bytes_, bytes.data(), bytes.size());
  output_bytes_ += bytes.size();
}

std::span<const std::byte> Handshake::take_output() {
  const auto bytes = std::span<const std::byte>(output_).first(output_bytes_);
  output_bytes_ = 0;
  return bytes;
}

Handshake::Proof Handshake::proof_of(Role role) const {
  static_assert(crypto_auth_hmacsha512256_BYTES == kProofBytes);
  static_assert(crypto_auth_hmacsha512256_KEYBYTES == sizeof(key_));
  const unsigned char label = role == Role::client ? 'C' : 'S';
  Proof proof{};
  crypto_auth_hmacsha512256_state state;
  ::crypto_auth_hmacsha512256_init(&state, key_.data(), key_.size());
  ::crypto_auth_hmacsha512256_update(&state, kMagic.data(), kMagic.size());
  ::crypto_auth_hmacsha512256_update(&state, &label, 1);
  ::crypto_auth_hmacsha512256_update(&state, client_nonce_.data(), client_nonce_.size());
  ::crypto_auth_hmacsha512256_update(&state, server_nonce_.data(), server_nonce_.size());
  ::crypto_auth_hmacsha512256_final(&state, proof.data());
  return proof;
}

void authenticate(int fd, std::string_view secret, Role role, Deadline deadline) {
  Handshake handshake(role, secret);
  std::array<std::byte, Handshake::kHelloBytes> buffer{};
  write_full(fd, handshake.take_output(), deadline);
  while (handshake.state() == Handshake::State::running) {
    const auto room = std::span<std::byte>(buffer).first(handshake.wanted());
    handshake.feed(room.first(read_some(fd, room, deadline)));
    write_full(fd, handshake.take_output(), deadline);
  }
  if (handshake.state() == Handshake::State::refused) {
    throw PeerLost(
        fmt::format("connection with {} refused: {}", peer_address(fd).text(), handshake.reason()));
  }
}

}  // namespace tutti
