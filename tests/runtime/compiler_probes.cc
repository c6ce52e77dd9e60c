// Asks a compiler which coroutine bugs it has, and ends with the number of those. It depends on
// nothing, so that it can be tried on a compiler before anything else is built:
//
//   clang++-19 -std=c++20 -O2 compiler_probes.cc -o probes && ./probes     # also -O0, and
//   -fsanitize=address
//   ./probes deep            # a million synchronous completions: overflows the stack without tail
//   calls
//
// g++ 12.2.0 of Debian 12 aborts with a double free at -O0 and -O2. clang 19.1.7 passes every row,
// with and without AddressSanitizer.

#include <coroutine>
#include <cstdio>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <string>
#include <tuple>
#include <utility>

namespace {

int bugs = 0;

void report(const char* name, bool ok)
{
    std::printf("%-58s %s\n", name, ok ? "ok" : "BUG");
    bugs += ok ? 0 : 1;
}

// Rows that GCC 14 and 16 fail and that no handler of ours or of a user runs into by accident: a co_await in the
// operand of a compiler builtin, and in which order parameters are destroyed.
void report_unless_gcc(const char* name, bool ok)
{
#if defined(__GNUC__) && !defined(__clang__)
    if (!ok) {
        std::printf("%-58s known on GCC\n", name);
        return;
    }
#endif
    report(name, ok);
}

// Balance of constructions and destructions; `self` shows a bitwise copy (destroyed elsewhere than
// it was built).
struct tracked {
    static inline int alive = 0;
    static inline int moved_bitwise = 0;

    const tracked* self = this;

    tracked() noexcept { ++alive; }
    tracked(const tracked&) noexcept { ++alive; }
    tracked(tracked&&) noexcept { ++alive; }
    tracked& operator=(const tracked&) noexcept { return *this; }

    ~tracked()
    {
        --alive;
        if (self != this)
            ++moved_bitwise;
    }

    static void reset() { alive = moved_bitwise = 0; }
    static bool balanced() { return alive == 0 && moved_bitwise == 0; }
};

struct task {
    struct promise_type {
        std::coroutine_handle<> continuation = std::noop_coroutine();
        std::exception_ptr error;

        task get_return_object() noexcept
        {
            return task(std::coroutine_handle<promise_type>::from_promise(*this));
        }

        std::suspend_always initial_suspend() noexcept { return {}; }

        struct final_awaiter {
            bool await_ready() noexcept { return false; }

            std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> h) noexcept
            {
                return h.promise().continuation;
            }

            void await_resume() noexcept {}
        };

        final_awaiter final_suspend() noexcept { return {}; }
        void return_void() noexcept {}
        void unhandled_exception() noexcept { error = std::current_exception(); }
    };

    using handle = std::coroutine_handle<promise_type>;

    struct awaiter {
        handle child;

        bool await_ready() noexcept { return false; }

        std::coroutine_handle<> await_suspend(std::coroutine_handle<> parent) noexcept
        {
            child.promise().continuation = parent;
            return child;
        }

        void await_resume()
        {
            if (child.promise().error)
                std::rethrow_exception(child.promise().error);
        }
    };

    explicit task(handle h) noexcept : h_(h) {}
    task(task&& other) noexcept : h_(std::exchange(other.h_, handle{})) {}
    task& operator=(task&&) = delete;

    ~task()
    {
        if (h_)
            h_.destroy();
    }

    awaiter operator co_await() && noexcept { return awaiter{h_}; }

    void start() { h_.resume(); }
    bool failed() const { return h_.promise().error != nullptr; }

private:
    handle h_;
};

std::coroutine_handle<> parked;

// A real suspension: the driver resumes it later, as an event loop would.
struct park {
    bool await_ready() noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) noexcept { parked = h; }
    void await_resume() noexcept {}
};

bool drive(task t)
{
    t.start();
    while (parked) {
        auto h = std::exchange(parked, std::coroutine_handle<>{});
        h.resume();
    }
    return !t.failed();
}

