#include "ggml/device.h"

#include <map>
#include <mutex>

#include "ggml/guard.h"

namespace ggmlpy {
namespace {

// Registries are few and never forgotten: their states outlive every object that counts on them.
std::mutex states_mutex;
std::map<ggml_backend_reg_t, std::shared_ptr<RegistryState>>& states() {
    static auto* map = new std::map<ggml_backend_reg_t, std::shared_ptr<RegistryState>>();
    return *map;
}

// ggml never forgets a meta device, and neither is it forgotten what it is made of.
std::map<ggml_backend_dev_t, std::vector<Device>>& meta_parts() {
    static auto* map = new std::map<ggml_backend_dev_t, std::vector<Device>>();
    return *map;
}

}  // namespace

std::shared_ptr<RegistryState> state_of(ggml_backend_reg_t handle) {
    if (handle == nullptr) return nullptr;
    const std::lock_guard<std::mutex> lock(states_mutex);
    std::shared_ptr<RegistryState>& state = states()[handle];
    // A library that is loaded again may get the address of one that is gone.
    if (!state || state->gone) {
        state = std::make_shared<RegistryState>();
        state->handle = handle;
        state->name = ggml_backend_reg_name(handle);
    }
    return state;
}

Device::Device(ggml_backend_dev_t handle) : handle_(handle) {
    if (handle == nullptr) throw GgmlFailure("there is no such device");
    // A meta device that was registered is found again by its handle alone.
    {
        const std::lock_guard<std::mutex> lock(states_mutex);
        const auto known = meta_parts().find(handle);
        if (known != meta_parts().end()) parts_ = known->second;
    }
    registry_ = state_of(ggml_backend_dev_backend_reg(handle));
}

Device::Device(ggml_backend_dev_t handle, std::vector<Device> parts)
    : handle_(handle), parts_(std::move(parts)) {
    if (handle == nullptr) throw GgmlFailure("ggml made no meta device");
    const std::lock_guard<std::mutex> lock(states_mutex);
    meta_parts()[handle] = parts_;
}

ggml_backend_dev_t Device::get() const {
    if (registry_ && registry_->gone) {
        throw GgmlFailure("this device's library (" + registry_->name + ") was unloaded");
    }
    for (const Device& part : parts_) part.get();
    return handle_;
}

std::vector<Use> Device::uses() const {
    std::vector<Use> out;
    if (registry_) out.emplace_back(registry_);
    for (const Device& part : parts_) {
        for (Use& use : part.uses()) out.push_back(std::move(use));
    }
    return out;
}

Registry::Registry(ggml_backend_reg_t handle) : state_(state_of(handle)) {
    if (!state_) throw GgmlFailure("there is no such registry");
}

ggml_backend_reg_t Registry::get() const {
    if (state_->gone) throw GgmlFailure("the library of registry " + state_->name + " was unloaded");
    return state_->handle;
}

std::vector<Device> Registry::devices() const {
    std::vector<Device> out;
    for (std::size_t i = 0; i < ggml_backend_reg_dev_count(get()); ++i) {
        out.emplace_back(ggml_backend_reg_dev_get(get(), i));
    }
    return out;
}

bool Registry::registered() const {
    if (state_->gone) return false;
    for (std::size_t i = 0; i < ggml_backend_reg_count(); ++i) {
        if (ggml_backend_reg_get(i) == state_->handle) return true;
    }
    return false;
}

void Registry::unload() {
    if (!registered()) throw GgmlFailure("registry " + state_->name + " is not registered");
    if (state_->live > 0) {
        throw GgmlFailure("registry " + state_->name + " is in use: " + std::to_string(state_->live) +
                          " backends, buffers or other objects of its devices are alive; close them first");
    }
    ggml_backend_unload(state_->handle);
    state_->gone = state_->loaded_from_library;
}

std::vector<Registry> registries() {
    std::vector<Registry> out;
    for (std::size_t i = 0; i < ggml_backend_reg_count(); ++i) out.emplace_back(ggml_backend_reg_get(i));
    return out;
}

std::vector<Device> devices() {
    std::vector<Device> out;
    for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) out.emplace_back(ggml_backend_dev_get(i));
    return out;
}

}  // namespace ggmlpy
