#pragma once

/// # The runtime room
///
/// An event loop over io_uring for C++20 coroutines. It knows nothing of AMQP. One thread, one
/// loop; all objects of a loop belong to its thread, and `loop::post` is the one call for others.
///
/// **How a coroutine waits.** A `task` awaits a task, and so on, down to one *leaf*: an operation
/// that derives from `waiter` and lives in the frame that awaits it (a sleep, a read, an event).
/// The leaf registers with whoever will end it: the ring, the timer heap, a list. Ending is
/// `make_ready`, which links the leaf into the ready queue: no allocation, no user code. A turn of
/// the loop asks the kernel once, turns all completions into ready leaves, then resumes them one
/// after the other. So nothing recurses, and there is one order of events.
///
/// **How it is cancelled.** Each chain of tasks has a `cancel_context` that knows the chain's leaf.
/// A request is sticky: the leaf ends as soon as the kernel has let go of its memory, and throws
/// `operation_cancelled`; later waits throw at once. Where chains fork (`scope`, `with_timeout`)
/// the joining leaf passes the request on. Frames always run to their end: destructors see no half
/// states.
///
/// **Who outlives whom.** A scope outlives its tasks, a task its leaf, a leaf the kernel's use of
/// its memory. Whoever breaks that is stopped by an assertion, in release builds too.
///
/// **Memory.** Frames come from a pool by size, receive memory from a pool of segments, everything
/// else lives in frames. In a steady state nothing is taken from the heap.
///
/// **Time.** `loop::now` stands still within a turn. A loop with virtual time has no ring and jumps
/// from timer to timer; it throws `deadlock` when nothing can happen any more.
///
/// Where to look: loop.h, task.h, scope.h, timeout.h to use it; waiter.h to write an operation;
/// stream.h and socket.h for bytes; memory_stream.h and the virtual loop for tests.

#include <acquit/runtime/assert.h>
#include <acquit/runtime/cancel.h>
#include <acquit/runtime/clock.h>
#include <acquit/runtime/error.h>
#include <acquit/runtime/event.h>
#include <acquit/runtime/frame_pool.h>
#include <acquit/runtime/io_op.h>
#include <acquit/runtime/log.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/mailbox.h>
#include <acquit/runtime/memory_stream.h>
#include <acquit/runtime/offload.h>
#include <acquit/runtime/random.h>
#include <acquit/runtime/receive_buffer.h>
#include <acquit/runtime/resolve.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/signals.h>
#include <acquit/runtime/socket.h>
#include <acquit/runtime/stream.h>
#include <acquit/runtime/task.h>
#include <acquit/runtime/timeout.h>
#include <acquit/runtime/timer.h>
#include <acquit/runtime/turn_hook.h>
#include <acquit/runtime/waiter.h>