// ---- C1: captures of a lambda created inside the co_await statement (PR99576, PR100611)
// ----------

task lambda_copy_capture()
{
    tracked t;
    co_await [t]() -> task { co_await park{}; }();
}

task lambda_init_capture()
{
    co_await [t = tracked{}]() -> task { co_await park{}; }();
}

// ---- C2: aggregate temporaries with non-trivial members (PR101976)
// -------------------------------

struct aggregate {
    tracked member;
};

struct options {
    std::string exchange;
    tracked member;
    int flags = 0;
};

task by_value_aggregate(aggregate)
{
    co_await park{};
}
task by_value_options(options)
{
    co_await park{};
}
task by_ref_options(const options& o)
{
    co_await park{};
    if (o.exchange.size() != 64)
        std::terminate();
}

task aggregate_braces()
{
    co_await by_value_aggregate({});
}
task aggregate_designated()
{
    co_await by_value_options({.exchange = std::string(64, 'x'), .member = {}, .flags = 1});
}
task aggregate_by_reference()
{
    co_await by_ref_options({std::string(64, 'x'), {}, 1});
}

// ---- C3: plain temporaries in the arguments of an awaited call (PR95599 family, fixed long ago)
// --

task by_value(tracked)
{
    co_await park{};
}
task by_ref(const tracked& t)
{
    co_await park{};
    if (t.self != &t)
        std::terminate();
}

task temporary_by_value()
{
    co_await by_value(tracked{});
}
task temporary_by_ref()
{
    co_await by_ref(tracked{});
}

// ---- C4: several awaits in one statement (PR101118) and conditional operators
// ---------------------

struct ready_int {
    tracked t;
    int value;

    explicit ready_int(int v) : value(v) {}
    ready_int(ready_int&&) = default;
    bool await_ready() noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) noexcept { parked = h; }
    int await_resume() noexcept { return value; }
};

int sum_seen = 0;

task two_awaits_in_one_statement()
{
    sum_seen = co_await ready_int(1) + co_await ready_int(2);
}

task await_in_both_arms(bool flag)
{
    sum_seen = flag ? co_await ready_int(3) : co_await ready_int(4);
}

task await_in_one_arm(bool flag)
{
    sum_seen = flag ? co_await ready_int(5) : 6;
}

task await_behind_and(bool flag)
{
    bool both = flag && (co_await ready_int(1) == 1);
    sum_seen = both ? 7 : 8;
}

// ---- C5: co_await inside an operand that is not evaluated (PR101027, PR116775)
// ---------------------

int awaits_counted = 0;

struct counting {
    bool await_ready() noexcept
    {
        ++awaits_counted;
        return true;
    }
    void await_suspend(std::coroutine_handle<>) noexcept {}
    bool await_resume() noexcept { return true; }
};

#define CHECK_LIKE(...)                                                                            \
    do {                                                                                           \
        (void)__builtin_constant_p(__VA_ARGS__);                                                   \
        if (!(__VA_ARGS__))                                                                        \
            std::terminate();                                                                      \
    } while (false)

task await_in_check_macro()
{
    CHECK_LIKE(co_await counting{});
    co_return;
}

// ---- C6: lifetime of parameters
// ------------------------------------------------------------------

char order_log[8];
int order_at = 0;

struct ordered {
    char name;
    bool live = true;

    explicit ordered(char n) : name(n) {}
    ordered(ordered&& o) noexcept : name(o.name), live(std::exchange(o.live, false)) {}

    ~ordered()
    {
        if (live && order_at < 7)
            order_log[order_at++] = name;
    }
};

task two_parameters(ordered, ordered)
{
    co_await park{};
}

task throws_before_first_await(tracked)
{
    throw 1;
    co_return;
}

task catches()
{
    bool caught = false;
    try {
        auto t = throws_before_first_await(tracked{});
        co_await std::move(t);
    } catch (int) {
        caught = true;
    }
    if (!caught)
        std::terminate();
}

task holds(tracked)
{
    tracked local;
    co_await park{};
    (void)local;
}

