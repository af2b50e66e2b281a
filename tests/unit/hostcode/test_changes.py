"""A number of host code that changes in ways that are not followed is a question mark, never another number."""

from pathlib import Path

import pytest

from kerncast.hostcode import HostLaunch
from tests.helpers.host_programs import argument, launches_of


@pytest.mark.parametrize(
    ("before", "body", "expression", "expected"),
    [  # the numbers are what the programs print where g++ 12 compiles them
        ("", "int n=3; if(argc==4) goto end; n=5; end: n+=1;", "n", 4),
        ("", "int n=3; goto end; n=5; end: ;", "n", 3),
        ("int g=3; void bump(int x){ if(x<2) return; g=8; }", "bump(1);", "g", 3),
        ("int next(){ static int n=0; return ++n; }", "next(); next();", "next()", 3),
        ("int next(){ static int n=0; n+=2; return n; }", "int a=next(); int b=next();", "a*10+b", 24),
        ("", "int a[3]={1,2,3}; int *p=a; p[1]=9;", "a[1]", 9),
        ("", "int a[3]={1,2,3}; int *p=a+1; *p=9;", "a[1]", 9),
        ("", "int a[3]={1,2,3}; int *p=a; p++; *p=9;", "a[1]", 9),
        ("#include <string.h>", "int a[3]={1,2,3}; memset(a,0,sizeof a);", "a[1]", 0),
        ("#include <string.h>", "int a[3]={1,2,3}; int b[3]={4,5,6}; memcpy(a,b,sizeof a);", "a[1]", 5),
        ("#include <stdlib.h>", "int n=(int)strtol(argv[1],0,16);", "n", 18),
        ("#include <stdlib.h>", 'int n=strtol("0x10",0,0);', "n", 16),
        ("#include <stdlib.h>", 'int n=strtol("010",nullptr,0);', "n", 8),
        ("#include <stdlib.h>", 'int n=atof("0x10");', "n", 16),
        ("#include <strings.h>", 'int n=strcasecmp("NAME",argv[3])?5:6;', "n", 6),
        ("", "int n=5; if(int m=3) n=m;", "n", 3),
        ("void f(int *a,int *b){ *a=1; *b=2; }", "int a=5; f(&a,&a);", "a", 2),
        ("union U{int i; unsigned char c[4];};", "U u; u.i=3; u.c[0]=9; ", "u.i", 9),
        ("", "int n=5; *(&n)=6;", "n", 6),
        ("", "int n=5; int m=6; (argc>1?n:m)=9;", "n*10+m", 96),
        ("", "int n=5,m=6; int *p = argc>1 ? &n : &m; *p=9;", "n*10+m", 96),
        ("struct S{ int n=3; };", "S a,b; a.n=5;", "b.n", 3),
        ("struct S{ int n=3; void set(int v){ n=v; } };", "S a,b; a.set(5); b.set(6);", "a.n*10+b.n", 56),
        (
            "struct S{ int n=3; void set(int v){ n=v; } int get(){ return n; } };",
            "S a,b; a.set(5);",
            "a.get()*10+b.get()",
            53,
        ),
        ("#include <vector>", "std::vector<int> v(10); v.reserve(20); v.erase(v.begin());", "(int)v.size()", 9),
        ("#include <vector>", "std::vector<int> v(10), w(5); v.swap(w);", "(int)v.size()", 5),
        ("#include <string>", 'std::string s=argv[1]; s+="0";', "std::stoi(s)", 120),
        ("", "int n=5; int *p=&n; n=8; int v=*p;", "v", 8),
        ("void f(int*p){ int *q=p; *q=9; }", "int n=5; f(&n);", "n", 9),
        (
            "struct B{ virtual int f(){return 1;} }; struct D:B{ int f() override {return 2;} };",
            "D d; B *b=&d;",
            "b->f()",
            2,
        ),
        ("struct S{ int v; operator int()const{ return v*2; } };", "S a{3};", "a", 6),
        ("struct S{ int v; S& operator+=(int x){ v+=x; return *this; } };", "S a{1}; a+=5;", "a.v", 6),
        ("struct S{ int v; S& operator++(){ v++; return *this; } };", "S a{1}; ++a;", "a.v", 2),
        ("struct S{ int v; int& operator[](int i){ return v; } };", "S a{1}; a[0]=5;", "a.v", 5),
        ("struct S{ int v; int& get(){ return v; } };", "S a{1}; a.get()=5;", "a.v", 5),
        ("int g=1; int& get(){ return g; }", "get()=5;", "g", 5),
        ("int g=1; int *get(){ return &g; }", "*get()=5;", "g", 5),
        ("int g=1; int &r=g;", "r=5;", "g", 5),
        ("int g=1; int *r=&g;", "*r=5;", "g", 5),
        ("int g=1; struct I{ I(){ g=5; } } i;", "", "g", 5),
        ("", "int n=5; int i=0; again: n+=2; if(++i<3) goto again;", "n", 11),
        ("#include <string.h>", "int n=5; for(int i=1;i<argc;i++) n++;", "n", 8),
        ("#include <string.h>\n#include<stdlib.h>", "int n=0; for(int i=1;i<argc;i++) n+=atoi(argv[i]);", "n", 14),
        ("struct S{int a,b;};", "S s{.b=4};", "s.a*10+s.b", 4),
        ("struct S{int a,b,c;};", "S s={.b=4};", "s.b*10+s.c", 40),
        ("#include <algorithm>", "int a[3]={3,1,2}; std::sort(a,a+3);", "a[0]", 1),
        ("#include <algorithm>", "int a[3]={3,1,2}; std::fill(a,a+3,9);", "a[0]", 9),
        ("struct S{ int a:3; unsigned b:3; };", "S s; s.a=7; s.b=9;", "s.b", 1),
        ("struct S{ int *p; S(int*q):p(q){} void go(){ *p=9; } };", "int n=5; S s(&n); s.go();", "n", 9),
        ("struct S{ int &p; S(int&q):p(q){} void go(){ p=9; } };", "int n=5; S s(n); s.go();", "n", 9),
        ("struct S{ int &p; };", "int n=5; S s{n}; s.p=9;", "n", 9),
        ("struct S{ int *p; }; void go(S s){ *s.p=9; }", "int n=5; S s={&n}; go(s);", "n", 9),
        ("int g; void cb(void(*f)()){ f(); } void set(){ g=9; }", "g=5; cb(set);", "g", 9),
        ("int f(int x){ try { if(x) throw 3; return 1; } catch(int e){ return e; } }", "", "f(1)", 3),
        ("int f(int x){ static int calls=0; calls++; return x+calls; }", "int a=f(1);", "a*10+f(1)", 23),
        ("int g=0; int f(){ g=1; return 0; }", "if(argc==9 && f()) ;", "g", 0),
        ("int g=0; int f(){ g=1; return 0; }", "int m = argc==9 ? f() : 3;", "g", 0),
        ("struct S{int a; S():a(3){} S& set(int v){a=v; return *this;} };", "S s; s.set(5).set(6);", "s.a", 6),
        ("int g=5; int f(){ return g++; }", "int a=f(); int b=f();", "a*100+b*10+g", 567),
    ],
)
def test_a_number_is_right_or_unknown(before: str, body: str, expression: str, expected: int, tmp_path: Path) -> None:
    kernel = "__global__ void k(int n) {}"
    text = f"{kernel}\n{before}\nint main(int argc, char **argv) {{\n{body}\nk<<<1, 32>>>({expression});\n}}\n"
    (launch,) = launches_of(text, tmp_path, "12 2.5 name")
    value = argument(launch, "n")
    assert value.value in {expected, None} or value.notes
    assert value.value is not None or value.reason


