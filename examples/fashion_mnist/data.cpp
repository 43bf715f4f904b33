#include "data.hpp"

#include <zlib.h>

#include <array>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <utility>

namespace fashion_mnist {
namespace {

// An IDX file is a header of big-endian 32-bit numbers, then the bytes. The header's first number
// holds the element type (8: unsigned byte) and the number of dimensions; an extent each follow.
constexpr std::uint32_t kLabelMagic = 0x0801;
constexpr std::uint32_t kImageMagic = 0x0803;
constexpr std::size_t kMaxSamples = 10'000'000;  // a damaged header must not make us allocate more
constexpr std::size_t kSide = 28;

class IdxFile {
 public:
  IdxFile(std::filesystem::path path, std::uint32_t magic)
      : path_(std::move(path)), file_(gzopen(path_.c_str(), "rb")) {
    if (!file_) {
      fail("cannot be opened; install the Debian package dataset-fashion-mnist or give --data");
    }
    if (const std::uint32_t found = read_number(); found != magic) {
      fail("starts with " + std::to_string(found) + ", expected " + std::to_string(magic) +
           ": not an IDX file of this kind");
    }
    count_ = read_number();
    if (count_ > kMaxSamples) {
      fail("announces " + std::to_string(count_) + " samples, at most " +
           std::to_string(kMaxSamples) + " are accepted");
    }
    if (magic == kImageMagic) {
      const std::uint32_t rows = read_number();
      const std::uint32_t columns = read_number();
      if (rows != kSide || columns != kSide) {
        fail("holds images of " + std::to_string(rows) + " x " + std::to_string(columns) +
             " pixels, expected 28 x 28");
      }
    }
  }

  std::size_t count() const { return count_; }

  void read(std::span<std::uint8_t> bytes) {
    const int got = gzread(file_.get(), bytes.data(), static_cast<unsigned>(bytes.size()));
    if (got < 0 || static_cast<std::size_t>(got) != bytes.size()) {
      fail("is damaged or ends too early");
    }
  }

  /// Also makes zlib compare its checksum, which stands behind the last byte.
  void expect_end() {
    std::uint8_t byte = 0;
    if (gzread(file_.get(), &byte, 1) != 0) {
      fail("is damaged or holds more than the " + std::to_string(count_) + " samples it announces");
    }
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(path_.string() + " " + what);
  }

 private:
  struct Close {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };

  std::uint32_t read_number() {
    std::array<std::uint8_t, 4> bytes{};
    read(bytes);
    return (std::uint32_t{bytes[0]} << 24) | (std::uint32_t{bytes[1]} << 16) |
           (std::uint32_t{bytes[2]} << 8) | std::uint32_t{bytes[3]};
  }

  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, Close> file_;
  std::size_t count_ = 0;
};

IdxFile open_labels(const std::filesystem::path& folder, const std::string& set) {
  return {folder / (set + "-labels-idx1-ubyte.gz"), kLabelMagic};
}

IdxFile open_images(const std::filesystem::path& folder, const std::string& set) {
  return {folder / (set + "-images-idx3-ubyte.gz"), kImageMagic};
}

}  // namespace

std::size_t count_samples(const std::filesystem::path& folder, const std::string& set) {
  return open_labels(folder, set).count();
}

Samples read_samples(const std::filesystem::path& folder, const std::string& set,
                     const std::vector<std::size_t>& positions) {
  IdxFile labels = open_labels(folder, set);
  IdxFile images = open_images(folder, set);
  if (labels.count() != images.count()) {
    images.fail("holds " + std::to_string(images.count()) + " images, but there are " +
                std::to_string(labels.count()) + " labels");
  }
  // A gzipped file can only be read from the front, so every rank passes over all of it and keeps
  // what is its own: slots[p] says where sample p goes.
  constexpr std::size_t kUnwanted = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> slots(images.count(), kUnwanted);
  for (std::size_t slot = 0; slot < positions.size(); ++slot) {
    slots.at(positions[slot]) = slot;
  }
  Samples samples{std::vector<std::uint8_t>(positions.size() * kPixels),
                  std::vector<std::uint8_t>(positions.size())};
  std::array<std::uint8_t, kPixels> passed_over{};
  for (const std::size_t slot : slots) {
    std::uint8_t label = 0;
    labels.read({&label, 1});
    if (label >= kClasses) {
      labels.fail("holds the label " + std::to_string(label) + ", expected 0 to 9");
    }
    if (slot == kUnwanted) {
      images.read(passed_over);
      continue;
    }
    images.read(std::span(samples.images).subspan(slot * kPixels, kPixels));
    samples.labels[slot] = label;
  }
  labels.expect_end();
  images.expect_end();
  return samples;
}

std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(seed);
  for (std::size_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[random() % i]);
  }
  return order;
}

std::vector<std::size_t> shard_of(std::size_t count, std::uint64_t seed, const Split& split) {
  const std::vector<std::size_t> order = shuffled(count, seed);
  const std::size_t share = split.batch / split.ranks;
  std::vector<std::size_t> shard;
  for (std::size_t batch = 0; batch + split.batch <= count; batch += split.batch) {
    const auto first = order.begin() + static_cast<std::ptrdiff_t>(batch + split.rank * share);
    shard.insert(shard.end(), first, first + static_cast<std::ptrdiff_t>(share));
  }
  return shard;
}

}  // namespace fashion_mnist
