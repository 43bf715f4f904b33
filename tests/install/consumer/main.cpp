// The smallest program outside of tutti: a job of one rank, one collective, one error that crosses
// the library's border and is caught by its type.
#include <tutti/tutti.hpp>

#include <cstdio>

namespace {

bool reduces(tutti::Context& context) {
  tutti::Group world = context.world();
  const tutti::Tensor tensor = tutti::Tensor::full({4}, 3.0);
  tutti::all_reduce(world, tensor);
  tutti::async::barrier(world).wait();
  return tensor.to_vector() == std::vector<double>{3, 3, 3, 3};
}

bool catches(tutti::Context& context) {
  tutti::Group world = context.world();
  try {
    tutti::broadcast(world, tutti::Tensor::zeros({1}), 7);
  } catch (const tutti::InvalidArgument& error) {
    std::printf("%s\n", error.what());
    return true;
  }
  return false;
}

}  // namespace

int main() {
  tutti::InitOptions options;
  options.store = tutti::make_hash_store();
  options.rank = 0;
  options.world_size = 1;
  const auto context = tutti::Context::create(options);
  const bool good = reduces(*context) && catches(*context);
  std::printf("tutti %s: %s\n", tutti::kVersion, good ? "works" : "is broken");
  return good ? 0 : 1;
}