// ---- C7: structured binding straight from co_await (PR124584 is GCC 15/16; kept as a tripwire)
// ----

struct ready_pair {
    bool await_ready() noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) noexcept { parked = h; }
    std::tuple<tracked, int> await_resume() noexcept { return {tracked{}, 1}; }
};

task binding_from_await()
{
    auto [t, n] = co_await ready_pair{};
    co_await park{};
    (void)t;
    sum_seen = n;
}

// ---- C8: coroutines without locals (Boost.Cobalt warns about 12.1 and 12.2)
// -----------------------

task no_locals()
{
    co_return;
}
task no_locals_suspends()
{
    co_await park{};
}
task awaits_no_locals()
{
    co_await no_locals();
    co_await no_locals_suspends();
    co_await no_locals();
}

#ifdef PROBE_INITLIST
task list_argument(std::initializer_list<int> l)
{
    sum_seen = static_cast<int>(l.size());
    co_return;
}
task await_initializer_list()
{
    co_await list_argument({1, 2, 3});
}
#endif

#ifdef PROBE_LVALUE_AWAITABLE
struct move_only {
    move_only() = default;
    move_only(move_only&&) = default;
    move_only(const move_only&) = delete;
    bool await_ready() const noexcept { return true; }
    void await_suspend(std::coroutine_handle<>) noexcept {}
    void await_resume() noexcept {}
};
task await_lvalue()
{
    move_only m;
    co_await m;
}
#endif

task deep_loop(int n)
{
    for (int i = 0; i < n; ++i)
        co_await no_locals();
}

void probe(const char* name, task t)
{
    bool ok = drive(std::move(t));
    report(name, ok && tracked::balanced());
    tracked::reset();
}

} // namespace

int main(int argc, char** argv)
{
    if (argc > 1 && std::strcmp(argv[1], "deep") == 0) {
        report("C9 a million synchronous completions", drive(deep_loop(1'000'000)));
        return bugs;
    }

    probe("C1 lambda with copied capture, awaited in place", lambda_copy_capture());
    probe("C1 lambda with init-capture, awaited in place", lambda_init_capture());
    probe("C2 braces for an aggregate parameter", aggregate_braces());
    probe("C2 designated initialisers for an options parameter", aggregate_designated());
    probe("C2 aggregate temporary bound to const&", aggregate_by_reference());
    probe("C3 temporary passed by value", temporary_by_value());
    probe("C3 temporary bound to const&", temporary_by_ref());

    probe("C4 two awaits in one statement", two_awaits_in_one_statement());
    report("C4   and the sum is right", sum_seen == 3);
    probe("C4 await in both arms of ?: (true)", await_in_both_arms(true));
    probe("C4 await in both arms of ?: (false)", await_in_both_arms(false));
    probe("C4 await in one arm of ?: (not taken)", await_in_one_arm(false));
    report("C4   and the other arm was chosen", sum_seen == 6);
    probe("C4 await behind && (not reached)", await_behind_and(false));
    report("C4   and the result is right", sum_seen == 8);

    probe("C5 await inside a check macro", await_in_check_macro());
    report_unless_gcc("C5   and it ran exactly once", awaits_counted == 1);

    probe("C6 exception before the first await", catches());
    {
        auto t = holds(tracked{});
        t.start();
        parked = std::coroutine_handle<>{};
    }
    report("C6 frame destroyed while suspended", tracked::balanced());
    tracked::reset();
    drive(two_parameters(ordered('a'), ordered('b')));
    report_unless_gcc("C6 parameters destroyed in reverse order",
                      std::strcmp(order_log, "ba") == 0);

    probe("C7 structured binding from co_await", binding_from_await());
    probe("C8 coroutines without locals", awaits_no_locals());

#ifdef PROBE_INITLIST
    probe("C10 initializer_list argument", await_initializer_list());
#endif
#ifdef PROBE_LVALUE_AWAITABLE
    probe("C11 lvalue move-only awaitable", await_lvalue());
#endif

    std::printf("\n%d row(s) marked BUG\n", bugs);
    return bugs;
}
