#pragma once

#include <stdexcept>
#include <string>

/// The errors that an awaited operation can end with. A room adds its own kinds under `error`:
/// amqp has `connection_error`, `channel_error` and `publish_error`.
///
/// Errors of three other sorts never come as exceptions: bugs end the program with a message
/// (assert.h), malformed input is a status value of the codec, and settling cannot fail.
namespace acquit::runtime {

/// Base of everything that acquit throws.
class error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// A deadline passed before the operation was done.
class timed_out : public error {
public:
    using error::error;
};

/// Somebody asked for the end of the operation: a scope, a deadline further out, a shutdown.
class operation_cancelled : public error {
public:
    operation_cancelled() : error("operation cancelled") {}
    using error::error;
};

/// A system call or ring operation failed. `code()` is an errno value.
class io_error : public error {
public:
    io_error(int code, const std::string& what_failed);
    [[nodiscard]] int code() const noexcept { return code_; }

private:
    int code_;
};

} // namespace acquit::runtime
