// Which process this is: threads and locks do not survive a fork.
#pragma once

namespace ggmlpy {

long current_pid();
// True in a process that was forked after `pid` was taken.
bool forked_since(long pid);

}  // namespace ggmlpy
