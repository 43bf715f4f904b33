// Computing while data travels: tutti::async has every collective once more, returning a Work at
// once. Here a backward pass produces the gradients of three layers one after the other; each is
// sent off as soon as it is there. Start it with
//
//     tutti run -n 2 ./03_async_overlap
#include <tutti/tutti.hpp>

#include <iostream>
#include <vector>

namespace {

/// Stands for the computation of one layer's gradient.
tutti::Tensor gradient_of(int layer) {
  return tutti::Tensor::full({1000}, layer * 10 + tutti::get_rank());
}

}  // namespace

int main() {
  tutti::init_process_group();

  std::vector<tutti::Tensor> gradients;
  std::vector<tutti::Work> works;
  for (int layer = 3; layer >= 1; --layer) {
    gradients.push_back(gradient_of(layer));
    // Returns at once; the tensor must stay untouched until the Work is done. The Work keeps it
    // alive, so even dropping the handle would be fine.
    works.push_back(tutti::async::all_reduce(gradients.back(), {.op = tutti::ReduceOp::avg}));
  }

  // A callback runs on whichever thread completes the operation.
  works.front().then([](const tutti::Work& work) {
    if (tutti::get_rank() == 0 && work.is_success()) {
      std::cout << work.op_name() << " #" << work.sequence_number() << " is done" << std::endl;
    }
  });

  tutti::wait_all(works);  // rethrows the first error, once all have ended
  if (tutti::get_rank() == 0) {
    for (const tutti::Tensor& gradient : gradients) {
      std::cout << "mean gradient " << gradient.element(0).real() << std::endl;
    }
  }
  tutti::destroy_process_group();
}
