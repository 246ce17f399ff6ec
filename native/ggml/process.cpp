#include "ggml/process.h"

#ifdef _WIN32
#include <process.h>
#else
#include <unistd.h>
#endif

namespace ggmlpy {

long current_pid() {
#ifdef _WIN32
    return static_cast<long>(_getpid());
#else
    return static_cast<long>(getpid());
#endif
}

bool forked_since(long pid) { return current_pid() != pid; }

}  // namespace ggmlpy
