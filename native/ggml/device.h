// Devices and registries of ggml, and the count of what lives on each: a registry that was loaded from a
// library is unloaded only when nothing of it is in use.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ggml-backend.h"

namespace ggmlpy {

// What is known of a registry for as long as the process runs, one for each ggml_backend_reg_t.
struct RegistryState {
    ggml_backend_reg_t handle;
    std::string name;
    bool loaded_from_library = false;
    bool gone = false;         // its library was closed: nothing may touch the handle again
    std::atomic<int> live{0};  // backends, buffers, events and the like on its devices
};

// Counts one live object on a registry.
class Use {
  public:
    Use() = default;
    explicit Use(std::shared_ptr<RegistryState> registry) : registry_(std::move(registry)) {
        if (registry_) ++registry_->live;
    }
    ~Use() { release(); }
    Use(Use&& other) noexcept : registry_(std::move(other.registry_)) {}
    Use& operator=(Use&& other) noexcept {
        if (this != &other) {
            release();
            registry_ = std::move(other.registry_);
        }
        return *this;
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

  private:
    void release() {
        if (registry_) --registry_->live;
        registry_.reset();
    }
    std::shared_ptr<RegistryState> registry_;
};

// A compute device; borrowed from its registry, or a meta device, which ggml never frees.
class Device {
  public:
    // Throws GgmlFailure for null.
    explicit Device(ggml_backend_dev_t handle);
    // A meta device keeps the devices that it is made of.
    Device(ggml_backend_dev_t handle, std::vector<Device> parts);

    // Throws GgmlFailure when the device's library was unloaded.
    ggml_backend_dev_t get() const;
    // The same device, and of the same loading of its library; asked of unloaded ones too.
    bool operator==(const Device& other) const {
        return handle_ == other.handle_ && registry_ == other.registry_;
    }
    std::uintptr_t id() const { return reinterpret_cast<std::uintptr_t>(handle_); }
    const std::shared_ptr<RegistryState>& registry() const { return registry_; }
    const std::vector<Device>& parts() const { return parts_; }
    std::vector<Use> uses() const;

  private:
    ggml_backend_dev_t handle_;
    std::shared_ptr<RegistryState> registry_;  // null for a meta device
    std::vector<Device> parts_;
};

class Registry {
  public:
    explicit Registry(ggml_backend_reg_t handle);
    explicit Registry(std::shared_ptr<RegistryState> state) : state_(std::move(state)) {}
    // Throws GgmlFailure when its library was unloaded.
    ggml_backend_reg_t get() const;
    const std::shared_ptr<RegistryState>& state() const { return state_; }
    std::vector<Device> devices() const;
    // Is it among ggml's registries now?
    bool registered() const;
    // Throws GgmlFailure while anything of it lives.
    void unload();

  private:
    std::shared_ptr<RegistryState> state_;
};

std::shared_ptr<RegistryState> state_of(ggml_backend_reg_t handle);
std::vector<Registry> registries();
std::vector<Device> devices();

}  // namespace ggmlpy
