#include "ggml/stream.h"

#include "ggml/guard.h"

namespace ggmlpy {
namespace {

bool has_events(ggml_backend_dev_t device) {
    ggml_backend_dev_props props = {};
    ggml_backend_dev_get_props(device, &props);
    return props.caps.events;
}

void require_events(const Backend& backend) {
    if (!has_events(backend.device().get())) {
        throw Unsupported("backend " + backend.name() + " has no events");
    }
}

}  // namespace

Event::Event(Device device) : device_(std::move(device)), uses_(device_.uses()) {
    Guard guard;
    if (has_events(device_.get())) {
        handle_.reset(ggml_backend_event_new(device_.get()), [](ggml_backend_event_t e) {
            if (e != nullptr) ggml_backend_event_free(e);
        });
    }
    if (!handle_) {
        throw Unsupported(std::string("device ") + ggml_backend_dev_name(device_.get()) + " has no events");
    }
}

ggml_backend_event_t Event::get() const {
    if (!handle_) throw GgmlFailure("this event was closed");
    return handle_.get();
}

void Event::record(Backend& backend) {
    Guard guard;
    require_events(backend);
    ggml_backend_event_record(get(), backend.get());
}

std::shared_ptr<ggml_backend_event> Event::handle() const {
    get();
    return handle_;
}

void Event::wait(Backend& backend) {
    Guard guard;
    require_events(backend);
    ggml_backend_event_wait(backend.get(), get());
}

GraphPlan::GraphPlan(std::shared_ptr<Backend> backend, std::shared_ptr<Graph> graph)
    : backend_(std::move(backend)),
      pools_(backend_->pools()),
      graph_(std::move(graph)),
      n_threads_(backend_->n_threads()),
      n_nodes_(graph_->n_nodes()) {
    if (!backend_->is_cpu()) throw Unsupported("backend " + backend_->name() + " has no graph plans");
    Guard guard;
    check_computable();
    handle_ = ggml_backend_graph_plan_create(backend_->get(), graph_->get());
    if (handle_ == nullptr) throw GgmlFailure("cannot make a plan of the graph");
    backend_->add_plan(this);
}

void GraphPlan::check_computable() const {
    backend_->check_process();
    if (graph_->n_nodes() != n_nodes_)
        throw GgmlFailure("the graph has grown since this plan was made of it");
    ggmlpy::check_computable(*graph_, backend_->get());
}

void GraphPlan::compute() {
    if (handle_ == nullptr) throw GgmlFailure("this plan was closed");
    if (backend_->n_threads() != n_threads_ || backend_->pools() != pools_) {
        throw GgmlFailure("the backend's threads were changed after this plan was made: make a new plan");
    }
    check_indices(*graph_);
    const ggml_status status = ggml_backend_graph_plan_compute(backend_->get(), handle_);
    if (status != GGML_STATUS_SUCCESS) {
        throw GgmlFailure(std::string("compute failed: ") + ggml_status_to_string(status));
    }
}

void GraphPlan::close() {
    if (handle_ == nullptr) return;
    ggml_backend_graph_plan_free(backend_->get(), handle_);
    handle_ = nullptr;
    backend_->remove_plan(this);
}

}  // namespace ggmlpy
