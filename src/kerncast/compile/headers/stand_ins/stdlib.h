#pragma once
#ifndef KERNCAST_PARSE
namespace std { using ::malloc; using ::free; using ::abs; }
#endif
