#pragma once
#ifndef offsetof
#define offsetof(TYPE, MEMBER) ((decltype(sizeof(0))) & (((TYPE *)0)->MEMBER))
#endif
namespace std {
typedef decltype(sizeof(0)) size_t;
typedef decltype((char *)0 - (char *)0) ptrdiff_t;
typedef decltype(nullptr) nullptr_t;
}
#ifndef KERNCAST_PARSE
typedef decltype((char *)0 - (char *)0) ptrdiff_t;
#endif
