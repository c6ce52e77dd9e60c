#pragma once

#include <acquit/runtime/error.h>
