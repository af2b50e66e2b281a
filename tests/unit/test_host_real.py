"""What programs really passed to their kernels, and host code seemed to say otherwise: small programs of the same form."""

from pathlib import Path

from host_programs import argument, launches_of


def test_an_instance_of_a_class_template_that_inherits_is_not_stated(tmp_path: Path) -> None:
    text = """
    template <class T> struct Base { T *data; int size; Base(T *d, int n) : data(d), size(n) {} };
    template <class T> struct View : Base<T> { View(T *d, int n) : Base<T>(d, n) {} };
    __global__ void k(View<float> v) {}
    int main() { float *d; cudaMalloc(&d, 40); View<float> v(d, 10); k<<<1, 32>>>(v); }
    """
    (launch,) = launches_of(text, tmp_path)
    assert argument(launch, "v").is_undecided
