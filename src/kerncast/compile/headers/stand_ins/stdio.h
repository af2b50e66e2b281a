#pragma once
struct KerncastFile; typedef struct KerncastFile FILE;
#ifndef KERNCAST_PARSE
namespace std { using ::printf; }
#endif
