// A two-layer network: pixels -> hidden units (tanh) -> classes (softmax), trained with stochastic
// gradient descent and momentum. It knows nothing of ranks. All parameters lie in one flat tensor
// and all gradients in another, so that data-parallel training needs one broadcast at the start and
// one all_reduce per step: a "bucket" instead of a call per layer.
#pragma once

#include "data.hpp"
#include "matrix.hpp"

#include <tutti/tensor.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace fashion_mnist {

template <class T>
class Network {
 public:
  /// `samples`: most that one call of learn or count_correct will get.
  Network(std::size_t hidden, std::size_t samples)
      : hidden_(hidden),
        parameters_(tutti::Tensor::zeros({parameter_count()}, tutti::DTypeOf<T>::value)),
        velocity_(parameters_.clone()),
        bucket_(tutti::Tensor::zeros({parameter_count() + 1}, tutti::DTypeOf<T>::value)),
        inputs_(samples * kPixels),
        activations_(samples * hidden),
        outputs_(samples * kClasses),
        errors_(samples * hidden),
        weights2_turned_(kClasses * hidden) {}

  /// Both layers' weights and biases.
  const tutti::Tensor& parameters() const { return parameters_; }
  /// The gradient of each parameter, and behind them the loss, so that it travels in the same call.
  const tutti::Tensor& bucket() const { return bucket_; }
  double loss() const { return static_cast<double>(bucket_.data_as<T>()[parameters_.elements()]); }

  /// Draws weights of both layers with a variance that suits their number of inputs.
  void initialise(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const Layers layers = layers_of(parameters_);
    for (const Matrix<T>& weights : {layers.weights1, layers.weights2}) {
      const double bound = std::sqrt(3.0 / static_cast<double>(weights.rows));
      for (T& weight : std::span(weights.data, weights.rows * weights.columns)) {
        const double unit = static_cast<double>(random() >> 11) * 0x1p-53;  // [0, 1), any platform
        weight = static_cast<T>(bound * (2 * unit - 1));
      }
    }
  }

  /// Fills the bucket with the mean gradient and the mean loss of `count` samples from `first`.
  void learn(const Samples& samples, std::size_t first, std::size_t count) {
    run(samples, first, count);
    const double loss_sum = outputs_to_errors({&samples.labels[first], count});

    bucket_.fill(0);
    const Layers layers = layers_of(parameters_);
    const Layers gradients = layers_of(bucket_);
    const Matrix<T> inputs{inputs_.data(), count, kPixels};
    const Matrix<T> activations{activations_.data(), count, hidden_};
    const Matrix<T> outputs{outputs_.data(), count, kClasses};
    const Matrix<T> errors{errors_.data(), count, hidden_};

    add_product(gradients.weights2, activations.transposed(), outputs);
    add_rows(gradients.biases2, outputs);
    std::fill(errors_.begin(), errors_.end(), T{0});
    // add_product wants contiguous rows, so the small second layer is transposed by hand first.
    const Matrix<T> turned{weights2_turned_.data(), kClasses, hidden_};
    for (std::size_t i = 0; i < kClasses; ++i) {
      for (std::size_t j = 0; j < hidden_; ++j) {
        turned.at(i, j) = layers.weights2.at(j, i);
      }
    }
    add_product(errors, outputs, turned);
    for (std::size_t i = 0; i < count * hidden_; ++i) {
      errors_[i] *= 1 - activations_[i] * activations_[i];  // derivative of tanh
    }
    add_product(gradients.weights1, inputs.transposed(), errors);
    add_rows(gradients.biases1, errors);
    bucket_.data_as<T>()[parameters_.elements()] =
        static_cast<T>(loss_sum / static_cast<double>(count));
  }

  /// One step of gradient descent along the bucket's gradients.
  void update(double rate, double momentum) {
    T* parameters = parameters_.data_as<T>();
    T* velocity = velocity_.data_as<T>();
    const T* gradients = bucket_.data_as<T>();
    for (std::size_t i = 0; i < parameters_.elements(); ++i) {
      velocity[i] = static_cast<T>(momentum) * velocity[i] + gradients[i];
      parameters[i] -= static_cast<T>(rate) * velocity[i];
    }
  }

