// Messages between two ranks: blocking, in a batch, and from whoever sends first. Start it with
//
//     tutti run -n 4 ./04_point_to_point
#include <tutti/tutti.hpp>

#include <array>
#include <iostream>

int main() {
  tutti::init_process_group();
  const int rank = tutti::get_rank();
  const int size = tutti::get_world_size();
  const auto mine = tutti::Tensor::full({2}, rank, tutti::DType::i64);
  const auto received = tutti::Tensor::zeros({2}, tutti::DType::i64);

  // Rank 0 sends, rank 1 receives. Dtype and number of elements must agree, else both are told.
  if (rank == 0) {
    tutti::send(tutti::Tensor::of({42.0F}), 1);
  } else if (rank == 1) {
    const auto answer = tutti::Tensor::zeros({1});
    tutti::recv(answer, 0);
    std::cout << "rank 1 received " << answer.item() << std::endl;
  }

  // Everybody sends to the next rank and receives from the previous one. A batch starts all
  // transfers together; a blocking send here might wait for a recv that nobody has reached yet.
  using Kind = tutti::P2POp::Kind;
  const std::array batch{
      tutti::P2POp{.kind = Kind::isend, .tensor = mine, .peer = (rank + 1) % size},
      tutti::P2POp{.kind = Kind::irecv, .tensor = received, .peer = (rank + size - 1) % size}};
  tutti::wait_all(tutti::batch_isend_irecv(batch));
  std::cout << "rank " << rank << " received " << received.to_string() << std::endl;

  // Rank 0 takes results as they come, whoever is first. Only messages of equal tag match.
  constexpr int kResult = 7;
  if (rank == 0) {
    double sum = 0;
    for (int i = 1; i < size; ++i) {
      const int sender = tutti::recv(received, tutti::kAnySource, {.tag = kResult});
      sum += received.element(0).real() * sender;
    }
    std::cout << "sum of squares " << sum << std::endl;
  } else {
    tutti::send(mine, 0, {.tag = kResult});
  }
  tutti::destroy_process_group();
}
