// What the main job tells while it trains: a line per epoch, and, if asked for, a file with the
// loss of every step. Rank 0 speaks for all; the loss it has is the mean over the whole batch.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace fashion_mnist {

class Progress {
 public:
  struct Plan {
    std::size_t steps = 0;   ///< in all
    std::size_t epoch = 1;   ///< steps of one epoch
    bool is_silent = false;  ///< on every rank but 0
    std::filesystem::path losses{};
  };

  /// Throws std::runtime_error if the file of losses cannot be written.
  explicit Progress(Plan plan) : plan_(std::move(plan)) {
    if (!plan_.is_silent && !plan_.losses.empty()) {
      file_.open(plan_.losses);
      file_.precision(17);  // enough to read back the same number
      if (!file_) {
        throw std::runtime_error(plan_.losses.string() + " cannot be written");
      }
    }
  }

  /// Step number `step`, counted from 0, had this loss.
  void report(std::size_t step, double loss) {
    file_ << loss << '\n';  // nothing happens where no file is open
    epoch_loss_ += loss;
    ++epoch_steps_;
    const bool is_last = step + 1 == plan_.steps || (step + 1) % plan_.epoch == 0;
    if (plan_.is_silent || !is_last) {
      return;
    }
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    std::printf("epoch %zu  step %zu/%zu  loss %.4f  %.1f s\n", step / plan_.epoch + 1, step + 1,
                plan_.steps, epoch_loss_ / static_cast<double>(epoch_steps_), passed.count());
    std::fflush(stdout);
    epoch_loss_ = 0;
    epoch_steps_ = 0;
  }

 private:
  Plan plan_;
  std::ofstream file_{};
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double epoch_loss_ = 0;
  std::size_t epoch_steps_ = 0;
};

}  // namespace fashion_mnist
