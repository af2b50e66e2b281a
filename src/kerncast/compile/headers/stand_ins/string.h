#pragma once
#ifndef KERNCAST_PARSE
namespace std { using ::memcpy; using ::memset; }
#endif
