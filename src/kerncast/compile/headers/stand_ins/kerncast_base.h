// What every C++ header of the host brings along, as the usual implementations do.
#pragma once
#include "cstddef"
#include "cstdint"
#include "type_traits"
#include "limits"
#include "algorithm"
#include "utility"