KERNELS = "__global__ void k(float *x, int n) {}\n__global__ void other(float *x, int n) {}\n"
BUFFER = "float *d; cudaMalloc(&d, 40);"


def only(before: str, body: str, folder: Path) -> HostLaunch:
    text = f"{KERNELS}{before}\nint main(int argc, char **argv) {{ {BUFFER} {body} }}\n"
    (launch,) = launches_of(text, folder, "12 2.5 name")
    return launch


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ("", "int n = 5; if (rand()) n = 9;"),
        ("int n = 5;", "if (rand()) n = 9;"),
        ("", "int n = 1; while (rand()) n *= 2;"),
        ("", "dim3 n(5, 3); unsigned *p = &n.x; *p = 9;"),
        ("", "dim3 n(5, 3); dim3 &m = n; m.x = 9;"),
        ("", "int n = -5;"),
    ],
)
def test_an_extent_that_may_change_is_left_to_decide(before: str, body: str, tmp_path: Path) -> None:
    launch = only(before, f"{body} k<<<n, 32>>>(d, 1);", tmp_path)
    assert isinstance(launch.grid.value, tuple)
    assert launch.grid.value[0] is None
    assert launch.grid.reason


def test_a_parameter_that_may_be_overwritten_is_left_to_decide(tmp_path: Path) -> None:
    run = "void run(float *d, int n) { if (rand()) n = 9; k<<<n, 32>>>(d, n); }"
    assert only(run, "run(d, 50);", tmp_path).grid.value == (None,)


def test_an_object_has_what_its_own_constructor_gives(tmp_path: Path) -> None:
    class_ = "struct A { int n; A(int m) : n(m) {} void go(float *d) { k<<<n, 32>>>(d, n); } };"
    assert only(class_, "A a(10); A b(20); b.go(d);", tmp_path).grid.value == (20,)


def test_a_value_that_later_passes_change_says_so(tmp_path: Path) -> None:
    launch = only("", "int n = 1; while (n < 50) { n *= 2; k<<<n, 32>>>(d, n); }", tmp_path)
    assert launch.grid.value == (2,)
    assert launch.grid.notes == ("in the first pass of the loop of k.cu:4",)


def test_a_first_pass_that_does_not_launch_says_nothing(tmp_path: Path) -> None:
    launch = only("", "for (int i = 0; i < 5; i++) { if (i == 3) k<<<1, 32>>>(d, i); }", tmp_path)
    assert argument(launch, "n").value is None
    assert argument(launch, "n").reason == "the first pass of the loop, or the first call, does not launch"


def test_a_pointer_to_one_of_several_kernels_is_left_to_decide(tmp_path: Path) -> None:
    launch = only("", "auto f = rand() ? k : other; f<<<1, 32>>>(d, 1);", tmp_path)
    assert (launch.kernel, launch.written) == ("?", "f")
    assert launch.undecided[0][0] == "kernel"


def test_launches_of_a_macro_that_is_not_known_share_one_block(tmp_path: Path) -> None:
    macro = "#define LAUNCH(g) (*table[g])<<<g, 32>>>(d, 1)\nextern void (*table[4])(float *, int);"
    assert only(macro, "LAUNCH(1); LAUNCH(2); LAUNCH(3);", tmp_path).kernel == "?"


def test_the_size_of_a_type_that_is_not_declared_is_not_known(tmp_path: Path) -> None:
    before = '#include "nowhere.h"\n__global__ void r(real *x, int n) {}'
    text = f"{before}\nint main() {{ real *d; cudaMalloc(&d, 10 * sizeof(real)); r<<<1, 32>>>(d, sizeof(real)); }}\n"
    (launch,) = launches_of(text, tmp_path)
    assert argument(launch, "n").value is None
    assert argument(launch, "x").is_undecided