  /// How many of the samples get their own label as the likeliest class.
  std::size_t count_correct(const Samples& samples, std::size_t first, std::size_t count) {
    run(samples, first, count);
    std::size_t correct = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const T* output = &outputs_[i * kClasses];
      correct += std::max_element(output, output + kClasses) - output == samples.labels[first + i];
    }
    return correct;
  }

 private:
  /// Where each layer lies in a flat tensor.
  struct Layers {
    Matrix<T> weights1, biases1, weights2, biases2;
  };
  Layers layers_of(const tutti::Tensor& flat) const {
    T* const weights1 = flat.data_as<T>();
    T* const biases1 = weights1 + kPixels * hidden_;
    T* const weights2 = biases1 + hidden_;
    T* const biases2 = weights2 + hidden_ * kClasses;
    return {{weights1, kPixels, hidden_},
            {biases1, 1, hidden_},
            {weights2, hidden_, kClasses},
            {biases2, 1, kClasses}};
  }
  std::int64_t parameter_count() const {
    return static_cast<std::int64_t>((kPixels + 1) * hidden_ + (hidden_ + 1) * kClasses);
  }

  /// Forward: fills inputs_, activations_ and outputs_ (before the softmax).
  void run(const Samples& samples, std::size_t first, std::size_t count) {
    const std::uint8_t* pixels = &samples.images[first * kPixels];
    for (std::size_t i = 0; i < count * kPixels; ++i) {
      inputs_[i] = static_cast<T>(pixels[i]) / T{255};
    }
    const Layers layers = layers_of(parameters_);
    const Matrix<T> inputs{inputs_.data(), count, kPixels};
    const Matrix<T> activations{activations_.data(), count, hidden_};
    const Matrix<T> outputs{outputs_.data(), count, kClasses};
    set_rows(activations, layers.biases1);
    add_product(activations, inputs, layers.weights1);
    // Not ReLU: its kink turns a difference of rounding into a finite one, from which on the losses
    // of different numbers of ranks would drift apart in f32.
    for (T& value : std::span(activations_.data(), count * hidden_)) {
      value = std::tanh(value);
    }
    set_rows(outputs, layers.biases2);
    add_product(outputs, activations, layers.weights2);
  }

  /// Turns outputs_ into the derivative of the mean loss; returns the sum of the losses.
  double outputs_to_errors(std::span<const std::uint8_t> labels) {
    double loss_sum = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const std::span<T> output(&outputs_[i * kClasses], kClasses);
      const T top = *std::max_element(output.begin(), output.end());  // exp must not overflow
      T total = 0;
      for (T& value : output) {
        value = std::exp(value - top);
        total += value;
      }
      loss_sum -= std::log(static_cast<double>(output[labels[i]] / total));
      for (std::size_t j = 0; j < kClasses; ++j) {
        const T target = j == labels[i] ? T{1} : T{0};
        output[j] = (output[j] / total - target) / static_cast<T>(labels.size());
      }
    }
    return loss_sum;
  }

  static void set_rows(Matrix<T> matrix, Matrix<T> row) {
    for (std::size_t i = 0; i < matrix.rows; ++i) {
      std::copy_n(row.data, row.columns, matrix.row(i));
    }
  }
  static void add_rows(Matrix<T> sum, Matrix<T> matrix) {
    for (std::size_t i = 0; i < matrix.rows; ++i) {
      for (std::size_t j = 0; j < matrix.columns; ++j) {
        sum.data[j] += matrix.at(i, j);
      }
    }
  }

  std::size_t hidden_;
  tutti::Tensor parameters_, velocity_, bucket_;
  std::vector<T> inputs_, activations_, outputs_, errors_;  // scratch, one row per sample
  std::vector<T> weights2_turned_;
};

}  // namespace fashion_mnist
