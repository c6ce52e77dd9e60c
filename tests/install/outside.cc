// A program that is not of this tree: it sees acquit as a user does, through <acquit/acquit.h> and the library.

#include <acquit/acquit.h>

#include <cstdio>
#include <cstring>

int main()
{
    acquit::runtime::io_error failed(2, "opening the shop");
    std::puts(failed.what());
    return failed.code() == 2 && std::strstr(failed.what(), "opening the shop") != nullptr ? 0 : 1;
}
