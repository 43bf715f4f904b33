#include "options.hpp"

#include <CLI/CLI.hpp>

#include <cstdlib>
#include <string>

namespace fashion_mnist {

Options parse_options(int argc, char** argv) {
  Options options;
  std::string precision = "f32";
  CLI::App app("Trains a two-layer network on Fashion-MNIST, data-parallel over the ranks");
  app.add_option("--precision", precision, "of parameters and arithmetic")
      ->check(CLI::IsMember({"f32", "f64"}))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of weights and sample order")->capture_default_str();
  app.add_option("--epochs", options.epochs, "passes over the training set")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--batch", options.batch, "samples of one step over all ranks")
      ->check(CLI::Range(1, 60000))
      ->capture_default_str();
  app.add_option("--hidden", options.hidden, "units of the hidden layer")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--rate", options.rate, "learning rate of the first step")->capture_default_str();
  app.add_option("--momentum", options.momentum, "share of the last step's direction that is kept")
      ->capture_default_str();
  app.add_option("--steps", options.steps, "stop after so many steps (default: all epochs)");
  app.add_option("--data", options.data, "folder of the data set")->capture_default_str();
  app.add_option("--losses", options.losses, "write the loss of every step to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  options.precision = precision == "f64" ? Precision::f64 : Precision::f32;
  return options;
}

}  // namespace fashion_mnist
