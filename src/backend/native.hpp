// The native backend: the engine's lane of a group.
#pragma once

#include "backend/backend.hpp"
#include "engine/lane.hpp"

#include <memory>
#include <span>
#include <string>
#include <utility>

namespace tutti {

class NativeBackend final : public Backend {
 public:
  explicit NativeBackend(std::shared_ptr<Lane> lane) : lane_(std::move(lane)) {}
  const std::string& name() const override { return name_; }
  bool repeat(const Request& request) override { return lane_->repeat(request); }
  void run(const Request& request, const Call& call) override { lane_->run(request, call); }
  std::shared_ptr<WorkState> start(const Request& request, const Call& call) override {
    return lane_->start(request, call);
  }
  int transfer(const Request& request, const Call& call) override {
    return lane_->transfer(request, call);
  }
  void start_transfers(std::span<const Message> messages,
                       std::span<std::shared_ptr<WorkState>> works) override {
    lane_->start_transfers(messages, works);
  }

 private:
  std::shared_ptr<Lane> lane_;
  std::string name_ = "tutti";
};

}  // namespace tutti
